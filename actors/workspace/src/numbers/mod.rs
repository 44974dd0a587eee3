//! The messaging numbers of a workspace.

pub mod check;
pub mod check_daily;
pub mod notices;
pub mod portfolio;

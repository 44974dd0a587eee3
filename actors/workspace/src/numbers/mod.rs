//! The messaging numbers of a workspace.

pub mod notices;

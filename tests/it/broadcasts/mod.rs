//! Broadcasts: their life, their recipients, faults during them, and what analytics count.

mod analytics;
pub mod faults;
mod lifecycle;
mod preview;
mod progress;
mod recipients;
pub mod reported;

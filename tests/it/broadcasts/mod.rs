//! Broadcasts: their life, their recipients, faults during them, and what analytics count.

mod analytics;
mod faults;
mod lifecycle;
mod recipients;

//! The retention of the event logs.

use std::time::Duration;

/// The retention of an event log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventOptions {
    /// The time for which events are kept.
    pub kept_for: Duration,
    /// The maximum number of a workspace's events.
    pub kept_max: u64,
    /// The maximum bytes of a workspace's events.
    pub kept_bytes_max: u64,
}

impl Default for EventOptions {
    /// Returns thirty days, four million events (about a gigabyte, as most are), and two gigabytes.
    fn default() -> Self {
        Self {
            kept_for: Duration::from_secs(30 * 24 * 3600),
            kept_max: 4_000_000,
            kept_bytes_max: 2 << 30,
        }
    }
}

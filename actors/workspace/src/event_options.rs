//! How much of the event logs is kept.

use std::time::Duration;

/// How much of an event log is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventOptions {
    /// For how long.
    pub kept_for: Duration,
    /// Events of a workspace, at the most.
    pub kept_max: u64,
    /// Bytes of a workspace's events, at the most.
    pub kept_bytes_max: u64,
}

impl Default for EventOptions {
    /// Thirty days, four million events (about a gigabyte, as most are), and two gigabytes.
    fn default() -> Self {
        Self {
            kept_for: Duration::from_secs(30 * 24 * 3600),
            kept_max: 4_000_000,
            kept_bytes_max: 2 << 30,
        }
    }
}

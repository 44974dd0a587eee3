//! Broadcasts: the fan-out of one template to many recipients.
//!
//! Not an API: `postrider-actors` re-exports the items that embedders use, and this crate promises
//! no stability. Each running broadcast has an actor. It claims windows of recipients durably,
//! dispatches their messages to the number and records their outcomes.

mod actor;
pub mod audience;
pub mod control;
pub mod daily_counts;
pub mod directory;
pub mod directory_entry;
#[cfg(test)]
mod golden;
pub mod message;
pub mod outcomes;
mod pace;
mod placement;
pub mod plan;
pub mod ports;
pub mod provider_ids;
pub mod record;
pub mod recover;

use std::time::Duration;

pub use audience::{Audience, Variables, with_variables};
pub use control::{Control, ControlError};
pub use directory::{BroadcastSpec, Broadcasts, Wiring};
pub use directory_entry::{BroadcastEntry, BroadcastSlot};
pub use message::FanoutMessage;
pub use placement::{Budget, SharedBudget};
pub use ports::{BroadcastHost, CountedRecipients, Services};
pub use record::{BroadcastPolicy, BroadcastStatus};

/// The limits and policies of broadcasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BroadcastOptions {
    /// The maximum number of recipients of one broadcast.
    pub recipients_max: usize,
    /// The maximum lateness of a scheduled broadcast's start; a later one fails.
    pub max_lateness: Duration,
    /// The retention time of a finished broadcast, with its recipients and outcomes.
    pub kept_for: Duration,
    /// The percentage of failed messages beyond which a broadcast is paused; 0 is never.
    pub pause_failure_percent: u32,
    /// The number of outcomes from which on that percentage counts.
    pub pause_failure_min: u32,
}

impl Default for BroadcastOptions {
    fn default() -> Self {
        Self {
            recipients_max: 1_000_000,
            max_lateness: Duration::from_secs(3600),
            kept_for: Duration::from_secs(365 * 24 * 3600),
            pause_failure_percent: 50,
            pause_failure_min: 1000,
        }
    }
}

//! The services that every fan-out uses.

use std::sync::Arc;
use std::time::Duration;

use postrider_number::Numbers;
use postrider_runtime::clock::Clock;
use postrider_store::{View, Writer};

/// The services that every fan-out uses.
pub struct Services {
    /// Committed records.
    pub view: Arc<dyn View>,
    /// The group commit, which makes claims and outcomes durable.
    pub writer: Writer,
    /// Engine time.
    pub clock: Clock,
    /// The numbers to which messages are dispatched.
    pub numbers: Arc<Numbers>,
    /// How long after its claim a message may be sent.
    pub give_up: Duration,
    /// How long a number is down until another one takes its recipients over.
    pub reassign_after: Duration,
}

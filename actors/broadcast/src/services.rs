//! The services that every fan-out uses.

use std::sync::Arc;
use std::time::Duration;

use postrider_number::Numbers;
use postrider_runtime::clock::Clock;
use postrider_store::{View, Writer};

/// The services that every fan-out uses.
pub struct Services {
    /// The committed records.
    pub view: Arc<dyn View>,
    /// The group commit, which makes claims and outcomes durable.
    pub writer: Writer,
    /// The engine's clock.
    pub clock: Clock,
    /// The numbers to which messages are dispatched.
    pub numbers: Arc<Numbers>,
    /// The time after its claim during which a message may be sent.
    pub give_up: Duration,
    /// The time after which another number takes over the recipients of a number that is down.
    pub reassign_after: Duration,
}

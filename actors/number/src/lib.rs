//! Messaging numbers: each has an actor that dispatches messages to its channel.
//!
//! Not an API: `postrider-actors` re-exports the items that embedders use, and this crate promises
//! no stability. A number retries messages that the channel certainly did not accept, and stops
//! calling a channel that keeps failing. It makes nothing durable: it reports through
//! [`ports::OutcomeSink`].

mod actor;
pub mod capacity;
mod claim_queue;
mod close;
mod connections;
mod directory;
mod entry;
pub mod figures;
#[cfg(test)]
mod golden;
mod hour_counts;
mod message;
pub mod metrics;
pub mod notices;
mod paces;
mod panic_guard;
pub mod ports;
pub mod providers;
mod queue;
mod recipient_backoff;
pub mod record;
mod reporter;
mod throttle;
mod unacked;
mod unrecognized;

pub use directory::{NumberSpec, Numbers, Wiring};
pub use entry::{NumberEntry, NumberSlot};
pub use message::{NumberMessage, Wanted};
pub use ports::{Claims, Granted, OutcomeSink, Outcomes};

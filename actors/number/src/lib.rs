//! Messaging numbers: each has an actor that dispatches messages to its channel.
//!
//! Not an API: `postrider-actors` re-exports the items that embedders use, and this crate promises
//! no stability. A number retries messages that the channel certainly did not accept, and stops
//! calling a channel that keeps failing. It makes nothing durable: it reports through
//! [`ports::OutcomeSink`].

mod actor;
mod directory;
mod directory_entry;
pub mod figures;
#[cfg(test)]
mod golden;
mod message;
mod pace;
pub mod ports;
pub mod providers;
mod queue;
pub mod record;
mod throttle;

pub use directory::{NumberSpec, Numbers, Wiring};
pub use directory_entry::{NumberEntry, NumberSlot, Reservation};
pub use message::{HandedOver, NumberMessage, Wanted};
pub use ports::{Claims, Granted, NumberNotice, OutcomeSink, Outcomes, Recipient};

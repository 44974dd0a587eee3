//! The log is an append-only sequence of checksummed, chained commits; this is their format.
//!
//! Not an API: this crate promises no stability. It is not wired to the engine yet: the store's
//! `Log`, `View` and `Store` hold the durable truth.
//!
//! - A commit is one [`Entry`], or its parts.
//! - Positions have no gaps, and each entry holds the hash of the one before it: see [`Chain`].
//! - The epoch rises with each [`Claim`], so a writer that was replaced can write nothing.

pub mod body;
pub mod chain;
pub mod entry;
pub mod parts;
pub mod table;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod testing;

pub use body::{BodyError, CheckpointNote, Claim, GroupBody, Handoff, RecordChange};
pub use chain::{Chain, ChainFault};
pub use entry::{Entry, EntryFault, EntryHash, Header, Kind, LogId, Position};
pub use parts::{Commit, EncodeError, Joiner, Next, encode_commit};

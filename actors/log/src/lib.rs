//! The log is an append-only sequence of checksummed, chained commits, and the port to it.
//!
//! Not an API: this crate promises no stability. It is not wired to the engine yet: the store's
//! `Log`, `View` and `Store` hold the durable truth.
//!
//! # What it promises
//! - A commit is one [`Entry`], or its parts. [`Log::append`] returns when all of it is durable.
//! - Positions have no gaps, and each entry holds the hash of the one before it.
//! - Whoever applied entries can tell whether some are lost: [`check_witness`].
//! - The epoch rises with each [`claim`], so a writer that was replaced can write nothing.
//!
//! [`MemoryLog`] keeps the contract and keeps nothing when it ends.

pub mod body;
pub mod chain;
mod commit;
pub mod entry;
pub mod memory;
pub mod parts;
pub mod port;
pub mod table;

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod testing;

pub use body::{BodyError, CheckpointNote, Claim, GroupBody, Handoff, RecordChange};
pub use chain::{Chain, ChainFault};
pub use entry::{Entry, EntryFault, EntryHash, Header, Kind, LogId, Position};
pub use memory::{MemoryFault, MemoryLog};
pub use parts::{Commit, EncodeError, Joiner, Next, encode_commit};
pub use port::{
    AppendError, ClaimError, Log, LogError, Mark, Start, Tail, Witness, check_witness, claim,
    read_commits,
};

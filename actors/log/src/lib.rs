//! The log is an append-only sequence of checksummed, chained commits, and the port to it.
//!
//! Not an API: this crate promises no stability.
//!
//! # Purpose
//! The log is the durable truth. The keyed records are a view of it, and a backup, an export and a
//! replica can be created from its entries.
//!
//! # Guarantees
//! - A commit is one [`Entry`], or its parts. [`Log::append`] returns when all of it is durable.
//! - Positions have no gaps, and each entry holds the hash of the one before it.
//! - Damage is never taken for the end. Only the last commit may be cut off, and only if it was
//!   never acknowledged. A reader that applied lost entries detects that: [`check_witness`].
//! - The epoch rises with each [`claim`], so a writer that was replaced can write nothing.
//!
//! # The logs
//! [`FileLog`] is for one node. [`MemoryLog`] stores nothing. [`CrashingLog`] is the log in files
//! on a disk that fails as scripted. One suite tests all three.

pub mod backup_piece;
pub mod body;
pub mod chain;
pub mod commit_parts;
pub mod crashing;
pub mod entry;
pub mod file;
pub mod memory;
pub mod port;
pub mod table;

#[cfg(any(test, feature = "testing"))]
pub mod conformance;
#[cfg(test)]
mod golden;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use backup_piece::{PieceError, PieceReader, write_piece};
pub use body::{BodyError, CheckpointNote, Claim, GroupBody, Handoff, RecordChange};
pub use chain::{Chain, ChainFault};
pub use commit_parts::{
    Checked, Commit, EncodeError, Joiner, Next, check_commit, encode_commit, parts_of,
};
pub use crashing::{CrashingLog, Fault, Keep};
pub use entry::{Entry, EntryFault, EntryHash, Header, Kind, LogId, Position};
pub use file::inspect::{Inspection, LogGap, StoppedLog};
pub use file::{FileLog, FileOptions};
pub use memory::{MemoryFault, MemoryLog};
pub use port::{
    AppendError, ClaimError, Log, LogError, Mark, Start, Tail, Witness, check_witness, claim,
    read_commits,
};

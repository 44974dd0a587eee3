//! The port to durability has a log, a keyed view of it, and the group commit between them.
//!
//! Not an API: `postrider-actors` re-exports the items for embedders, and this crate promises no
//! stability besides that.
//!
//! A [`Store`] is two things. Its [`Log`] is a sequence of numbered [`Frame`]s, each holding the
//! events of one group commit; it rebuilds the state that actors keep in memory. Its [`View`] is
//! the state that the commits add up to: keyed values in [`Table`]s. One call of [`Store::commit`]
//! makes a frame and its changes of the view durable together, or not at all.
//!
//! Only this crate touches the disk. Only the [`writer`]'s thread calls `commit`, and [`rebase`] if
//! there is no writer. Readers take a `&dyn View`; recovery and snapshots take a `&dyn Log`.

pub mod archive;
pub mod audit_chain;
pub mod blobs;
pub mod check;
pub mod checkpoints;
pub mod copies;
pub mod crashing;
pub mod directory;
pub mod error;
pub mod fjall;
pub mod free_space;
pub mod log;
pub mod log_store;
pub mod memory;
pub mod rebase;
pub mod repair;
pub mod replica;
pub mod snapshot;
pub mod usage;
pub mod view;
mod whole_file;
pub mod writer;

#[cfg(test)]
pub(crate) mod conformance;
#[cfg(test)]
mod golden;
#[cfg(any(test, feature = "testing"))]
pub mod hooked;

pub use archive::{ArchiveCounts, ArchiveError, ArchiveHeader, ArchiveReader, ArchiveWriter};
pub use checkpoints::{Checkpoint, CheckpointDir, CheckpointError};
pub use crashing::{CrashOutcome, CrashingStore, Keep};
pub use directory::rebuild::{Progress, Rebuilding};
pub use error::StoreError;
pub use fjall::{FjallOptions, FjallView};
pub use free_space::{DirectorySpace, FreeSpace};
pub use log::{Figures, Frame, Group, Log, Position, Section};
pub use log_store::{LogStore, Step, Timing, Writes};
pub use memory::{MemoryStore, MemoryView};
pub use postrider_log::{self, Commit, EntryHash, LogError, LogId, Mark, PieceError};
pub use rebase::Rebase;
pub use snapshot::{LoadedSnapshot, SnapshotDir, SnapshotError};
pub use usage::Usage;
pub use view::event_log::EventEntry;
pub use view::log_chunk::{LogChunk, event_log_key, event_log_prefix, scan_event_log};
pub use view::{Change, Direction, MarkedView, Table, View, ViewSnapshot, Visit};
pub use writer::{
    Batch, ChangeRef, CommitError, GroupNumber, Notify, Subscriber, Writer, WriterOptions,
    WriterStats,
};

/// The key of the epoch where no log has it. It counts how often the store was opened for writing:
/// u64, big endian.
const EPOCH_KEY: &[u8] = b"epoch";

/// A durable sequence of commits and the state that they add up to, written in one atomic batch.
///
/// Every method blocks. Call them from the writer's thread or a blocking task. Only [`View::get`]
/// is quick enough for async code.
pub trait Store: Log + View {
    /// Makes the group's frame and changes durable, all or none, in the order of the calls.
    ///
    /// When it returns `Ok`, they survive a power failure.
    ///
    /// Returns the commit's position. A frame's number must be the one after the last position; if
    /// the commit takes several positions, it becomes that of the last. After an error every call
    /// fails until [`Log::reopen`].
    ///
    /// # Errors
    /// [`StoreError::Failed`]: all of the group is durable, or nothing, and which is unknown.
    fn commit(&self, group: Group<'_>) -> Result<Position, StoreError>;

    /// Raises the epoch durably, and returns it with the number of the last frame.
    ///
    /// Each writer must call it once before its first commit.
    ///
    /// # Errors
    /// Those of [`commit`](Self::commit); [`StoreError::Damaged`] when the epoch is not a number.
    fn begin_epoch(&self) -> Result<(u64, Position), StoreError> {
        let damaged = || StoreError::Damaged("the epoch is not a number".into());
        let epoch = match self.get(Table::Meta, EPOCH_KEY)? {
            None => 1,
            Some(bytes) => u64::from_be_bytes(bytes.try_into().map_err(|_| damaged())?) + 1,
        };
        let change = Change::put(Table::Meta, EPOCH_KEY, epoch.to_be_bytes());
        self.commit(Group::new(None, &[change]))?;
        Ok((epoch, self.last_position()?))
    }

    /// Marks a clean stop, after which nothing more is committed, so that the next start is short.
    ///
    /// # Errors
    /// [`StoreError::Failed`]: the next start is as after a crash.
    fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

//! Pure: the port to a view that says up to where it holds a log.

#[cfg(test)]
pub(crate) mod conformance;

use postrider_log::{LogId, Mark};

use super::{Change, Table, View};
use crate::{Position, StoreError};

/// Keys and values, in the order of the keys.
pub type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// Bytes of keys and values after which a page of a snapshot ends.
pub(crate) const PAGE_BYTES: usize = 1 << 20;

/// All tables of a view at one mark, whatever is applied meanwhile. Every method blocks.
pub trait ViewSnapshot: Send {
    /// The mark.
    fn mark(&self) -> Mark;

    /// The next records of a table: from its first one on, or behind a key. Empty at the end.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the disk cannot be read, or the view was opened again since.
    fn page(&self, table: Table, after: Option<&[u8]>) -> Result<Records, StoreError>;
}

/// A view of a log. It may lose what was applied since the last sync, and says from where the log
/// must be replayed. Every method blocks.
pub trait MarkedView: View {
    /// The log that it is a view of; `None` before [`begin`](Self::begin).
    ///
    /// # Errors
    /// [`StoreError`]: the view has failed.
    fn log(&self) -> Result<Option<LogId>, StoreError>;

    /// Says, durably, that what it holds is what this log adds up to at a mark.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the disk failed.
    fn begin(&self, log: LogId, at: &Mark) -> Result<(), StoreError>;

    /// Makes changes and moves the mark, all or nothing, without a sync. No two of the changes may
    /// name the same record. After an error every call fails until [`reopen`](Self::reopen).
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the disk failed.
    fn apply(&self, at: &Mark, changes: &[Change]) -> Result<(), StoreError>;

    /// The mark of what was applied last. Without one it is at [`Position::START`].
    ///
    /// # Errors
    /// [`StoreError`]: the view has failed.
    fn applied(&self) -> Result<Mark, StoreError>;

    /// Makes durable what was applied before the call, and returns up to where that is. After an
    /// error every call fails until [`reopen`](Self::reopen).
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the disk failed.
    fn sync(&self) -> Result<Position, StoreError>;

    /// Has the system write to the disk what was applied, if that is much by now, so that the next
    /// sync has little left to write. What is durable is reported by the sync only.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the disk failed.
    fn write_out(&self) -> Result<(), StoreError>;

    /// A lower bound of what survives a power cut.
    ///
    /// # Errors
    /// [`StoreError`]: the view has failed.
    fn synced(&self) -> Result<Position, StoreError>;

    /// What it holds now, at one mark.
    ///
    /// # Errors
    /// [`StoreError`]: the view has failed.
    fn snapshot(&self) -> Result<Box<dyn ViewSnapshot>, StoreError>;

    /// Opens the view again after a failure. What it shows then is no more than was applied, and
    /// what follows [`synced`](Self::synced) must be applied once more. Does nothing to a view that
    /// works.
    ///
    /// # Errors
    /// Those of opening it the first time. The caller may try again.
    fn reopen(&self) -> Result<(), StoreError>;
}

//! Pure: the port to a view that records its position in a log.

#[cfg(test)]
pub(crate) mod conformance;

use postrider_log::{LogId, Mark};

use super::{Change, Table, View};
use crate::{Position, StoreError};

/// Keys and values, in the order of the keys.
pub type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// Bytes of keys and values after which a page of a snapshot ends.
pub(crate) const PAGE_BYTES: usize = 1 << 20;

/// All tables of a view at one mark, unaffected by later changes. Every method blocks.
pub trait ViewSnapshot: Send {
    /// Returns the mark.
    fn mark(&self) -> Mark;

    /// Returns the next records of a table: from its start, or behind a key. Empty at the end.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the disk cannot be read, or the view was opened again since.
    fn page(&self, table: Table, after: Option<&[u8]>) -> Result<Records, StoreError>;
}

/// A view of a log.
///
/// It may lose the changes applied since the last sync, and reports the position from which the log
/// must be replayed. Every method blocks.
pub trait MarkedView: View {
    /// Returns the log of the view; `None` before [`begin`](Self::begin).
    ///
    /// # Errors
    /// [`StoreError`]: the view has failed.
    fn log(&self) -> Result<Option<LogId>, StoreError>;

    /// Records, durably, that its contents are those of this log at a mark.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the disk failed.
    fn begin(&self, log: LogId, at: &Mark) -> Result<(), StoreError>;

    /// Applies changes and moves the mark, all or nothing, without a sync.
    ///
    /// No two of the changes may name the same record. After an error every call fails until
    /// [`reopen`](Self::reopen).
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the disk failed.
    fn apply(&self, at: &Mark, changes: &[Change]) -> Result<(), StoreError>;

    /// Returns the mark of the last applied changes, at first at [`Position::START`].
    ///
    /// # Errors
    /// [`StoreError`]: the view has failed.
    fn applied(&self) -> Result<Mark, StoreError>;

    /// Makes the changes applied before the call durable, and returns their position.
    ///
    /// After an error every call fails until [`reopen`](Self::reopen).
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the disk failed.
    fn sync(&self) -> Result<Position, StoreError>;

    /// Has the system write the applied changes to the disk, if they are large by now.
    ///
    /// So the next sync has little left to write. Only the sync reports durability.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the disk failed.
    fn write_out(&self) -> Result<(), StoreError>;

    /// Returns a lower bound of the position that survives a power cut.
    ///
    /// # Errors
    /// [`StoreError`]: the view has failed.
    fn synced(&self) -> Result<Position, StoreError>;

    /// Returns its current contents, at one mark.
    ///
    /// # Errors
    /// [`StoreError`]: the view has failed.
    fn snapshot(&self) -> Result<Box<dyn ViewSnapshot>, StoreError>;

    /// Opens the view again after a failure.
    ///
    /// It then shows no more than was applied, and the changes after [`synced`](Self::synced) must
    /// be applied again. Does nothing to a view that works.
    ///
    /// # Errors
    /// Those of opening it the first time. The caller may try again.
    fn reopen(&self) -> Result<(), StoreError>;
}

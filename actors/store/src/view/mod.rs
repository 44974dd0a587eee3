//! Pure: the port to committed records, which are keyed values in tables.
//!
//! A view that records its position in a log is a [`MarkedView`].

pub mod codec;
#[cfg(test)]
pub(crate) mod conformance;
pub mod event_index;
pub mod event_log;
pub mod log_chunk;
mod table;

use std::ops::ControlFlow;

use postrider_log::{LogId, Mark, Position};

pub use table::Table;

use crate::error::StoreError;

/// One change of one record. Within a commit, no two changes may name the same record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The record's table.
    pub table: Table,
    /// Its key, 1 to 1,024 bytes.
    pub key: Vec<u8>,
    /// Its new value, or `None` to delete it.
    pub value: Option<Vec<u8>>,
}

impl Change {
    /// Writes a record.
    #[must_use]
    pub fn put(table: Table, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self { table, key: key.into(), value: Some(value.into()) }
    }

    /// Deletes a record. Deleting a missing record is no error.
    #[must_use]
    pub fn delete(table: Table, key: impl Into<Vec<u8>>) -> Self {
        Self { table, key: key.into(), value: None }
    }
}

/// The direction of a [`View::scan`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the smallest key up.
    Forward,
    /// From the largest key down.
    Backward,
}

/// Called with each key and value. Returns whether the scan continues.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// The port to the committed records.
///
/// Every method blocks. Only [`get`](View::get) is quick enough for async code.
pub trait View: Send + Sync + 'static {
    /// Returns the value of a committed record.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the disk cannot be read.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Returns the bytes of a committed record's value, which may be cheaper than the value.
    ///
    /// # Errors
    /// Those of [`get`](View::get).
    fn value_bytes(&self, table: Table, key: &[u8]) -> Result<Option<u64>, StoreError> {
        Ok(self.get(table, key)?.map(|value| value.len() as u64))
    }

    /// Visits the committed records whose key starts with `prefix`.
    ///
    /// If `from` is given, the scan starts there: at or after it, or at or before it in
    /// [`Direction::Backward`].
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the disk cannot be read.
    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        from: Option<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), StoreError>;

    /// Returns the records of the present moment, unaffected by later commits.
    ///
    /// It is for one answer whose parts must fit together. A failed view may be opened again
    /// meanwhile, and then its moments fail. `None`: each read shows the records committed by then.
    ///
    /// # Errors
    /// [`StoreError::Failed`]: the view has failed.
    fn moment(&self) -> Result<Option<Box<dyn View>>, StoreError> {
        Ok(None)
    }
}

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

    /// Makes the system write the applied changes to the disk, if they are large by now.
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

/// Returns the least key greater than all with the prefix; `None` if there is no such key.
pub(crate) fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Returns a scan's `from`, unless it is outside of the prefix on the side where the scan starts.
pub(crate) fn bounding<'a>(
    prefix: &[u8],
    from: Option<&'a [u8]>,
    direction: Direction,
) -> Option<&'a [u8]> {
    from.filter(|from| match direction {
        Direction::Forward => *from > prefix,
        Direction::Backward => *from < prefix || from.starts_with(prefix),
    })
}

//! Pure: the port to committed records, which are keyed values in tables.

pub mod audit;
pub mod codec;
#[cfg(test)]
pub(crate) mod conformance;
pub mod event_index;
pub mod event_log;
pub mod log_chunk;
pub(crate) mod marked;
mod table;

use std::ops::ControlFlow;

pub use marked::{MarkedView, Records, ViewSnapshot};
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

//! How far it is counted what each workspace has, and the slice that comes next.

use std::ops::ControlFlow;

use hashbrown::HashMap;

use super::{Counted, Delta, PREFIX, VERSION, note};
use crate::{Change, Direction, Group, Store, StoreError, Table, View};

/// Says that everything is counted. A directory of an earlier version does not have it.
const COMPLETE_KEY: &[u8] = b"usage";
/// Says up to where it is: a version byte, the number of the table, the last key.
pub(super) const CURSOR_KEY: &[u8] = b"usage_cursor";
/// Most records of a slice, and bytes after which it ends: about a millisecond. In tests of this
/// crate few, so that there are many slices.
pub(super) const SLICE_RECORDS: usize = if cfg!(test) { 3 } else { 1000 };
pub(super) const SLICE_BYTES: usize = 256 * 1024;
/// Most counts of a count that was not finished that one commit deletes.
const COUNTS_AT_ONCE: usize = 1000;

/// What records that were not counted yet add to each workspace, and how far it is counted then.
pub(crate) type UsageSlice = (HashMap<Vec<u8>, Delta>, UsageProgress);

/// How far everything is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UsageProgress {
    /// All of it.
    Complete,
    /// What is at or before this key, and all tables before its table, in the order of
    /// [`Table::ALL`].
    UpTo(usize, Vec<u8>),
}

impl UsageProgress {
    /// How far the counts of a store are. A new one has nothing to be counted. What an earlier
    /// version has counted half is forgotten.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn begin(store: &dyn Store) -> Result<Self, StoreError> {
        if let Some(kept) = Self::read(store)? {
            return Ok(kept);
        }
        let first = Self::UpTo(0, Vec::new());
        // A new directory has nothing to be counted.
        if first.slice(store)? == (HashMap::new(), Self::Complete) {
            store.commit(Group::new(None, &[Change::put(Table::Meta, COMPLETE_KEY, [VERSION])]))?;
            return Ok(Self::Complete);
        }
        tracing::info!("the bytes of all workspaces are counted once, because no count is kept");
        let mut stale = Vec::new();
        store.scan(Table::Meta, PREFIX, None, Direction::Forward, &mut |key, _| {
            stale.push(Change::delete(Table::Meta, key));
            ControlFlow::Continue(())
        })?;
        for some in stale.chunks(COUNTS_AT_ONCE) {
            store.commit(Group::new(None, some))?;
        }
        let (key, value) = first.record();
        store.commit(Group::new(None, &[Change { table: Table::Meta, key, value }]))?;
        Ok(first)
    }

    /// How far the counts of a store are; `None` where they were not begun.
    ///
    /// # Errors
    /// Those of [`View::get`], and [`StoreError::Damaged`].
    pub(crate) fn read(view: &dyn View) -> Result<Option<Self>, StoreError> {
        if view.get(Table::Meta, COMPLETE_KEY)?.is_some() {
            return Ok(Some(Self::Complete));
        }
        let Some(kept) = view.get(Table::Meta, CURSOR_KEY)? else { return Ok(None) };
        let decoded = match kept.split_first_chunk() {
            Some(([VERSION, table], key)) => Self::table_at(*table).map(|at| (at, key.to_vec())),
            _ => None,
        };
        let damaged = || StoreError::Damaged("up to where bytes are counted".into());
        decoded.map(|(at, key)| Some(Self::UpTo(at, key))).ok_or_else(damaged)
    }

    /// The place in [`Table::ALL`] of the table with this number.
    fn table_at(number: u8) -> Option<usize> {
        Table::ALL.iter().position(|table| table.number() == number)
    }

    /// The record that keeps it.
    pub(super) fn record(&self) -> Counted {
        match self {
            Self::Complete => (COMPLETE_KEY.to_vec(), Some(vec![VERSION])),
            Self::UpTo(at, key) => {
                let value = [&[VERSION, Table::ALL[*at].number()], key.as_slice()].concat();
                (CURSOR_KEY.to_vec(), Some(value))
            }
        }
    }

    /// Whether a record is in the counts.
    pub(super) fn has(&self, table: Table, key: &[u8]) -> bool {
        match self {
            Self::Complete => true,
            Self::UpTo(at, upto) => {
                let place = Table::ALL.iter().position(|it| *it == table);
                place.is_some_and(|place| place < *at || (place == *at && key <= upto.as_slice()))
            }
        }
    }

    /// Counts the records that come next, as they are committed.
    ///
    /// # Errors
    /// Those of [`View::scan`].
    pub(crate) fn slice(&self, view: &dyn View) -> Result<UsageSlice, StoreError> {
        let mut found = HashMap::new();
        let Self::UpTo(at, from) = self else { return Ok((found, Self::Complete)) };
        let (mut at, mut upto) = (*at, from.clone());
        let (mut records, mut bytes) = (0, 0);
        while let Some(table) = Table::ALL.get(at) {
            let mut is_over = true;
            if table.is_of_workspaces() {
                let from = (!upto.is_empty()).then(|| upto.clone());
                let from = from.as_deref();
                view.scan(*table, &[], from, Direction::Forward, &mut |key, value| {
                    if from == Some(key) {
                        return ControlFlow::Continue(());
                    }
                    if records >= SLICE_RECORDS || bytes >= SLICE_BYTES {
                        is_over = false;
                        return ControlFlow::Break(());
                    }
                    (records, bytes) = (records + 1, bytes + key.len() + value.len());
                    note(&mut found, *table, key, value);
                    upto = key.to_vec();
                    ControlFlow::Continue(())
                })?;
            }
            if !is_over {
                return Ok((found, Self::UpTo(at, upto)));
            }
            (at, upto) = (at + 1, Vec::new());
        }
        Ok((found, Self::Complete))
    }
}

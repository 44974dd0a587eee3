//! A snapshot of the view, which is read page by page, or as a view of one moment.
//!
//! The database is used only for the length of a page. So a failed one can be closed and opened
//! again while a slow reader holds a snapshot. That reader then gets an error.

use std::ops::Bound;
use std::sync::{Arc, Weak};

use ::fjall::{Readable, Snapshot};
use postrider_log::Mark;

use super::{APPLIED_KEY, Open, decoded, mark};
use crate::fjall::failure::damaged_or_failed;
use crate::view::ViewSnapshot;
use crate::view::marked::{PAGE_BYTES, Records};
use crate::{Direction, StoreError, Table, View, Visit};

struct FjallSnapshot {
    open: Weak<Open>,
    snapshot: Snapshot,
    mark: Mark,
}

/// Takes a snapshot. Changes and their mark are one batch, so its mark matches its records.
pub(super) fn take(open: &Arc<Open>) -> Result<Box<dyn ViewSnapshot>, StoreError> {
    let snapshot = open.base.database.snapshot();
    let value = snapshot.get(&open.state, APPLIED_KEY).map_err(damaged_or_failed)?;
    let applied = decoded::<32>(value, "the mark of the view")?;
    let mark = applied.as_ref().map(mark).unwrap_or_default();
    Ok(Box::new(FjallSnapshot { open: Arc::downgrade(open), snapshot, mark }))
}

impl ViewSnapshot for FjallSnapshot {
    fn mark(&self) -> Mark {
        self.mark
    }

    fn page(&self, table: Table, after: Option<&[u8]>) -> Result<Records, StoreError> {
        let closed = || StoreError::Failed("the view was closed while it was copied".into());
        let open = self.open.upgrade().ok_or_else(closed)?;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let range = (from, Bound::Unbounded);
        let (mut page, mut bytes) = (Records::new(), 0);
        for record in self.snapshot.range::<&[u8], _>(open.base.table(table), range) {
            let (key, value) = record.into_inner().map_err(damaged_or_failed)?;
            bytes += key.len() + value.len();
            page.push((key.to_vec(), value.to_vec()));
            if bytes >= PAGE_BYTES {
                break;
            }
        }
        Ok(page)
    }
}

struct Moment {
    open: Weak<Open>,
    snapshot: Snapshot,
}

/// Returns the view as it is now.
pub(super) fn moment(open: &Arc<Open>) -> Box<dyn View> {
    let snapshot = open.base.database.snapshot();
    Box::new(Moment { open: Arc::downgrade(open), snapshot })
}

impl Moment {
    fn open(&self) -> Result<Arc<Open>, StoreError> {
        let closed = || StoreError::Failed("the view was closed while it was read".into());
        self.open.upgrade().ok_or_else(closed)
    }
}

impl View for Moment {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let open = self.open()?;
        let value = self.snapshot.get(open.base.table(table), key).map_err(damaged_or_failed)?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        from: Option<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.open()?.base.scan_at(&self.snapshot, (table, prefix), from, direction, visit)
    }
}

//! A snapshot of the view, which is read page by page.
//!
//! The database is used only for the length of a page: one that has failed can be closed and opened
//! again while somebody reads a snapshot slowly. That reader then gets an error.

use std::ops::Bound;
use std::sync::{Arc, Weak};

use ::fjall::{Readable, Snapshot};
use postrider_log::Mark;

use super::{APPLIED_KEY, Open, decoded, mark};
use crate::fjall::failure::damaged_or_failed;
use crate::view::ViewSnapshot;
use crate::view::marked::{PAGE_BYTES, Records};
use crate::{StoreError, Table};

struct FjallSnapshot {
    open: Weak<Open>,
    snapshot: Snapshot,
    mark: Mark,
}

/// Takes a snapshot. Changes and their mark are one batch, so the mark that it shows is its own.
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

//! Pure: what is appended of a commit.

use postrider_log::body::ChangeRef;
use postrider_log::{Mark, Tail};

use crate::Change;

/// The mark of a view that has applied all of the log.
pub(super) const fn mark(tail: &Tail) -> Mark {
    Mark { position: tail.last, epoch: tail.epoch, hash: tail.hash }
}

/// The changes with the numbers of their tables.
pub(super) fn changes(all: &[Change]) -> impl ExactSizeIterator<Item = ChangeRef<'_>> + Clone {
    all.iter().map(|Change { table, key, value }| ChangeRef {
        table: table.number(),
        key,
        value: value.as_deref(),
    })
}

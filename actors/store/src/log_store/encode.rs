//! Pure: the values that are appended for a commit.

use postrider_domain::Timestamp;
use postrider_log::body::ChangeRef;
use postrider_log::{Mark, Tail};

use crate::Change;

/// Returns the mark of a view that has applied all of the log.
pub(super) const fn mark(tail: &Tail) -> Mark {
    Mark { position: tail.last, epoch: tail.epoch, hash: tail.hash }
}

/// Returns the engine time of the next entry, in milliseconds.
///
/// It never decreases along a log. The commits of a start have no time of their own, and the clock
/// may have been ahead before.
pub(super) fn dated(tail: &Tail, begun_at: Timestamp, time_ms: u64) -> u64 {
    let last_ms = tail.header.as_ref().map_or(0, |header| header.time_ms);
    time_ms.max(last_ms).max(begun_at.as_millis())
}

/// Returns the changes with the numbers of their tables.
pub(super) fn changes(all: &[Change]) -> impl ExactSizeIterator<Item = ChangeRef<'_>> + Clone {
    all.iter().map(|Change { table, key, value }| ChangeRef {
        table: table.number(),
        key,
        value: value.as_deref(),
    })
}

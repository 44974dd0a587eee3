//! Pure: what is appended of a commit.

use postrider_domain::Timestamp;
use postrider_log::body::ChangeRef;
use postrider_log::{Mark, Tail};

use crate::Change;

/// The mark of a view that has applied all of the log.
pub(super) const fn mark(tail: &Tail) -> Mark {
    Mark { position: tail.last, epoch: tail.epoch, hash: tail.hash }
}

/// The engine time of the next entry, in milliseconds. It never falls along a log: what a start
/// commits knows no time of its own, and the clock may have been ahead before.
pub(super) fn dated(tail: &Tail, begun_at: Timestamp, time_ms: u64) -> u64 {
    let last_ms = tail.header.as_ref().map_or(0, |header| header.time_ms);
    time_ms.max(last_ms).max(begun_at.as_millis())
}

/// The changes with the numbers of their tables.
pub(super) fn changes(all: &[Change]) -> impl ExactSizeIterator<Item = ChangeRef<'_>> + Clone {
    all.iter().map(|Change { table, key, value }| ChangeRef {
        table: table.number(),
        key,
        value: value.as_deref(),
    })
}

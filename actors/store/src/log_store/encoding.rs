//! Pure: a commit of the log: its changes and its frame, and the values that are appended for one.

use postrider_domain::Timestamp;
use postrider_log::body::ChangeRef;
use postrider_log::{Commit, GroupBody, Kind, Mark, RecordChange, Tail};

use crate::{Change, Frame, StoreError, Table};

/// Returns the changes of a commit; none if it is no group.
pub(crate) fn changes_of(commit: &Commit) -> Result<Vec<Change>, StoreError> {
    match commit.kind {
        Kind::Group => {
            let body = GroupBody::decode(commit.body.clone())?;
            body.changes.iter().map(decode_change).collect()
        }
        Kind::Claim | Kind::Checkpoint | Kind::Handoff => Ok(Vec::new()),
    }
}

/// Returns one change of a commit.
pub(crate) fn decode_change(change: &RecordChange) -> Result<Change, StoreError> {
    let RecordChange { table: number, key, value } = change;
    let newer = || StoreError::Newer(format!("it has records of table {number}"));
    let table = Table::of_number(*number).ok_or_else(newer)?;
    Ok(Change { table, key: key.to_vec(), value: value.as_ref().map(|value| value.to_vec()) })
}

/// Returns the journal's frame of a commit, if it has one.
pub(crate) fn frame_of(commit: &Commit) -> Result<Option<Frame>, StoreError> {
    if commit.kind != Kind::Group {
        return Ok(None);
    }
    let body = GroupBody::decode(commit.body.clone())?;
    if body.frame.is_empty() {
        return Ok(None);
    }
    let frame = Frame::decode(&body.frame)?;
    if frame.number != commit.position {
        let (frame, position) = (frame.number, commit.position);
        let what = format!("entry {position} of the log holds frame {frame}");
        return Err(StoreError::Damaged(what));
    }
    Ok(Some(frame))
}

/// Returns the mark of a view that has applied all of the log.
pub(super) const fn mark_of(tail: &Tail) -> Mark {
    Mark { position: tail.last, epoch: tail.epoch, hash: tail.hash }
}

/// Returns the engine time of the next entry, in milliseconds.
///
/// It never decreases along a log. The commits of a start have no time of their own, and the clock
/// may have been ahead before.
pub(super) fn entry_time_ms(tail: &Tail, begun_at: Timestamp, time_ms: u64) -> u64 {
    let last_ms = tail.header.as_ref().map_or(0, |header| header.time_ms);
    time_ms.max(last_ms).max(begun_at.as_millis())
}

/// Returns the changes with the numbers of their tables.
pub(super) fn change_refs(all: &[Change]) -> impl ExactSizeIterator<Item = ChangeRef<'_>> + Clone {
    all.iter().map(|Change { table, key, value }| ChangeRef {
        table: table.number(),
        key,
        value: value.as_deref(),
    })
}

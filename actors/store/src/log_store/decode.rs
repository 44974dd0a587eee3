//! Pure: the contents of a commit in the log.

use postrider_log::{Commit, GroupBody, Kind, RecordChange};

use crate::{Change, Frame, StoreError, Table};

/// Returns the changes of a commit; none if it is no group.
pub(crate) fn changes_of(commit: &Commit) -> Result<Vec<Change>, StoreError> {
    match commit.kind {
        Kind::Group => {
            let body = GroupBody::decode(commit.body.clone())?;
            body.changes.iter().map(change).collect()
        }
        Kind::Claim | Kind::Checkpoint | Kind::Handoff => Ok(Vec::new()),
    }
}

/// Returns one change of a commit.
pub(crate) fn change(change: &RecordChange) -> Result<Change, StoreError> {
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

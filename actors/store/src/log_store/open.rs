//! The view applies what the log has and it lacks.

use std::ops::ControlFlow;

use postrider_log::{
    self as log, Commit, GroupBody, Kind, Mark, RecordChange, Witness, check_witness, read_commits,
};

use crate::view::MarkedView;
use crate::{Change, Frame, Position, StoreError, Table};

/// Compares a log with a view, and has the view apply what it may have lost.
pub(super) fn catch_up(log: &dyn log::Log, view: &dyn MarkedView) -> Result<(), StoreError> {
    let of = view.log()?;
    if of.is_some_and(|of| of != log.id()) {
        return Err(StoreError::Damaged("the view is of another log".into()));
    }
    if check_witness(log, &view.applied()?)? == Witness::OtherHistory {
        let at = view.applied()?.position;
        let what = format!("the log has another entry at {at} than the view was made of");
        return Err(StoreError::Damaged(what));
    }
    if of.is_none() {
        view.begin(log.id(), &Mark::default())?;
    }
    let from = view.synced()?;
    let entries = apply_after(log, view, from)?;
    if entries > 0 {
        tracing::info!(entries, from = from.0, "the view has applied what it may have lost");
    }
    Ok(())
}

/// Has the view apply all commits after a position. Returns how many.
pub(super) fn apply_after(
    log: &dyn log::Log,
    view: &dyn MarkedView,
    after: Position,
) -> Result<u64, StoreError> {
    let (mut commits, mut failed) = (0, None);
    read_commits(log, after.next(), &mut |commit| match apply(view, &commit) {
        Ok(()) => {
            commits += 1;
            ControlFlow::Continue(())
        }
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    failed.map_or(Ok(commits), Err)
}

fn apply(view: &dyn MarkedView, commit: &Commit) -> Result<(), StoreError> {
    let at = Mark { position: commit.position, epoch: commit.epoch, hash: commit.hash };
    let changes = match commit.kind {
        Kind::Group => {
            let body = GroupBody::decode(commit.body.clone())?;
            body.changes.iter().map(change).collect::<Result<Vec<_>, _>>()?
        }
        Kind::Claim | Kind::Checkpoint | Kind::Handoff => Vec::new(),
    };
    view.apply(&at, &changes)
}

fn change(change: &RecordChange) -> Result<Change, StoreError> {
    let RecordChange { table: number, key, value } = change;
    let newer = || StoreError::Newer(format!("it has records of table {number}"));
    let table = Table::of_number(*number).ok_or_else(newer)?;
    Ok(Change { table, key: key.to_vec(), value: value.as_ref().map(|value| value.to_vec()) })
}

/// The journal's frame of a commit, if it has one.
pub(super) fn frame_of(commit: &Commit) -> Result<Option<Frame>, StoreError> {
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

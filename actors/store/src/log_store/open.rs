//! Applies the commits of the log that the view lacks.

use std::ops::ControlFlow;

use postrider_log::{self as log, Commit, Mark, Witness, check_witness, read_commits};

use super::decode::changes_of;
use crate::view::MarkedView;
use crate::{Position, StoreError};

/// Returns whether a commit is to be applied. If not, the application ends.
pub(crate) type Going<'a> = &'a mut dyn FnMut(&Commit) -> Result<bool, StoreError>;

/// Compares a log with a view, and applies the commits that the view may have lost.
///
/// Returns their number.
pub(crate) fn catch_up(
    log: &dyn log::Log,
    view: &dyn MarkedView,
    goes_on: Going<'_>,
) -> Result<u64, StoreError> {
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
    apply_after(log, view, view.synced()?, goes_on)
}

/// Logs that the view has applied commits at its opening.
pub(crate) fn log_applied(commits: u64) {
    if commits > 0 {
        tracing::info!(entries = commits, "the view has applied what it may have lost");
    }
}

/// Applies all commits after a position to the view. Returns their number.
pub(super) fn apply_after(
    log: &dyn log::Log,
    view: &dyn MarkedView,
    after: Position,
    goes_on: Going<'_>,
) -> Result<u64, StoreError> {
    let (mut commits, mut failed) = (0, None);
    let mut take = |commit: &Commit| {
        let goes_on = goes_on(commit)?;
        if goes_on {
            apply(view, commit)?;
            commits += 1;
        }
        Ok(goes_on)
    };
    read_commits(log, after.next(), &mut |commit| match take(&commit) {
        Ok(true) => ControlFlow::Continue(()),
        Ok(false) => ControlFlow::Break(()),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    failed.map_or(Ok(commits), Err)
}

/// Applies a commit to the view.
pub(crate) fn apply(view: &dyn MarkedView, commit: &Commit) -> Result<(), StoreError> {
    let at = Mark { position: commit.position, epoch: commit.epoch, hash: commit.hash };
    view.apply(&at, &changes_of(commit)?)
}

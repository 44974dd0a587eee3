//! Applies the commits of the log that the view lacks: at a start and after a failure.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use postrider_log::{self as log, Commit, Mark, Witness, check_witness, read_commits};

use super::Inner;
use super::encoding::{changes_of, entry_time_ms, mark_of};
use crate::view::MarkedView;
use crate::{Position, StoreError};

/// Returns whether a commit is to be applied. If not, the application ends.
pub(crate) type ApplyFilter<'a> = &'a mut dyn FnMut(&Commit) -> Result<bool, StoreError>;

/// Compares a log with a view, and applies the commits that the view may have lost.
///
/// Returns their number.
pub(crate) fn catch_up(
    log: &dyn log::Log,
    view: &dyn MarkedView,
    goes_on: ApplyFilter<'_>,
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
fn apply_after(
    log: &dyn log::Log,
    view: &dyn MarkedView,
    after: Position,
    goes_on: ApplyFilter<'_>,
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
    let at = Mark::of(commit);
    view.apply(&at, &changes_of(commit)?)
}

impl Inner {
    /// Begins the epoch of a writer.
    pub(super) fn claim(&self) -> Result<(u64, Position), StoreError> {
        let mut writing = self.writing.lock();
        self.check()?;
        let tail = self.log.tail().map_err(|error| self.fail(error.into(), false))?;
        if std::mem::take(&mut writing.had_no_room) {
            writing.noted = 0;
            return Ok((writing.epoch, tail.last));
        }
        let claimed = log::claim(&*self.log, &self.claim, entry_time_ms(&tail, self.begun_at, 0));
        let tail = claimed.map_err(|error| self.fail(error.into(), false))?;
        let applied = self.view.apply(&mark_of(&tail), &[]);
        applied.map_err(|error| self.fail(error, true))?;
        (writing.epoch, writing.noted) = (tail.epoch, 0);
        Ok((tail.epoch, tail.last))
    }

    /// Opens a failed store again.
    ///
    /// The visible log is then durable, and the view applies the commits that it lacks. So the
    /// outcome of a failed commit is known.
    pub(super) fn reopen(&self) -> Result<(), StoreError> {
        let mut writing = self.writing.lock();
        if self.check().is_ok() {
            return Ok(());
        }
        self.log.reopen()?;
        self.view.reopen()?;
        if self.is_hidden.load(Ordering::Acquire) {
            log_applied(catch_up(&*self.log, &*self.view, &mut |_| Ok(true))?);
        } else {
            // Nothing that readers see may go back.
            let at = self.view.applied()?.position;
            apply_after(&*self.log, &*self.view, at, &mut |_| Ok(true))?;
        }
        // The next append must be a claim.
        writing.had_no_room = false;
        *self.failed.write() = None;
        self.is_hidden.store(false, Ordering::Release);
        Ok(())
    }
}

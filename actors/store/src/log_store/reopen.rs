//! The start of a writer, and its recovery after a failure.

use std::sync::atomic::Ordering;

use postrider_log as log;

use super::encode::{dated, mark};
use super::{Inner, open};
use crate::{Position, StoreError};

impl Inner {
    pub(super) fn claim(&self) -> Result<(u64, Position), StoreError> {
        let mut writing = self.writing.lock();
        self.check()?;
        let tail = self.log.tail().map_err(|error| self.fail(error.into(), false))?;
        if std::mem::take(&mut writing.had_no_room) {
            writing.noted = 0;
            return Ok((writing.epoch, tail.last));
        }
        let claimed = log::claim(&*self.log, &self.claim, dated(&tail, self.begun_at, 0));
        let tail = claimed.map_err(|error| self.fail(error.into(), false))?;
        let applied = self.view.apply(&mark(&tail), &[]);
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
            open::log_applied(open::catch_up(&*self.log, &*self.view, &mut |_| Ok(true))?);
        } else {
            // Nothing that readers see may go back.
            let at = self.view.applied()?.position;
            open::apply_after(&*self.log, &*self.view, at, &mut |_| Ok(true))?;
        }
        // The next append must be a claim.
        writing.had_no_room = false;
        *self.failed.write() = None;
        self.is_hidden.store(false, Ordering::Release);
        Ok(())
    }
}

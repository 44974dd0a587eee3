//! The thread that syncs the view.
//!
//! Between two syncs it writes the view to the disk in portions. A second's worth at once
//! would delay the log's writes for tens of milliseconds, and each send of a code waits for the
//! log.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tracing::{error, info, warn};

use super::Inner;
use crate::StoreError;

/// The time between two syncs. After a power cut, a start replays about this much of the log.
const INTERVAL: Duration = Duration::from_secs(1);

/// The time between two checks for a portion to write.
const STEP: Duration = Duration::from_millis(50);

/// The thread, which runs until it is stopped.
pub(super) struct SyncThread {
    stopping: Arc<(Mutex<bool>, Condvar)>,
    thread: JoinHandle<()>,
}

impl SyncThread {
    pub(super) fn start(inner: &Arc<Inner>) -> Result<Self, StoreError> {
        let stopping = Arc::new((Mutex::new(false), Condvar::new()));
        let (inner, stop) = (Arc::clone(inner), Arc::clone(&stopping));
        let thread = std::thread::Builder::new().name("store-view-sync".into());
        let thread = thread.spawn(move || {
            let mut since_sync = Duration::ZERO;
            while wait(&stop) {
                since_sync += STEP;
                if since_sync < INTERVAL {
                    inner.write_out();
                } else {
                    inner.sync_or_reopen_view();
                    since_sync = Duration::ZERO;
                }
            }
        });
        let failed = |error| StoreError::Failed(format!("starting the view's syncs: {error}"));
        Ok(Self { stopping, thread: thread.map_err(failed)? })
    }

    /// Ends the thread and waits for it.
    pub(super) fn stop(self) {
        *self.stopping.0.lock() = true;
        self.stopping.1.notify_all();
        if self.thread.join().is_err() {
            error!("the thread that synced the view panicked");
        }
    }
}

/// Waits for the next step. Returns `false` at the end.
fn wait(stop: &(Mutex<bool>, Condvar)) -> bool {
    let mut stopping = stop.0.lock();
    if !*stopping {
        stop.1.wait_for(&mut stopping, STEP);
    }
    !*stopping
}

impl Inner {
    /// Writes the view to the disk if it changed much.
    pub(super) fn write_out(&self) {
        if self.check().is_ok()
            && let Err(error) = self.view.write_out()
        {
            let error = self.fail(error, true);
            error!(%error, "the view was not written; it is opened again");
        }
    }

    /// Syncs the view if it changed, or opens it again after a failure.
    ///
    /// The writer opens it again too, but only with the next write.
    pub(super) fn sync_or_reopen_view(&self) {
        if self.check().is_err() {
            if self.is_hidden.load(std::sync::atomic::Ordering::Acquire) && self.reopen().is_ok() {
                info!("the view is open again");
            }
            return;
        }
        let problem = self.log.problem();
        if let Some(problem) = &problem
            && self.problem.lock().is_none()
        {
            warn!(problem, "the log's next file cannot be made; the present one still has room");
        }
        *self.problem.lock() = problem;
        let is_behind = || Ok(self.view.applied()?.position > self.view.synced()?);
        match is_behind() {
            Ok(false) => {}
            Ok(true) => {
                if let Err(error) = self.sync() {
                    error!(%error, "the view was not synced; it is opened again");
                }
            }
            Err(error) => drop(self.fail(error, true)),
        }
    }
}

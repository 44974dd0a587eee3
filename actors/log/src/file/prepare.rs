//! Fills the next segment with zeros and syncs it while the present one is in use.
//!
//! Appending to bytes that the file system has already allocated and written is faster than to a
//! file that grows: a sync then need not write the file's length or its extents.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::disk::{Disk, DiskFile};

/// The name of the segment that is being prepared.
pub(super) const NEXT: &str = "next.tmp";

/// Bytes that are written and synced at once, so that commits meanwhile do not wait for long.
const STEP_BYTES: usize = 1024 * 1024;

type PreparedFile = (Arc<dyn DiskFile>, u64);

/// Prepares one segment at a time.
#[derive(Debug)]
pub(super) struct Preparer {
    disk: Arc<dyn Disk>,
    background: bool,
    stopping: Arc<AtomicBool>,
    state: PreparerState,
}

#[derive(Debug)]
enum PreparerState {
    Idle,
    Running(JoinHandle<io::Result<PreparedFile>>),
    Ready(PreparedFile),
    Failed(String),
}

impl Preparer {
    /// Prepares segments on a thread of their own if `background`, or when they are needed.
    pub(super) fn new(disk: Arc<dyn Disk>, background: bool) -> Self {
        Self { disk, background, stopping: Arc::default(), state: PreparerState::Idle }
    }

    /// Starts to prepare a segment of this length, unless that was already started.
    ///
    /// After a failure, only [`problem`](Self::problem) and [`take`](Self::take) try again.
    pub(super) fn begin(&mut self, length: u64) {
        if self.background && matches!(self.state, PreparerState::Idle) {
            self.spawn(length);
        }
    }

    fn spawn(&mut self, length: u64) {
        let (disk, stopping) = (self.disk.clone(), self.stopping.clone());
        let thread = std::thread::Builder::new().name("log-segment".to_owned());
        let spawned = thread.spawn(move || {
            let file = disk.create(NEXT)?;
            fill_with_zeros(&*file, 0, length, &stopping)
                .inspect_err(|_| remove_unfinished(&*disk))?;
            Ok((file, length))
        });
        self.state = match spawned {
            Ok(running) => PreparerState::Running(running),
            Err(error) => PreparerState::Failed(error.to_string()),
        };
    }

    /// Returns the segment, of at least this length.
    ///
    /// Waits for one that is being prepared, and creates it now if there is none.
    pub(super) fn take(&mut self, length: u64) -> io::Result<Arc<dyn DiskFile>> {
        self.join();
        let (file, have) = match std::mem::replace(&mut self.state, PreparerState::Idle) {
            PreparerState::Ready(prepared) => prepared,
            PreparerState::Idle | PreparerState::Running(_) | PreparerState::Failed(_) => {
                (self.disk.create(NEXT)?, 0)
            }
        };
        let filled = fill_with_zeros(&*file, have, length, &AtomicBool::new(false));
        filled.inspect_err(|_| remove_unfinished(&*self.disk))?;
        Ok(file)
    }

    /// Returns the reason why the next segment could not be prepared, if that failed, and retries.
    pub(super) fn problem(&mut self, length: u64) -> Option<String> {
        if matches!(&self.state, PreparerState::Running(running) if running.is_finished()) {
            self.join();
        }
        let PreparerState::Failed(problem) = &self.state else { return None };
        let problem = problem.clone();
        self.spawn(length);
        Some(problem)
    }

    fn join(&mut self) {
        self.state = match std::mem::replace(&mut self.state, PreparerState::Idle) {
            PreparerState::Running(running) => match running.join() {
                Ok(Ok(prepared)) => PreparerState::Ready(prepared),
                Ok(Err(error)) => PreparerState::Failed(error.to_string()),
                Err(_) => PreparerState::Failed("the thread that makes it has ended".to_owned()),
            },
            other => other,
        };
    }
}

impl Drop for Preparer {
    fn drop(&mut self) {
        // The next start removes an unfinished segment.
        self.stopping.store(true, Ordering::Relaxed);
        self.join();
    }
}

/// Removes a segment that cannot be created, so that it does not keep needed space.
pub(super) fn remove_unfinished(disk: &dyn Disk) {
    if let Err(error) = disk.remove(NEXT) {
        // The next try overwrites it, and the next start removes it.
        tracing::debug!(%error, "an unfinished segment cannot be removed");
    }
}

/// Writes zeros from `from` up to `to`, and syncs after each step.
pub(super) fn fill_with_zeros(
    file: &dyn DiskFile,
    from: u64,
    to: u64,
    stopping: &AtomicBool,
) -> io::Result<()> {
    let zeros = vec![0; STEP_BYTES];
    let mut at = from;
    while at < to {
        if stopping.load(Ordering::Relaxed) {
            return Err(io::Error::other("the log is being closed"));
        }
        let step = usize::try_from(to - at).unwrap_or(STEP_BYTES).min(STEP_BYTES);
        file.write_at(at, &zeros[..step])?;
        file.sync()?;
        at += step as u64;
    }
    Ok(())
}

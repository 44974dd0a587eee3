//! A log for tests that fails as scripted: it loses, tears and forgets as a real disk may.
//!
//! It is the log in files on a disk in memory, which knows the synced bytes of each sector. So a
//! crash runs the same recovery as on a real disk. It is part of the library so that embedders can
//! use it in their tests.

pub(crate) mod disk;

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use crate::entry::{Entry, LogId, Position};
use crate::file::{FileLog, FileOptions};
use crate::port::{AppendError, Log, LogError, Start, Tail};
use disk::SimDisk;

/// The failure of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is written.
    Lost,
    /// All is written and nothing is synced: a crash decides which bytes are kept.
    Written,
    /// Only this many bytes are written, and they are not synced.
    Torn(usize),
    /// All is written, and the sync fails. The kernel shows the written bytes, and never writes
    /// them.
    FailedSync,
    /// The disk reports a sync that it did not do: the append succeeds.
    Lying,
}

/// The unsynced bytes that survive a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Nothing.
    Nothing,
    /// Everything that the kernel had to write.
    Everything,
    /// Any of the sectors and the first of the changed names, drawn from this seed.
    Seed(u64),
    /// Everything that the kernel shows: only the process ends, not the machine.
    Cache,
}

/// A log on a disk in memory that fails as scripted.
#[derive(Debug)]
pub struct CrashingLog {
    disk: SimDisk,
    log: FileLog,
    options: FileOptions,
    start: Start,
    failing_reopens: AtomicUsize,
}

impl CrashingLog {
    /// Returns an empty log with segments of 64 KiB.
    ///
    /// # Errors
    /// Those of [`FileLog::open`].
    pub fn new(start: Start) -> Result<Self, LogError> {
        let options = FileOptions { segment_bytes: 64 * 1024, ..FileOptions::default() };
        Self::with_options(start, options)
    }

    /// Returns an empty log with these options, except that it prepares nothing ahead.
    ///
    /// So its operations depend on the calls alone.
    ///
    /// # Errors
    /// Those of [`FileLog::open`].
    pub fn with_options(start: Start, options: FileOptions) -> Result<Self, LogError> {
        let options = FileOptions { prepares_ahead: false, ..options };
        Self::open_on(SimDisk::new(), start, options)
    }

    pub(crate) fn open_on(
        disk: SimDisk,
        start: Start,
        options: FileOptions,
    ) -> Result<Self, LogError> {
        let log = FileLog::open_on(Arc::new(disk.clone()), options.clone(), start.clone())?;
        Ok(Self { disk, log, options, start, failing_reopens: AtomicUsize::new(0) })
    }

    /// Makes the next append that reaches the disk fail.
    pub fn fail_next_append(&self, fault: Fault) {
        self.disk.script(Some(fault));
    }

    /// Lets the next `appends` appends that reach the disk succeed, and the one after them fail.
    pub fn fail_after(&self, appends: usize, fault: Fault) {
        (0..appends).for_each(|_| self.disk.script(None));
        self.disk.script(Some(fault));
    }

    /// Returns whether every scripted append has happened.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.disk.script_is_done()
    }

    /// Makes the next `count` calls of [`Log::reopen`] fail.
    pub fn fail_next_reopens(&self, count: usize) {
        self.failing_reopens.store(count, Ordering::Relaxed);
    }

    /// Crashes. This log fails from now on; the returned one is that of the next process.
    ///
    /// # Errors
    /// Those of [`FileLog::open`], as after [`Fault::Lying`].
    pub fn crash(&self, keep: Keep) -> Result<Self, LogError> {
        Self::open_on(self.disk.crash(keep), self.start.clone(), self.options.clone())
    }

    #[cfg(test)]
    pub(crate) const fn disk(&self) -> &SimDisk {
        &self.disk
    }
}

impl Log for CrashingLog {
    fn id(&self) -> LogId {
        self.log.id()
    }

    fn entry_bytes_max(&self) -> usize {
        self.log.entry_bytes_max()
    }

    fn tail(&self) -> Result<Tail, LogError> {
        self.log.tail()
    }

    fn append(&self, at: Position, entries: &[Bytes]) -> Result<(), AppendError> {
        self.log.append(at, entries)
    }

    fn read(
        &self,
        from: Position,
        visit: &mut dyn FnMut(Entry) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        self.log.read(from, visit)
    }

    fn entry(&self, at: Position) -> Result<Option<Bytes>, LogError> {
        self.log.entry(at)
    }

    fn bytes_after(&self, after: Position) -> Result<u64, LogError> {
        self.log.bytes_after(after)
    }

    fn trim(&self, through: Position) -> Result<(), LogError> {
        self.log.trim(through)
    }

    fn reopen(&self) -> Result<Tail, LogError> {
        let failing = &self.failing_reopens;
        let fail = |left: usize| left.checked_sub(1);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        if self.log.tail().is_err() && failing.fetch_update(set, fetch, fail).is_ok() {
            return Err(LogError::Failed("a scripted failure to reopen".to_owned()));
        }
        self.log.reopen()
    }

    fn close(&self) -> Result<(), LogError> {
        self.log.close()
    }
}

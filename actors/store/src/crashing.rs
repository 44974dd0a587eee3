//! A store for tests that injects failed commits and crashes.
//!
//! It is part of the library so that embedders can use it in their tests. It is a store over a log
//! like the one on disk. A crash keeps the synced part of the log and as many of the other bytes as
//! the test chooses. The view returns to its last sync.

mod log;

use std::ops::ControlFlow;
use std::sync::Arc;

use log::ScriptedLog;

use crate::memory::MemoryView;
use crate::view::MarkedView as _;
use crate::{
    Direction, Frame, Group, Log, LogStore, Position, Store, StoreError, Table, View, Visit, Writes,
};

/// The number of commits between two syncs of the view.
const COMMITS_PER_SYNC: u64 = 8;

/// The outcome of a commit that is made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashOutcome {
    /// It is not durable, and [`Log::reopen`] does not find it.
    Lost,
    /// It is durable, although its caller received an error.
    Kept,
    /// It was written but not synced. [`Log::reopen`] finds it and makes it durable. If a crash
    /// comes first, the argument of [`CrashingStore::crash`] decides.
    Unsynced,
}

/// The number of unsynced bytes that survive a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Nothing.
    Nothing,
    /// All of them.
    Everything,
    /// This many of the first bytes. A commit that is torn by this is lost as a whole.
    Bytes(usize),
}

/// A [`LogStore`] in memory whose failures are scripted. Clones are the same store. A crash ends
/// them all and returns the store that starts up afterwards.
#[derive(Clone)]
pub struct CrashingStore(Arc<Inner>);

struct Inner {
    log: Arc<ScriptedLog>,
    view: MemoryView,
    /// Opening it cannot fail unless log and view do not match.
    store: Result<LogStore, StoreError>,
}

impl std::fmt::Debug for CrashingStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CrashingStore").field(&self.0.log).finish()
    }
}

impl Default for CrashingStore {
    fn default() -> Self {
        Self::new()
    }
}

impl CrashingStore {
    /// Returns an empty store that does not fail.
    #[must_use]
    pub fn new() -> Self {
        Self::open(ScriptedLog::new(), MemoryView::new())
    }

    fn open(log: ScriptedLog, view: MemoryView) -> Self {
        let log = Arc::new(log);
        let opened = LogStore::open(log.clone(), Arc::new(view.clone()), Writes::default());
        let store = opened.and_then(|store| store.begin_epoch().map(|_| store));
        Self(Arc::new(Inner { log, view, store }))
    }

    /// Makes the next `count` commits that reach the store fail.
    ///
    /// After each one everything fails until [`Log::reopen`].
    pub fn fail_next_commits(&self, count: usize, outcome: CrashOutcome) {
        self.0.log.script(std::iter::repeat_n(Some(outcome), count));
    }

    /// Lets the next `commits` commits that reach the store succeed and the one after them fail.
    pub fn fail_after(&self, commits: usize, outcome: CrashOutcome) {
        self.0.log.script(std::iter::repeat_n(None, commits).chain([Some(outcome)]));
    }

    /// Returns whether every scripted commit has happened.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.0.log.script_is_done()
    }

    /// Makes the next `count` calls of [`Log::reopen`] on the failed store fail.
    pub fn fail_next_reopens(&self, count: usize) {
        self.0.log.fail_next_reopens(count);
    }

    /// Returns the number of successful commits, including those that begin an epoch.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.0.log.appends()
    }

    /// Simulates a power failure. This store and its clones fail from now on.
    ///
    /// The returned store is the one that a new process finds. Its view has lost its unsynced
    /// changes, unless everything is kept.
    #[must_use]
    pub fn crash(&self, keep: Keep) -> Self {
        let view = match keep {
            Keep::Everything => self.0.view.after_end(),
            Keep::Nothing | Keep::Bytes(_) => self.0.view.after_power_cut(),
        };
        Self::open(self.0.log.crash(keep), view)
    }

    /// Returns the number of bytes that were written but not synced, for [`Keep::Bytes`].
    #[must_use]
    pub fn unsynced_bytes(&self) -> usize {
        self.0.log.unsynced_bytes()
    }

    /// Returns the store, unless it was made to fail.
    ///
    /// [`Log::reopen`] finds the remains of a failed commit, so nothing may be read before.
    fn working(&self) -> Result<&LogStore, StoreError> {
        self.0.log.check()?;
        self.0.store.as_ref().map_err(Clone::clone)
    }
}

impl Store for CrashingStore {
    fn commit(&self, group: Group<'_>) -> Result<Position, StoreError> {
        let position = self.working()?.commit(group)?;
        if self.commits().is_multiple_of(COMMITS_PER_SYNC) {
            self.0.view.sync()?;
        }
        Ok(position)
    }

    fn begin_epoch(&self) -> Result<(u64, Position), StoreError> {
        self.working()?.begin_epoch()
    }
}

impl View for CrashingStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.working()?.get(table, key)
    }

    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        from: Option<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.working()?.scan(table, prefix, from, direction, visit)?;
        self.working().map(|_| ())
    }
}

impl Log for CrashingStore {
    fn read(
        &self,
        after: Position,
        visit: &mut dyn FnMut(Frame) -> ControlFlow<()>,
    ) -> Result<Position, StoreError> {
        self.working()?.read(after, visit)
    }

    fn begins_after(&self) -> Result<Position, StoreError> {
        self.working()?.begins_after()
    }

    fn last_position(&self) -> Result<Position, StoreError> {
        self.working()?.last_position()
    }

    fn bytes_after(&self, after: Position) -> Result<u64, StoreError> {
        self.working()?.bytes_after(after)
    }

    fn trim(&self, through: Position) -> Result<(), StoreError> {
        self.working()?.trim(through)
    }

    fn reopen(&self) -> Result<(), StoreError> {
        self.0.store.as_ref().map_err(Clone::clone)?.reopen()?;
        self.working().map(|_| ())
    }
}

#[cfg(test)]
mod tests;

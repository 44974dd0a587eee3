//! A store for tests that injects failed commits and crashes.
//!
//! It is part of the library so that embedders can use it in their tests. It is a store over a log
//! like the one on disk. A crash keeps the synced part of the log and as many of the other bytes as
//! the test chooses. The view returns to its last sync.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use postrider_log::{
    self as log, AppendError, Entry, Log as _, LogError, LogId, MemoryLog, Start, Tail,
};

use crate::memory::MemoryView;
use crate::view::MarkedView as _;
use crate::{
    Direction, Frame, Group, Log, LogStore, Position, Store, StoreError, Table, View, Visit, Writes,
};

/// The number of commits between two syncs of the view.
const COMMITS_PER_SYNC: u64 = 8;
/// The identity of its log.
const ID: LogId = LogId(*b"a crashing store");

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

/// A log in memory whose failures are scripted: it distinguishes synced entries from written ones.
#[derive(Debug)]
struct ScriptedLog(Mutex<ScriptState>);

#[derive(Debug)]
struct ScriptState {
    /// The visible log.
    shown: MemoryLog,
    /// The log before the trims since the last sync, which a crash may undo.
    before_trim: Option<MemoryLog>,
    /// The entries of a commit that was written but not synced.
    unsynced: Vec<Bytes>,
    /// The failure of each of the next appends; `None` for success.
    script: VecDeque<Option<CrashOutcome>>,
    failed_reopens: usize,
    failed: bool,
    crashed: bool,
    appends: u64,
}

impl ScriptedLog {
    fn new() -> Self {
        Self::of(&MemoryLog::new(&Start::new(ID)))
    }

    fn of(log: &MemoryLog) -> Self {
        Self(Mutex::new(ScriptState {
            shown: log.copy(),
            before_trim: None,
            unsynced: Vec::new(),
            script: VecDeque::new(),
            failed_reopens: 0,
            failed: false,
            crashed: false,
            appends: 0,
        }))
    }

    fn script(&self, outcomes: impl Iterator<Item = Option<CrashOutcome>>) {
        self.0.lock().script.extend(outcomes);
    }

    fn script_is_done(&self) -> bool {
        self.0.lock().script.is_empty()
    }

    fn fail_next_reopens(&self, count: usize) {
        self.0.lock().failed_reopens = count;
    }

    /// Returns the number of successful appends.
    fn appends(&self) -> u64 {
        self.0.lock().appends
    }

    fn unsynced_bytes(&self) -> usize {
        self.0.lock().unsynced.iter().map(Bytes::len).sum()
    }

    /// Fails from now on. Returns the log that a new process finds.
    fn crash(&self, keep: Keep) -> Self {
        let mut state = self.0.lock();
        state.crashed = true;
        let left = state.shown.copy();
        let mut kept = match keep {
            Keep::Nothing => return Self::of(state.before_trim.as_ref().unwrap_or(&left)),
            Keep::Everything => usize::MAX,
            Keep::Bytes(bytes) => bytes,
        };
        let whole = |entry: &&Bytes| {
            let left = kept.checked_sub(entry.len());
            kept = left.unwrap_or(0);
            left.is_some()
        };
        let whole = state.unsynced.iter().take_while(whole).count();
        if whole == state.unsynced.len() {
            left.restore(&state.unsynced);
        }
        Self::of(&left)
    }

    fn check(&self) -> Result<(), LogError> {
        self.0.lock().check()
    }
}

impl ScriptState {
    fn check(&self) -> Result<(), LogError> {
        match (self.crashed, self.failed) {
            (true, _) => Err(LogError::Failed("the power was cut".into())),
            (_, true) => Err(LogError::Failed("an injected failure".into())),
            _ => Ok(()),
        }
    }

    fn append(&mut self, at: Position, entries: &[Bytes]) -> Result<(), AppendError> {
        self.check().map_err(|error| AppendError::Refused(error.to_string()))?;
        let outcome = self.script.pop_front().flatten();
        if matches!(outcome, None | Some(CrashOutcome::Kept)) {
            self.shown.append(at, entries)?;
            self.before_trim = None;
        }
        match outcome {
            None => {
                self.appends += 1;
                return Ok(());
            }
            Some(CrashOutcome::Unsynced) => self.unsynced = entries.to_vec(),
            Some(CrashOutcome::Lost | CrashOutcome::Kept) => {}
        }
        self.failed = true;
        Err(AppendError::Unknown("an injected failure".into()))
    }

    /// Recovers from the written entries. Everything visible from now on is synced.
    fn recover(&mut self) {
        let unsynced = std::mem::take(&mut self.unsynced);
        self.shown.restore(&unsynced);
        self.before_trim = None;
        // The writer must claim it again.
        self.shown = self.shown.open_again();
        self.failed = false;
    }
}

impl log::Log for ScriptedLog {
    fn id(&self) -> LogId {
        ID
    }

    fn entry_bytes_max(&self) -> usize {
        self.0.lock().shown.entry_bytes_max()
    }

    fn tail(&self) -> Result<Tail, LogError> {
        let state = self.0.lock();
        state.check()?;
        state.shown.tail()
    }

    fn append(&self, at: Position, entries: &[Bytes]) -> Result<(), AppendError> {
        self.0.lock().append(at, entries)
    }

    fn read(
        &self,
        from: Position,
        visit: &mut dyn FnMut(Entry) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        self.check()?;
        let shown = self.0.lock().shown.open_again();
        shown.read(from, visit)?;
        self.check()
    }

    fn entry(&self, at: Position) -> Result<Option<Bytes>, LogError> {
        let state = self.0.lock();
        state.check()?;
        state.shown.entry(at)
    }

    fn bytes_after(&self, after: Position) -> Result<u64, LogError> {
        let state = self.0.lock();
        state.check()?;
        state.shown.bytes_after(after)
    }

    fn trim(&self, through: Position) -> Result<(), LogError> {
        let mut state = self.0.lock();
        state.check()?;
        if state.before_trim.is_none() {
            state.before_trim = Some(state.shown.copy());
        }
        state.shown.trim(through)
    }

    fn reopen(&self) -> Result<Tail, LogError> {
        let mut state = self.0.lock();
        if state.failed && state.failed_reopens > 0 {
            state.failed_reopens -= 1;
        } else if state.failed && !state.crashed {
            state.recover();
        }
        state.check()?;
        state.shown.tail()
    }

    fn close(&self) -> Result<(), LogError> {
        self.check()
    }
}

#[cfg(test)]
mod tests;

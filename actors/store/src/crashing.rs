//! A store for tests that injects failed commits and crashes.
//!
//! It is part of the library so that embedders can use it in their tests. It separates synced bytes
//! of its log from bytes that were only written. A crash keeps the synced bytes and as many of the
//! others as the test says, and recovery finds the end of the log by lengths and checksums, as on a
//! disk.

mod log;

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;

use log::{Entry, append, take};

use crate::log::check_number;
use crate::memory::{Model, journal_in_steps, scan_in_steps};
use crate::{
    Change, Direction, Frame, Group, Log, Position, Store, StoreError, Table, View, Visit,
};

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

/// How many of the unsynced bytes survive a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Nothing.
    Nothing,
    /// All of them.
    Everything,
    /// This many of the first bytes. A commit that is torn by this is lost as a whole.
    Bytes(usize),
}

/// A [`Store`] in memory whose failures are scripted. Clones are the same store. A crash ends them
/// all and returns the store that starts up afterwards.
#[derive(Debug, Clone, Default)]
pub struct CrashingStore(Arc<Mutex<State>>);

#[derive(Debug, Clone, Default)]
struct State {
    /// The state that survives any crash.
    synced: Model,
    /// The unsynced entries behind it, encoded by `log`.
    unsynced: Vec<u8>,
    /// The state that readers see.
    visible: Model,
    /// How each of the next commits fails; `None` for one that succeeds.
    script: VecDeque<Option<CrashOutcome>>,
    failed_reopens: usize,
    failed: bool,
    crashed: bool,
    commits: u64,
}

impl CrashingStore {
    /// An empty store that does not fail.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the next `count` commits that reach the store fail. After each one everything fails
    /// until [`Log::reopen`].
    pub fn fail_next_commits(&self, count: usize, outcome: CrashOutcome) {
        self.0.lock().script.extend(std::iter::repeat_n(Some(outcome), count));
    }

    /// Lets the next `commits` commits that reach the store succeed and the one after them fail.
    pub fn fail_after(&self, commits: usize, outcome: CrashOutcome) {
        let mut state = self.0.lock();
        state.script.extend(std::iter::repeat_n(None, commits));
        state.script.push_back(Some(outcome));
    }

    /// Whether every scripted commit has happened.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.0.lock().script.is_empty()
    }

    /// Makes the next `count` calls of [`Log::reopen`] on the failed store fail.
    pub fn fail_next_reopens(&self, count: usize) {
        self.0.lock().failed_reopens = count;
    }

    /// How many commits succeeded.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.0.lock().commits
    }

    /// Simulates a power failure. This store and its clones fail from now on. The returned store is
    /// what a new process finds.
    #[must_use]
    pub fn crash(&self, keep: Keep) -> Self {
        let mut state = self.0.lock();
        state.crashed = true;
        let mut next = State { synced: state.synced.clone(), ..State::default() };
        let bytes = match keep {
            Keep::Nothing => 0,
            Keep::Everything => state.unsynced.len(),
            Keep::Bytes(bytes) => bytes.min(state.unsynced.len()),
        };
        next.unsynced = state.unsynced[..bytes].to_vec();
        next.recover();
        Self(Arc::new(Mutex::new(next)))
    }

    /// How many bytes were written but not synced, for [`Keep::Bytes`].
    #[must_use]
    pub fn unsynced_bytes(&self) -> usize {
        self.0.lock().unsynced.len()
    }
}

impl State {
    fn check(&self) -> Result<(), StoreError> {
        match (self.crashed, self.failed) {
            (true, _) => Err(StoreError::Failed("the power was cut".into())),
            (_, true) => Err(StoreError::Failed("an injected failure".into())),
            _ => Ok(()),
        }
    }

    fn commit(&mut self, frame: Option<&Frame>, changes: &[Change]) -> Result<(), StoreError> {
        self.check()?;
        frame.map_or(Ok(()), |frame| check_number(self.visible.last(), frame))?;
        let outcome = self.script.pop_front().flatten();
        if outcome != Some(CrashOutcome::Lost) {
            append(&mut self.unsynced, &Entry::Commit(frame.cloned(), changes.to_vec()));
        }
        match outcome {
            None => {
                self.visible.commit(frame, changes)?;
                self.sync();
                self.commits += 1;
                return Ok(());
            }
            Some(CrashOutcome::Kept) => self.sync(),
            Some(CrashOutcome::Lost | CrashOutcome::Unsynced) => {}
        }
        self.failed = true;
        self.check()
    }

    /// Moves written entries to the synced state, up to the first torn one.
    fn sync(&mut self) {
        let log = std::mem::take(&mut self.unsynced);
        let mut rest = log.as_slice();
        while let Some(entry) = take(&mut rest) {
            match entry {
                // Its number was checked before it was written.
                Entry::Commit(frame, changes) => drop(self.synced.commit(frame.as_ref(), &changes)),
                Entry::Trim(through) => self.synced.trim(through),
            }
        }
    }

    /// Recovers from the written bytes. Everything that is visible from now on is synced.
    fn recover(&mut self) {
        self.sync();
        self.visible = self.synced.clone();
        self.failed = false;
    }
}

impl Store for CrashingStore {
    fn commit(&self, group: Group<'_>) -> Result<(), StoreError> {
        self.0.lock().commit(group.frame, group.changes)
    }
}

impl View for CrashingStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let state = self.0.lock();
        state.check()?;
        Ok(state.visible.get(table, key))
    }

    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        from: Option<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.0.lock().check()?;
        scan_in_steps(prefix, from, direction, visit, |from| {
            self.0.lock().visible.page(table, prefix, from, direction)
        });
        self.0.lock().check()
    }
}

impl Log for CrashingStore {
    fn read(
        &self,
        after: Position,
        visit: &mut dyn FnMut(Frame) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.0.lock().check()?;
        journal_in_steps(after, visit, |after| self.0.lock().visible.next_frame(after));
        self.0.lock().check()
    }

    fn last_position(&self) -> Result<Position, StoreError> {
        let state = self.0.lock();
        state.check()?;
        Ok(state.visible.last())
    }

    fn trim(&self, through: Position) -> Result<(), StoreError> {
        let mut state = self.0.lock();
        state.check()?;
        state.visible.trim(through);
        append(&mut state.unsynced, &Entry::Trim(through));
        Ok(())
    }

    fn reopen(&self) -> Result<(), StoreError> {
        let mut state = self.0.lock();
        if state.failed && state.failed_reopens > 0 {
            state.failed_reopens -= 1;
        } else if state.failed && !state.crashed {
            state.recover();
        }
        state.check()
    }

    fn bytes_after(&self, after: Position) -> Result<u64, StoreError> {
        let state = self.0.lock();
        state.check()?;
        Ok(state.visible.journal_bytes(after))
    }
}

#[cfg(test)]
mod tests;

//! The log of the crashing store: it distinguishes synced entries from written ones.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use bytes::Bytes;
use parking_lot::Mutex;
use postrider_log::{AppendError, Entry, Log, LogError, LogId, MemoryLog, Position, Start, Tail};

use super::{CrashOutcome, Keep};

const ID: LogId = LogId(*b"a crashing store");

/// A log in memory whose failures are scripted.
#[derive(Debug)]
pub(super) struct ScriptedLog(Mutex<State>);

#[derive(Debug)]
struct State {
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
    pub(super) fn new() -> Self {
        Self::of(&MemoryLog::new(&Start::new(ID)))
    }

    fn of(log: &MemoryLog) -> Self {
        Self(Mutex::new(State {
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

    pub(super) fn script(&self, outcomes: impl Iterator<Item = Option<CrashOutcome>>) {
        self.0.lock().script.extend(outcomes);
    }

    pub(super) fn script_is_done(&self) -> bool {
        self.0.lock().script.is_empty()
    }

    pub(super) fn fail_next_reopens(&self, count: usize) {
        self.0.lock().failed_reopens = count;
    }

    /// Returns the number of successful appends.
    pub(super) fn appends(&self) -> u64 {
        self.0.lock().appends
    }

    pub(super) fn unsynced_bytes(&self) -> usize {
        self.0.lock().unsynced.iter().map(Bytes::len).sum()
    }

    /// Fails from now on. Returns the log that a new process finds.
    pub(super) fn crash(&self, keep: Keep) -> Self {
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

    pub(super) fn check(&self) -> Result<(), LogError> {
        self.0.lock().check()
    }
}

impl State {
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

impl Log for ScriptedLog {
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

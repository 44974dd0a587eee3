//! A view in memory, which a test can make fail or lose its unsynced changes.

use std::sync::Arc;

use parking_lot::Mutex;
use postrider_log::{LogId, Mark};

use super::{Model, Page, scan_in_steps};
use crate::view::{MarkedView, ViewSnapshot};
use crate::{Change, Direction, Position, StoreError, Table, View, Visit};
use std::ops::Bound;

/// A [`MarkedView`] in memory. Clones share the data.
#[derive(Debug, Clone, Default)]
pub struct MemoryView(Arc<Mutex<State>>);

#[derive(Debug, Clone, Default)]
struct State {
    shown: Content,
    /// The part that survives a power cut.
    synced: Content,
    /// The changes applied since.
    unsynced: Vec<(Mark, Vec<Change>)>,
    failing: Option<Failing>,
    failed: bool,
}

/// The call that fails next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failing {
    /// Applying changes.
    Apply,
    /// Writing out.
    WriteOut,
    /// Syncing.
    Sync,
}

#[derive(Debug, Clone, Default)]
struct Content {
    model: Model,
    log: Option<LogId>,
    applied: Mark,
}

impl MemoryView {
    /// Returns an empty view.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the view that the next process finds after a power cut.
    #[must_use]
    pub fn after_power_cut(&self) -> Self {
        let synced = self.0.lock().synced.clone();
        Self(Arc::new(Mutex::new(State { shown: synced.clone(), synced, ..State::default() })))
    }

    /// Returns the view that the next process finds after this one ended.
    #[must_use]
    pub fn after_end(&self) -> Self {
        let state = self.0.lock();
        let (failing, failed) = (None, false);
        Self(Arc::new(Mutex::new(State { failing, failed, ..state.clone() })))
    }

    /// Makes the next call of this kind fail.
    pub fn fail_next(&self, failing: Failing) {
        self.0.lock().failing = Some(failing);
    }
}

impl Content {
    fn apply(&mut self, at: &Mark, changes: &[Change]) {
        self.model.change(changes);
        self.applied = *at;
    }
}

impl State {
    fn check(&self) -> Result<(), StoreError> {
        if self.failed { Err(StoreError::Failed("a scripted failure".into())) } else { Ok(()) }
    }

    /// Fails if that was scripted.
    fn act(&mut self, what: Failing) -> Result<(), StoreError> {
        self.check()?;
        if self.failing == Some(what) {
            self.failing = None;
            self.failed = true;
        }
        self.check()
    }
}

impl View for MemoryView {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let state = self.0.lock();
        state.check()?;
        Ok(state.shown.model.get(table, key))
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
            self.0.lock().shown.model.page(table, prefix, from, direction)
        });
        self.0.lock().check()
    }
}

/// A copy of the view's contents.
struct MemorySnapshot(Content);

impl ViewSnapshot for MemorySnapshot {
    fn mark(&self) -> Mark {
        self.0.applied
    }

    fn page(&self, table: Table, after: Option<&[u8]>) -> Result<Page, StoreError> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(self.0.model.page(table, &[], from, Direction::Forward))
    }
}

impl MarkedView for MemoryView {
    fn log(&self) -> Result<Option<LogId>, StoreError> {
        let state = self.0.lock();
        state.check().map(|()| state.shown.log)
    }

    fn begin(&self, log: LogId, at: &Mark) -> Result<(), StoreError> {
        let mut state = self.0.lock();
        state.check()?;
        state.unsynced.clear();
        (state.shown.log, state.shown.applied) = (Some(log), *at);
        state.synced = state.shown.clone();
        Ok(())
    }

    fn apply(&self, at: &Mark, changes: &[Change]) -> Result<(), StoreError> {
        let mut state = self.0.lock();
        state.act(Failing::Apply)?;
        state.shown.apply(at, changes);
        state.unsynced.push((*at, changes.to_vec()));
        Ok(())
    }

    fn applied(&self) -> Result<Mark, StoreError> {
        let state = self.0.lock();
        state.check().map(|()| state.shown.applied)
    }

    fn write_out(&self) -> Result<(), StoreError> {
        self.0.lock().act(Failing::WriteOut)
    }

    fn sync(&self) -> Result<Position, StoreError> {
        let mut state = self.0.lock();
        state.act(Failing::Sync)?;
        for (at, changes) in std::mem::take(&mut state.unsynced) {
            state.synced.apply(&at, &changes);
        }
        Ok(state.synced.applied.position)
    }

    fn synced(&self) -> Result<Position, StoreError> {
        let state = self.0.lock();
        state.check().map(|()| state.synced.applied.position)
    }

    fn snapshot(&self) -> Result<Box<dyn ViewSnapshot>, StoreError> {
        let state = self.0.lock();
        state.check()?;
        Ok(Box::new(MemorySnapshot(state.shown.clone())))
    }

    fn reopen(&self) -> Result<(), StoreError> {
        let mut state = self.0.lock();
        if std::mem::take(&mut state.failed) {
            state.unsynced.clear();
            state.shown = state.synced.clone();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::marked::conformance::{LOG, ViewSubject, mark, put, view_contract};

    impl ViewSubject for MemoryView {
        type View = Self;

        fn open(&self) -> Self {
            self.clone()
        }
    }

    view_contract!(contract, MemoryView::new());

    #[test]
    fn a_power_cut_takes_what_was_not_synced() {
        let view = MemoryView::new();
        view.begin(LOG, &Mark::default()).unwrap();
        view.apply(&mark(1), &[put(1, 1)]).unwrap();
        view.sync().unwrap();
        view.apply(&mark(2), &[put(1, 2)]).unwrap();
        assert_eq!(view.after_power_cut().applied(), Ok(mark(1)));
        assert_eq!(view.after_end().applied(), Ok(mark(2)));
        view.fail_next(Failing::Sync);
        assert!(view.sync().is_err() && view.applied().is_err());
        view.reopen().unwrap();
        assert_eq!((view.applied(), view.synced()), (Ok(mark(1)), Ok(Position(1))));
    }
}

//! A store and a view in memory, for tests and for embedders that need no durability.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use postrider_log::{LogId, Mark};

use crate::log::check_number;
use crate::log::frame::{HEADER_BYTES, SECTION_HEADER_BYTES};
use crate::view::{MarkedView, ViewSnapshot, bounding, prefix_end};
use crate::{
    Change, Direction, Frame, Group, Log, Position, Store, StoreError, Table, View, Visit,
};

/// A [`Store`] in memory. Clones share the data, so that a test can "restart" on a clone.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore(Arc<RwLock<Model>>);

impl MemoryStore {
    /// Returns an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Store for MemoryStore {
    fn commit(&self, group: Group<'_>) -> Result<Position, StoreError> {
        self.0.write().commit(group.frame, group.changes)
    }
}

impl View for MemoryStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.read().get(table, key))
    }

    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        from: Option<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        scan_in_steps(prefix, from, direction, visit, |from| {
            self.0.read().page(table, prefix, from, direction)
        });
        Ok(())
    }
}

impl Log for MemoryStore {
    fn read(
        &self,
        after: Position,
        visit: &mut dyn FnMut(Frame) -> ControlFlow<()>,
    ) -> Result<Position, StoreError> {
        Ok(journal_in_steps(after, visit, |after| self.0.read().next_frame(after)))
    }

    fn begins_after(&self) -> Result<Position, StoreError> {
        Ok(self.0.read().begins_after())
    }

    fn last_position(&self) -> Result<Position, StoreError> {
        Ok(self.0.read().last)
    }

    fn trim(&self, through: Position) -> Result<(), StoreError> {
        self.0.write().trim(through);
        Ok(())
    }

    fn reopen(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn bytes_after(&self, after: Position) -> Result<u64, StoreError> {
        Ok(self.0.read().journal_bytes(after))
    }
}

/// The position of a scan: at the start, at or beyond a key, or strictly beyond one.
type ScanFrom<'a> = Bound<&'a [u8]>;

/// A page of records. It is empty when there are no more.
type RecordPage = Vec<(Vec<u8>, Vec<u8>)>;

/// Visits pages of records without holding a lock, so that a visitor may use the store.
fn scan_in_steps(
    prefix: &[u8],
    from: Option<&[u8]>,
    direction: Direction,
    visit: Visit<'_>,
    page: impl Fn(ScanFrom<'_>) -> RecordPage,
) {
    let from = bounding(prefix, from, direction);
    let mut records = page(from.map_or(Bound::Unbounded, Bound::Included));
    while let Some((last, _)) = records.last() {
        for (key, value) in &records {
            if visit(key, value).is_break() {
                return;
            }
        }
        records = page(Bound::Excluded(last));
    }
}

/// Visits frames one by one without holding a lock. Returns the number of the last one.
fn journal_in_steps(
    after: Position,
    visit: &mut dyn FnMut(Frame) -> ControlFlow<()>,
    next: impl Fn(Position) -> Option<Frame>,
) -> Position {
    let mut after = after;
    while let Some(frame) = next(after) {
        after = frame.number;
        if visit(frame).is_break() {
            break;
        }
    }
    after
}

/// The contents of a store.
#[derive(Debug, Clone, Default)]
struct Model {
    tables: BTreeMap<Table, BTreeMap<Vec<u8>, Vec<u8>>>,
    journal: BTreeMap<Position, Frame>,
    last: Position,
}

impl Model {
    const PAGE_RECORDS: usize = 64;

    fn commit(
        &mut self,
        frame: Option<&Frame>,
        changes: &[Change],
    ) -> Result<Position, StoreError> {
        if let Some(frame) = frame {
            check_number(self.last, frame)?;
            self.last = frame.number;
            self.journal.insert(frame.number, frame.clone());
        }
        self.change(changes);
        Ok(self.last)
    }

    fn change(&mut self, changes: &[Change]) {
        for Change { table, key, value } in changes {
            let table = self.tables.entry(*table).or_default();
            match value {
                Some(value) => table.insert(key.clone(), value.clone()),
                None => table.remove(key),
            };
        }
    }

    fn get(&self, table: Table, key: &[u8]) -> Option<Vec<u8>> {
        self.tables.get(&table)?.get(key).cloned()
    }

    fn page(
        &self,
        table: Table,
        prefix: &[u8],
        from: ScanFrom<'_>,
        direction: Direction,
    ) -> RecordPage {
        let Some(records) = self.tables.get(&table) else {
            return RecordPage::new();
        };
        let copy = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
        match direction {
            Direction::Forward => {
                let from = if from == Bound::Unbounded { Bound::Included(prefix) } else { from };
                let range = records.range::<[u8], _>((from, Bound::Unbounded));
                let inside = range.take_while(|(key, _)| key.starts_with(prefix));
                inside.take(Self::PAGE_RECORDS).map(copy).collect()
            }
            Direction::Backward => {
                let end = prefix_end(prefix);
                let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                let to = if from == Bound::Unbounded { end } else { from };
                let range = records.range::<[u8], _>((Bound::Unbounded, to)).rev();
                let inside = range.take_while(|(key, _)| key.starts_with(prefix));
                inside.take(Self::PAGE_RECORDS).map(copy).collect()
            }
        }
    }

    fn next_frame(&self, after: Position) -> Option<Frame> {
        let range = (Bound::Excluded(after), Bound::Unbounded);
        self.journal.range(range).next().map(|(_, frame)| frame.clone())
    }

    fn begins_after(&self) -> Position {
        self.journal.keys().next().map_or(self.last, |first| first.previous())
    }

    fn trim(&mut self, through: Position) {
        self.journal = self.journal.split_off(&through.next());
    }

    fn journal_bytes(&self, after: Position) -> u64 {
        let frames = self.journal.range((Bound::Excluded(after), Bound::Unbounded));
        frames.map(|(_, frame)| encoded_bytes(frame)).sum()
    }
}

fn encoded_bytes(frame: &Frame) -> u64 {
    let section =
        |it: &super::Section| SECTION_HEADER_BYTES + it.workspace.as_str().len() + it.events.len();
    (HEADER_BYTES + frame.sections.iter().map(section).sum::<usize>()) as u64
}

/// A [`MarkedView`] in memory, which a test can make fail or lose its unsynced changes.
///
/// Clones share the data.
#[derive(Debug, Clone, Default)]
pub struct MemoryView(Arc<Mutex<ViewState>>);

#[derive(Debug, Clone, Default)]
struct ViewState {
    shown: ViewContent,
    /// The part that survives a power cut.
    synced: ViewContent,
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
struct ViewContent {
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
        Self(Arc::new(Mutex::new(ViewState {
            shown: synced.clone(),
            synced,
            ..ViewState::default()
        })))
    }

    /// Returns the view that the next process finds after this one ended.
    #[must_use]
    pub fn after_end(&self) -> Self {
        let state = self.0.lock();
        let (failing, failed) = (None, false);
        Self(Arc::new(Mutex::new(ViewState { failing, failed, ..state.clone() })))
    }

    /// Makes the next call of this kind fail.
    pub fn fail_next(&self, failing: Failing) {
        self.0.lock().failing = Some(failing);
    }
}

impl ViewContent {
    fn apply(&mut self, at: &Mark, changes: &[Change]) {
        self.model.change(changes);
        self.applied = *at;
    }
}

impl ViewState {
    fn check(&self) -> Result<(), StoreError> {
        if self.failed { Err(StoreError::Failed("a scripted failure".into())) } else { Ok(()) }
    }

    /// Fails if that was scripted.
    fn fail_if_scripted(&mut self, what: Failing) -> Result<(), StoreError> {
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
struct MemorySnapshot(ViewContent);

impl ViewSnapshot for MemorySnapshot {
    fn mark(&self) -> Mark {
        self.0.applied
    }

    fn page(&self, table: Table, after: Option<&[u8]>) -> Result<RecordPage, StoreError> {
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
        state.fail_if_scripted(Failing::Apply)?;
        state.shown.apply(at, changes);
        state.unsynced.push((*at, changes.to_vec()));
        Ok(())
    }

    fn applied(&self) -> Result<Mark, StoreError> {
        let state = self.0.lock();
        state.check().map(|()| state.shown.applied)
    }

    fn write_out(&self) -> Result<(), StoreError> {
        self.0.lock().fail_if_scripted(Failing::WriteOut)
    }

    fn sync(&self) -> Result<Position, StoreError> {
        let mut state = self.0.lock();
        state.fail_if_scripted(Failing::Sync)?;
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
mod view_tests {
    use super::*;
    use crate::view::conformance::{LOG, ViewSubject, mark, put, view_contract};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Subject, store_contract};

    impl Subject for MemoryStore {
        type Store = Self;

        fn open(&self) -> Self {
            self.clone()
        }
    }

    store_contract!(contract, MemoryStore::new());
}

//! A store in memory, for tests and for embedders that need no durability.

mod view;

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use parking_lot::RwLock;

pub use view::{Failing, MemoryView};

use crate::log::check_number;
use crate::log::frame::{HEADER_BYTES, SECTION_HEADER_BYTES};
use crate::view::{bounding, prefix_end};
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
pub(super) type From<'a> = Bound<&'a [u8]>;

/// A page of records. It is empty when there are no more.
pub(super) type Page = Vec<(Vec<u8>, Vec<u8>)>;

/// Visits pages of records without holding a lock, so that a visitor may use the store.
pub(super) fn scan_in_steps(
    prefix: &[u8],
    from: Option<&[u8]>,
    direction: Direction,
    visit: Visit<'_>,
    page: impl Fn(From<'_>) -> Page,
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
pub(super) fn journal_in_steps(
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
pub(super) struct Model {
    tables: BTreeMap<Table, BTreeMap<Vec<u8>, Vec<u8>>>,
    journal: BTreeMap<Position, Frame>,
    last: Position,
}

impl Model {
    const PAGE_RECORDS: usize = 64;

    pub(super) fn commit(
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

    pub(super) fn change(&mut self, changes: &[Change]) {
        for Change { table, key, value } in changes {
            let table = self.tables.entry(*table).or_default();
            match value {
                Some(value) => table.insert(key.clone(), value.clone()),
                None => table.remove(key),
            };
        }
    }

    pub(super) fn get(&self, table: Table, key: &[u8]) -> Option<Vec<u8>> {
        self.tables.get(&table)?.get(key).cloned()
    }

    pub(super) fn page(
        &self,
        table: Table,
        prefix: &[u8],
        from: From<'_>,
        direction: Direction,
    ) -> Page {
        let Some(records) = self.tables.get(&table) else {
            return Page::new();
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

    pub(super) fn next_frame(&self, after: Position) -> Option<Frame> {
        let range = (Bound::Excluded(after), Bound::Unbounded);
        self.journal.range(range).next().map(|(_, frame)| frame.clone())
    }

    pub(super) fn begins_after(&self) -> Position {
        self.journal.keys().next().map_or(self.last, |first| first.previous())
    }

    pub(super) fn trim(&mut self, through: Position) {
        self.journal = self.journal.split_off(&through.next());
    }

    pub(super) fn journal_bytes(&self, after: Position) -> u64 {
        let frames = self.journal.range((Bound::Excluded(after), Bound::Unbounded));
        frames.map(|(_, frame)| encoded_bytes(frame)).sum()
    }
}

fn encoded_bytes(frame: &Frame) -> u64 {
    let section =
        |it: &super::Section| SECTION_HEADER_BYTES + it.workspace.as_str().len() + it.events.len();
    (HEADER_BYTES + frame.sections.iter().map(section).sum::<usize>()) as u64
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

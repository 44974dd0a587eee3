//! A store whose commits wait while its gate is shut, so that a test decides what piles up.

use std::ops::ControlFlow;

use parking_lot::{Condvar, Mutex};

use crate::store::{
    Change, Direction, Frame, MemoryStore, Position, Store, StoreError, Table, Visit,
};

use super::*;

#[derive(Clone, Default)]
pub(super) struct Gated {
    inner: MemoryStore,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl Gated {
    pub(super) fn shut(&self) {
        *self.gate.0.lock() = true;
    }

    pub(super) fn open(&self) {
        *self.gate.0.lock() = false;
        self.gate.1.notify_all();
    }
}

impl Store for Gated {
    fn commit(&self, frame: Option<&Frame>, changes: &[Change]) -> Result<(), StoreError> {
        let mut shut = self.gate.0.lock();
        while *shut {
            self.gate.1.wait(&mut shut);
        }
        self.inner.commit(frame, changes)
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.get(table, key)
    }

    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        from: Option<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.inner.scan(table, prefix, from, direction, visit)
    }

    fn journal(
        &self,
        after: Position,
        visit: &mut dyn FnMut(Frame) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.inner.journal(after, visit)
    }

    fn last_position(&self) -> Result<Position, StoreError> {
        self.inner.last_position()
    }

    fn trim(&self, through: Position) -> Result<(), StoreError> {
        self.inner.trim(through)
    }

    fn reopen(&self) -> Result<(), StoreError> {
        self.inner.reopen()
    }

    fn journal_bytes(&self, after: Position) -> Result<u64, StoreError> {
        self.inner.journal_bytes(after)
    }
}

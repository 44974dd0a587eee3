//! A store in memory that does something before each commit or scan, for tests to wait, count or
//! fail.

use std::ops::ControlFlow;

use super::{Change, Direction, Frame, MemoryStore, Position, Store, StoreError, Table, Visit};

/// What is done before each commit or scan.
pub(crate) trait Hook: std::fmt::Debug + Send + Sync + 'static {
    fn before_commit(&self) {}

    fn before_scan(&self, _table: Table, _prefix: &[u8], _from: Option<&[u8]>) {}
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Hooked<H> {
    pub(crate) inner: MemoryStore,
    pub(crate) hook: H,
}

impl<H: Hook> Store for Hooked<H> {
    fn commit(&self, frame: Option<&Frame>, changes: &[Change]) -> Result<(), StoreError> {
        self.hook.before_commit();
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
        self.hook.before_scan(table, prefix, from);
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

//! A store that calls a hook before each commit, read or scan, for tests.

use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::{
    Direction, Frame, Group, Log, MemoryStore, Position, Store, StoreError, Table, View, Visit,
};

/// Code that runs before each commit, read or scan, such as to wait, count or fail.
pub trait Hook: std::fmt::Debug + Send + Sync + 'static {
    /// Called before each commit.
    fn before_commit(&self) {}

    /// Called before each commit of a group.
    fn before_group(&self, _group: &Group<'_>) {}

    /// Called before each read of one record.
    fn before_get(&self, _table: Table, _key: &[u8]) {}

    /// Called before each scan, with its table and range.
    fn before_scan(&self, _table: Table, _prefix: &[u8], _from: Option<&[u8]>) {}

    /// Called before each reading of the journal.
    fn before_replay(&self, _after: Position) {}
}

/// A store with a hook.
#[derive(Debug, Clone, Default)]
pub struct Hooked<H, S = MemoryStore> {
    /// The store that keeps the data.
    pub inner: S,
    /// The hook, which is called first.
    pub hook: H,
}

impl<H: Hook, S: Store> Store for Hooked<H, S> {
    fn commit(&self, group: Group<'_>) -> Result<Position, StoreError> {
        self.hook.before_commit();
        self.hook.before_group(&group);
        self.inner.commit(group)
    }

    fn begin_epoch(&self) -> Result<(u64, Position), StoreError> {
        self.hook.before_commit();
        self.inner.begin_epoch()
    }
}

impl<H: Hook, S: Store> View for Hooked<H, S> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.hook.before_get(table, key);
        self.inner.get(table, key)
    }

    fn value_bytes(&self, table: Table, key: &[u8]) -> Result<Option<u64>, StoreError> {
        self.inner.value_bytes(table, key)
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
}

impl<H: Hook, S: Store> Log for Hooked<H, S> {
    fn read(
        &self,
        after: Position,
        visit: &mut dyn FnMut(Frame) -> ControlFlow<()>,
    ) -> Result<Position, StoreError> {
        self.hook.before_replay(after);
        self.inner.read(after, visit)
    }

    fn begins_after(&self) -> Result<Position, StoreError> {
        self.inner.begins_after()
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

    fn bytes_after(&self, after: Position) -> Result<u64, StoreError> {
        self.inner.bytes_after(after)
    }
}

/// A store whose commits wait while its gate is shut, so that a test decides what is queued.
pub type Gated = Hooked<Gate>;

/// The hook of [`Gated`].
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gated {
    /// Makes commits wait from now on.
    pub fn shut(&self) {
        *self.hook.0.0.lock() = true;
    }

    /// Lets commits through.
    pub fn open(&self) {
        *self.hook.0.0.lock() = false;
        self.hook.0.1.notify_all();
    }
}

impl Hook for Gate {
    fn before_commit(&self) {
        let mut shut = self.0.0.lock();
        while *shut {
            self.0.1.wait(&mut shut);
        }
    }
}

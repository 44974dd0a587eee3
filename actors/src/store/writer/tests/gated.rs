use std::ops::ControlFlow;
use std::sync::mpsc;

use crate::store::{Direction, Frame, MemoryStore, Table, Visit};

use super::super::*;

/// A store whose commits wait for a permit, so that a test decides what piles up meanwhile.
pub(super) struct Gated {
    pub(super) inner: MemoryStore,
    permits: Mutex<mpsc::Receiver<Permit>>,
    entered: mpsc::Sender<()>,
    pub(super) commits: AtomicU64,
}

pub(super) enum Permit {
    Go,
    Panic,
}

pub(super) struct Gate {
    pub(super) permits: mpsc::Sender<Permit>,
    pub(super) entered: mpsc::Receiver<()>,
}

pub(super) fn gated() -> (Arc<Gated>, Gate) {
    let (permits, receiver) = mpsc::channel();
    let (sender, entered) = mpsc::channel();
    let store = Gated {
        inner: MemoryStore::new(),
        permits: Mutex::new(receiver),
        entered: sender,
        commits: AtomicU64::new(0),
    };
    (Arc::new(store), Gate { permits, entered })
}

impl Gate {
    /// A writer whose own first commit, of the epoch, has passed.
    pub(super) fn start(&self, store: &Arc<Gated>, options: WriterOptions) -> Writer {
        self.permits.send(Permit::Go).unwrap();
        let writer = Writer::start(store.clone(), options).unwrap();
        self.entered.recv().unwrap();
        writer
    }
}

impl Store for Gated {
    fn commit(&self, frame: Option<&Frame>, changes: &[Change]) -> Result<(), StoreError> {
        self.entered.send(()).unwrap();
        match self.permits.lock().recv() {
            Ok(Permit::Panic) => panic!("a store that panics"),
            // A gate that is gone lets everything pass.
            Ok(Permit::Go) | Err(_) => {}
        }
        self.commits.fetch_add(1, Ordering::Relaxed);
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

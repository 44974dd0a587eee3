//! A store for tests whose commits wait for permits.

use std::sync::mpsc;

use crate::MemoryStore;
use crate::hooked::{Hook, Hooked};

use super::super::*;

/// A store whose commits each wait for a permit, so that a test decides what is queued meanwhile.
pub(super) type Gated = Hooked<Permits>;

#[derive(Debug)]
pub(super) struct Permits {
    permits: Mutex<mpsc::Receiver<Permit>>,
    entered: mpsc::Sender<()>,
    pub(super) commits: AtomicU64,
}

#[derive(Debug)]
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
    let hook =
        Permits { permits: Mutex::new(receiver), entered: sender, commits: AtomicU64::new(0) };
    (Arc::new(Hooked { inner: MemoryStore::new(), hook }), Gate { permits, entered })
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

impl Hook for Permits {
    fn before_commit(&self) {
        self.entered.send(()).unwrap();
        match self.permits.lock().recv() {
            Ok(Permit::Panic) => panic!("a store that panics"),
            // A dropped gate lets everything pass.
            Ok(Permit::Go) | Err(_) => {}
        }
        self.commits.fetch_add(1, Ordering::Relaxed);
    }
}

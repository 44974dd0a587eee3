//! A database that is open, or that has failed and must be opened again.

use std::sync::Arc;

use parking_lot::RwLock;

use crate::StoreError;

/// Holds a database. Readers keep it only for the length of a call.
pub(super) struct Slot<T>(RwLock<State<T>>);

enum State<T> {
    Open(Arc<T>),
    /// The failure, and the database that still has to be closed.
    Failed(StoreError, Option<Arc<T>>),
}

impl<T> Slot<T> {
    pub(super) fn new(open: T) -> Self {
        Self(RwLock::new(State::Open(Arc::new(open))))
    }

    pub(super) fn handle(&self) -> Result<Arc<T>, StoreError> {
        match &*self.0.read() {
            State::Open(open) => Ok(open.clone()),
            State::Failed(error, _) => Err(error.clone()),
        }
    }

    /// Makes every call fail until the database is opened again.
    pub(super) fn fail(&self, error: StoreError) -> StoreError {
        let mut state = self.0.write();
        let old = match &mut *state {
            State::Open(open) => Some(open.clone()),
            State::Failed(_, old) => old.take(),
        };
        *state = State::Failed(error.clone(), old);
        error
    }

    /// Opens a failed database again. Does nothing to one that works.
    pub(super) fn reopen(
        &self,
        open: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<(), StoreError> {
        let mut state = self.0.write();
        let State::Failed(_, old) = &mut *state else {
            return Ok(());
        };
        // This closes the database, unless a reader still uses it. Then opening fails, and a later
        // attempt may succeed.
        drop(old.take());
        *state = State::Open(Arc::new(open()?));
        Ok(())
    }
}

//! The newest checkpoint, for the figures.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use postrider_domain::Timestamp;
use postrider_store::Position;

/// The newest checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewestCheckpoint {
    pub(crate) position: Position,
    pub(crate) bytes: u64,
    /// The engine time of its creation.
    pub(crate) made: Timestamp,
}

/// Reports the newest checkpoint, if there is one. Clones report the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct CheckpointFigures(Arc<Mutex<Option<NewestCheckpoint>>>);

impl CheckpointFigures {
    pub(crate) fn set(&self, newest: Option<NewestCheckpoint>) {
        *self.0.lock() = newest;
    }

    pub(crate) fn newest(&self) -> Option<NewestCheckpoint> {
        *self.0.lock()
    }

    /// Returns the age and the size of the newest checkpoint.
    pub(crate) fn read(&self, now: Timestamp) -> Option<(Duration, u64)> {
        self.newest().map(|newest| (now.since(newest.made), newest.bytes))
    }
}

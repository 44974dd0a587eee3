//! Up to where the log may be trimmed.

use parking_lot::Mutex;

use crate::Position;

/// What was asked to be trimmed, and what keeps it.
#[derive(Debug, Default)]
pub(super) struct Trimming(Mutex<Bounds>);

#[derive(Debug, Default, Clone, Copy)]
struct Bounds {
    /// Nobody but the checkpoints needs what is up to here.
    asked: Position,
    /// The checkpoints need what follows; `None` where there are none.
    checkpoints: Option<Position>,
}

impl Bounds {
    fn through(self) -> Position {
        self.checkpoints.map_or(self.asked, |after| after.min(self.asked))
    }
}

impl Trimming {
    /// Notes that it may be trimmed up to a position. Returns up to where that is allowed.
    pub(super) fn ask(&self, through: Position) -> Position {
        let mut bounds = self.0.lock();
        bounds.asked = bounds.asked.max(through);
        bounds.through()
    }

    /// Notes that checkpoints need what follows a position. Returns up to where it may be trimmed.
    pub(super) fn keep_after(&self, position: Position) -> Position {
        let mut bounds = self.0.lock();
        bounds.checkpoints = Some(position);
        bounds.through()
    }
}

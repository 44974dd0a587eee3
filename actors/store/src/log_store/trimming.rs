//! The position up to which the log may be trimmed.

use parking_lot::Mutex;

use crate::Position;

/// The requested trim, and the position that limits it.
#[derive(Debug, Default)]
pub(super) struct Trimming(Mutex<Bounds>);

#[derive(Debug, Default, Clone, Copy)]
struct Bounds {
    /// The position up to which only the checkpoints need the log.
    asked: Position,
    /// The position after which the checkpoints need the log; `None` if there are none.
    checkpoints: Option<Position>,
}

impl Bounds {
    fn through(self) -> Position {
        self.checkpoints.map_or(self.asked, |after| after.min(self.asked))
    }
}

impl Trimming {
    /// Records that it may be trimmed up to a position. Returns the allowed position.
    pub(super) fn ask(&self, through: Position) -> Position {
        let mut bounds = self.0.lock();
        bounds.asked = bounds.asked.max(through);
        bounds.through()
    }

    /// Records that checkpoints need the log after a position. Returns the allowed position.
    pub(super) fn keep_after(&self, position: Position) -> Position {
        let mut bounds = self.0.lock();
        bounds.checkpoints = Some(position);
        bounds.through()
    }
}

//! Pure: the port to the durable sequence of frames, which recovery and snapshots read.

#[cfg(test)]
pub(crate) mod conformance;
pub mod frame;

use std::ops::ControlFlow;

pub use frame::{Frame, Section};

use crate::error::StoreError;
use crate::view::Change;

/// A frame's number. The first frame is 1, and [`Position::START`] is before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

impl Position {
    /// The position before the first frame.
    pub const START: Self = Self(0);

    /// The position right after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// What one group commit makes durable.
#[derive(Debug, Clone, Copy)]
pub struct Group<'a> {
    /// The events; `None` when the group changes records only.
    pub frame: Option<&'a Frame>,
    /// The changes of records. No two of them name the same record.
    pub changes: &'a [Change],
}

impl<'a> Group<'a> {
    /// A group of this frame and these changes.
    #[must_use]
    pub const fn new(frame: Option<&'a Frame>, changes: &'a [Change]) -> Self {
        Self { frame, changes }
    }
}

/// The port to the durable sequence of frames. Every method blocks.
pub trait Log: Send + Sync + 'static {
    /// Visits the frames after `after`, oldest first. Trimmed frames are skipped without an error.
    /// Callers that need every frame must call [`replay`].
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when a frame's checksum or number is not what it must be.
    fn read(
        &self,
        after: Position,
        visit: &mut dyn FnMut(Frame) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;

    /// The number of the newest frame ever committed, trimmed or not.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the disk cannot be read.
    fn last_position(&self) -> Result<Position, StoreError>;

    /// The approximate bytes of the frames after `after`.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the disk cannot be read.
    fn bytes_after(&self, after: Position) -> Result<u64, StoreError>;

    /// Deletes the frames up to and including `through`. Their space is freed eventually. The
    /// deletion need not be durable: trimmed frames may return after a crash.
    ///
    /// # Errors
    /// [`StoreError::Failed`] as for a commit.
    fn trim(&self, through: Position) -> Result<(), StoreError>;

    /// Opens the store again after a failed commit. Everything that it shows from then on must be
    /// durable. Does nothing to a store that works.
    ///
    /// # Errors
    /// Those of opening the store the first time. The caller may try again.
    fn reopen(&self) -> Result<(), StoreError>;
}

/// Visits every frame after `after`, oldest first, as [`Log::read`] does, and fails if one is
/// missing. State that was rebuilt without it would be wrong and not look so.
///
/// # Errors
/// Those of [`Log::read`]; [`StoreError::Damaged`] when a frame is missing.
pub fn replay(
    log: &dyn Log,
    after: Position,
    visit: &mut dyn FnMut(Frame) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let last = log.last_position()?;
    if after > last {
        let (after, last) = (after.0, last.0);
        return Err(StoreError::Damaged(format!(
            "a snapshot stands at frame {after}, and the journal ends with {last}"
        )));
    }
    let mut next = after.next();
    let mut stopped = false;
    log.read(after, &mut |frame| {
        if frame.number != next {
            return ControlFlow::Break(());
        }
        next = next.next();
        let flow = visit(frame);
        stopped = flow.is_break();
        flow
    })?;
    if !stopped && next <= last {
        return Err(StoreError::Damaged(format!(
            "frame {} of the journal is gone, and no whole snapshot has it",
            next.0
        )));
    }
    Ok(())
}

/// Checks that frames are numbered without gaps.
pub(crate) fn check_number(last: Position, frame: &Frame) -> Result<(), StoreError> {
    if frame.number == last.next() {
        return Ok(());
    }
    let Frame { number, .. } = frame;
    Err(StoreError::Failed(format!("frame {} does not follow frame {}", number.0, last.0)))
}

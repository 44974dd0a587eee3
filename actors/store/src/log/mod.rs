//! The durable sequence of commits, as recovery, snapshots and trimming read it.

pub mod frame;

use std::ops::ControlFlow;

pub use frame::{Frame, Section};

use crate::error::StoreError;
use crate::view::Change;

/// A frame's number. The first frame is 1; [`Position::START`] stands before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

impl Position {
    /// Before the first frame.
    pub const START: Self = Self(0);

    /// The position right after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// What one group commit makes durable, given to the store together and once.
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
    /// Visits the frames after `after`, oldest first. Trimmed ones are passed over in silence: who
    /// needs all of them calls [`replay`].
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

    /// Bytes of frames after `after`, roughly.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the disk cannot be read.
    fn bytes_after(&self, after: Position) -> Result<u64, StoreError>;

    /// Forgets the frames up to and including `through`, and gives their space back in time. It
    /// need not be durable: a crash may bring trimmed frames back.
    ///
    /// # Errors
    /// [`StoreError::Failed`] as for a commit.
    fn trim(&self, through: Position) -> Result<(), StoreError>;

    /// After a failed commit: opens the store again from what is durable, such that whatever it
    /// now shows is durable. Does nothing to a store that works.
    ///
    /// # Errors
    /// The same as opening it the first time; it may be called again.
    fn reopen(&self) -> Result<(), StoreError>;
}

/// Visits every frame after `after`, oldest first, as [`Log::read`] does, and fails where one of
/// them is gone: what is rebuilt without it would look whole and not be.
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

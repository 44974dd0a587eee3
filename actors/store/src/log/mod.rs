//! Pure: the port to the durable sequence of frames, which recovery and snapshots read.

#[cfg(test)]
pub(crate) mod conformance;
pub mod frame;

use std::ops::ControlFlow;

pub use frame::{Frame, Section};
pub use postrider_log::Position;

use crate::error::StoreError;
use crate::view::Change;

/// The contents of one group commit.
#[derive(Debug, Clone, Copy)]
pub struct Group<'a> {
    /// The events; `None` when the group changes records only.
    pub frame: Option<&'a Frame>,
    /// The changes of records. No two of them name the same record.
    pub changes: &'a [Change],
    /// The engine time of the commit in milliseconds.
    ///
    /// If it is unknown, it is 0: the entry then gets the time of the previous one.
    pub time_ms: u64,
}

impl<'a> Group<'a> {
    /// Returns a group of this frame and these changes.
    #[must_use]
    pub const fn new(frame: Option<&'a Frame>, changes: &'a [Change]) -> Self {
        Self { frame, changes, time_ms: 0 }
    }
}

/// The figures of a log and of its view.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Figures {
    /// The last position of the log.
    pub last: Position,
    /// The bytes of the log.
    pub bytes: u64,
    /// The files of the log.
    pub segments: usize,
    /// The position that the view has applied.
    pub applied: Position,
    /// The position up to which the view is synced.
    pub synced: Position,
    /// The reason why commits will fail soon.
    pub problem: Option<String>,
}

/// The port to the durable sequence of frames. Every method blocks.
pub trait Log: Send + Sync + 'static {
    /// Visits the frames after `after`, oldest first. Trimmed frames are skipped without an error.
    ///
    /// Callers that need every frame must call [`replay`]. Returns the position up to which it
    /// read, which may be behind the last frame.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when a frame's checksum or number is not what it must be.
    fn read(
        &self,
        after: Position,
        visit: &mut dyn FnMut(Frame) -> ControlFlow<()>,
    ) -> Result<Position, StoreError>;

    /// Returns the position before the oldest one that is not trimmed.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the disk cannot be read.
    fn begins_after(&self) -> Result<Position, StoreError>;

    /// Returns the newest position ever committed, trimmed or not.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the disk cannot be read.
    fn last_position(&self) -> Result<Position, StoreError>;

    /// Returns the approximate bytes of the frames after `after`.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the disk cannot be read.
    fn bytes_after(&self, after: Position) -> Result<u64, StoreError>;

    /// Deletes the frames up to and including `through`. Their space is freed eventually.
    ///
    /// The deletion need not be durable: trimmed frames may return after a crash.
    ///
    /// # Errors
    /// [`StoreError::Failed`] as for a commit.
    fn trim(&self, through: Position) -> Result<(), StoreError>;

    /// Returns the figures of the log, fast enough for async code.
    ///
    /// `None` while it has failed, and if it has no figures.
    fn figures(&self) -> Option<Figures> {
        None
    }

    /// Opens the store again after a failed commit.
    ///
    /// Everything that it shows from then on must be durable. Does nothing to a store that works.
    ///
    /// # Errors
    /// Those of opening the store the first time. The caller may try again.
    fn reopen(&self) -> Result<(), StoreError>;
}

/// Visits every frame after `after`, oldest first, as [`Log::read`] does.
///
/// It fails if one is missing. State rebuilt without it would be wrong without any sign of it.
/// Returns the position up to which it read.
///
/// # Errors
/// Those of [`Log::read`]; [`StoreError::Damaged`] when a frame is missing.
pub fn replay(
    log: &dyn Log,
    after: Position,
    visit: &mut dyn FnMut(Frame) -> ControlFlow<()>,
) -> Result<Position, StoreError> {
    let last = log.last_position()?;
    if after > last {
        return Err(StoreError::Damaged(format!(
            "a snapshot stands at frame {after}, and the journal ends with {last}"
        )));
    }
    let read = log.read(after, visit);
    // This check comes afterwards, because the log may have been trimmed meanwhile.
    if log.begins_after()? > after {
        return Err(StoreError::Damaged(format!(
            "frame {} of the journal is missing, and no whole snapshot has it",
            after.next()
        )));
    }
    read
}

/// Checks that frames are numbered without gaps.
pub(crate) fn check_number(last: Position, frame: &Frame) -> Result<(), StoreError> {
    if frame.number == last.next() {
        return Ok(());
    }
    let Frame { number, .. } = frame;
    Err(StoreError::Failed(format!("frame {} does not follow frame {}", number.0, last.0)))
}

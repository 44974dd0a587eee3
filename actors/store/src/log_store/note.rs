//! Notes in the log, which change no record: the place of a checkpoint for other nodes.

use postrider_log::{AppendError, CheckpointNote, Kind, encode_commit};

use super::LogStore;
use super::encode::mark;
use crate::{Position, StoreError};

impl LogStore {
    /// Appends a note behind the last commit with the place of a checkpoint.
    ///
    /// Returns the position of the note.
    ///
    /// # Errors
    /// [`StoreError`]: the store has failed, or another writer has replaced this one.
    pub fn note_checkpoint(
        &self,
        note: &CheckpointNote,
        time_ms: u64,
    ) -> Result<Position, StoreError> {
        let inner = &*self.inner;
        let mut writing = inner.writing.lock();
        inner.check()?;
        let tail = inner.log.tail().map_err(|error| inner.fail(error.into(), false))?;
        // Engine time continues from the last entry.
        let time_ms = tail.header.as_ref().map_or(0, |header| header.time_ms).max(time_ms);
        let (next, body) = (tail.next(writing.epoch), note.encode()?);
        let entries =
            encode_commit(&next, Kind::Checkpoint, time_ms, &body, inner.log.entry_bytes_max())?;
        match inner.log.append(next.position, &entries) {
            Ok(()) => {}
            // Nothing of it was appended, so the store continues.
            Err(error @ AppendError::Refused(_)) => return Err(error.into()),
            Err(error) => return Err(inner.fail(error.into(), false)),
        }
        let at = mark(&inner.log.tail().map_err(|error| inner.fail(error.into(), false))?);
        inner.view.apply(&at, &[]).map_err(|error| inner.fail(error, true))?;
        writing.noted += entries.len() as u64;
        Ok(at.position)
    }
}

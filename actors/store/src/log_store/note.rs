//! Notes in the log which change no record: a checkpoint is where others find it.

use postrider_log::{AppendError, CheckpointNote, Kind, encode_commit};

use super::LogStore;
use super::encode::mark;
use crate::{Position, StoreError};

impl LogStore {
    /// Notes in the log, behind the last commit, that a checkpoint is where the note says. Returns
    /// the position of the note.
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
        // Engine time goes on from the last entry.
        let time_ms = tail.header.as_ref().map_or(0, |header| header.time_ms).max(time_ms);
        let (next, body) = (tail.next(writing.epoch), note.encode()?);
        let entries =
            encode_commit(&next, Kind::Checkpoint, time_ms, &body, inner.log.entry_bytes_max())?;
        match inner.log.append(next.position, &entries) {
            Ok(()) => {}
            // Nothing of it is there, so the store goes on.
            Err(error @ AppendError::Refused(_)) => return Err(error.into()),
            Err(error) => return Err(inner.fail(error.into(), false)),
        }
        let at = mark(&inner.log.tail().map_err(|error| inner.fail(error.into(), false))?);
        inner.view.apply(&at, &[]).map_err(|error| inner.fail(error, true))?;
        writing.noted += entries.len() as u64;
        Ok(at.position)
    }
}

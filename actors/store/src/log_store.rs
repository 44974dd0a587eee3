//! A store whose truth is a log in files of its own; the view is derived from the log.
//!
//! A commit is appended to the log, durably, then applied to the view, and only then acknowledged.
//! A thread beside the writer syncs the view once a second. A start applies the changes again that
//! the view lost in a crash.

pub(crate) mod encoding;
pub(crate) mod recovery;
mod sync;

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use postrider_domain::Timestamp;
use postrider_log::body::{DATA_FORMAT, encode_group};
use postrider_log::{
    self as log, AppendError, CheckpointNote, Claim, Kind, LogId, Mark, PieceError, Tail,
    encode_commit, parts_of, read_commits, write_piece,
};

use crate::checkpoints::{Checkpoint, CheckpointError};
use crate::log::check_number;
use crate::view::{MarkedView, ViewSnapshot};
use crate::{
    Direction, Figures, Frame, Group, Log, Position, Store, StoreError, Table, View, Visit,
};
use encoding::{change_refs, entry_time_ms, frame_of, mark_of};
use sync::SyncThread;

/// The identity of the writer.
#[derive(Debug, Clone, Default)]
pub struct Writes {
    /// The name of the node.
    pub node: String,
    /// Random bytes of the process.
    pub incarnation: [u8; 16],
    /// The version of the program.
    pub program: String,
    /// The engine time of its start. No entry has an earlier time.
    pub begun_at: Timestamp,
}

/// A step of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The commit is appended to the log, durably.
    Append,
    /// The view applies it.
    Apply,
}

/// Receives the durations of steps. The store reads no clock by itself.
pub trait Timing: Send + Sync + 'static {
    /// Returns a time that never decreases.
    fn now(&self) -> Duration;

    /// Reports the duration of a step.
    fn took(&self, step: Step, time: Duration);
}

/// A [`Store`] of a log and a view.
pub struct LogStore {
    inner: Arc<Inner>,
    syncing: Option<SyncThread>,
}

/// The shared state of the store and the thread that syncs the view.
struct Inner {
    log: Arc<dyn log::Log>,
    view: Arc<dyn MarkedView>,
    claim: Claim,
    begun_at: Timestamp,
    /// Held during all appends and applications.
    writing: Mutex<CommitState>,
    failed: RwLock<Option<StoreError>>,
    timing: OnceLock<Box<dyn Timing>>,
    /// The reason why commits will fail soon, as of a second ago.
    problem: Mutex<Option<String>>,
    /// Set if readers must not see the view, because it has failed or is behind.
    is_hidden: AtomicBool,
    trimming: TrimBounds,
}

/// The state of commits.
#[derive(Debug, Default)]
struct CommitState {
    epoch: u64,
    frame: Vec<u8>,
    /// The number of notes behind the last commit, which frames do not count.
    noted: u64,
    /// Set if the last commit found no room, and nothing of it was appended.
    had_no_room: bool,
}

impl LogStore {
    /// Opens a store of this log and this view, after the view has applied the missing commits.
    ///
    /// # Errors
    /// [`StoreError::Lost`] if the log ends before the view's mark; [`StoreError::Damaged`] if the
    /// view is of another log, or the log lacks entries to replay; [`StoreError::Newer`] if it
    /// cannot be understood.
    pub fn open(
        log: Arc<dyn log::Log>,
        view: Arc<dyn MarkedView>,
        writes: Writes,
    ) -> Result<Self, StoreError> {
        recovery::log_applied(recovery::catch_up(&*log, &*view, &mut |_| Ok(true))?);
        Ok(Self::caught_up(log, view, writes))
    }

    /// Opens the store of a view that has already applied all commits of the log.
    pub(crate) fn caught_up(
        log: Arc<dyn log::Log>,
        view: Arc<dyn MarkedView>,
        writes: Writes,
    ) -> Self {
        let Writes { node, incarnation, program, begun_at } = writes;
        let claim = Claim { node, incarnation, program, readable_from: DATA_FORMAT };
        let inner = Inner {
            log,
            view,
            claim,
            begun_at,
            writing: Mutex::default(),
            failed: RwLock::default(),
            timing: OnceLock::new(),
            problem: Mutex::default(),
            is_hidden: AtomicBool::new(false),
            trimming: TrimBounds::default(),
        };
        Self { inner: Arc::new(inner), syncing: None }
    }

    /// Measures the steps of commits. Only the first call counts.
    pub fn measure(&self, timing: impl Timing) {
        drop(self.inner.timing.set(Box::new(timing)));
    }

    /// Syncs the view each second on a thread of its own, and opens it again after a failure.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the thread cannot be started.
    pub fn syncing(mut self) -> Result<Self, StoreError> {
        self.syncing = Some(SyncThread::start(&self.inner)?);
        Ok(self)
    }
}

impl LogStore {
    /// Returns the identity of the log.
    #[must_use]
    pub fn log_id(&self) -> LogId {
        self.inner.log.id()
    }

    /// Returns the shard of the log.
    ///
    /// # Errors
    /// [`StoreError`]: the store has failed.
    pub fn shard(&self) -> Result<u16, StoreError> {
        Ok(self.inner.log.tail()?.shard)
    }

    /// Returns all records at one mark, unaffected by later commits.
    ///
    /// # Errors
    /// [`StoreError`]: the view has failed.
    pub fn snapshot(&self) -> Result<Box<dyn ViewSnapshot>, StoreError> {
        self.inner.view_for_readers()?.snapshot()
    }

    /// Keeps the log after a position for checkpoints, despite trims.
    ///
    /// The store then deletes the part whose trim had to wait for earlier checkpoints.
    ///
    /// # Errors
    /// [`StoreError`]: the store has failed.
    pub fn keep_for_checkpoints(&self, after: Position) -> Result<(), StoreError> {
        self.inner.trim(self.inner.trimming.keep_after(after))
    }

    /// Fails unless a checkpoint belongs to this log and the log continues from it.
    ///
    /// # Errors
    /// [`CheckpointError`]: the reason.
    pub fn leads_on_from(&self, checkpoint: &Checkpoint) -> Result<Mark, CheckpointError> {
        checkpoint.must_lead_to(&*self.inner.log)
    }

    /// Writes the log after a position as a piece. Returns the mark of its end.
    pub fn write_piece(&self, after: Position, out: &mut dyn Write) -> Result<Mark, PieceError> {
        write_piece(&*self.inner.log, after, out)
    }

    /// Appends a note behind the last commit with the place of a checkpoint for other nodes.
    ///
    /// A note changes no record. Returns its position.
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
        let at = mark_of(&inner.log.tail().map_err(|error| inner.fail(error.into(), false))?);
        inner.view.apply(&at, &[]).map_err(|error| inner.fail(error, true))?;
        writing.noted += entries.len() as u64;
        Ok(at.position)
    }
}

impl Inner {
    fn timed<T>(&self, step: Step, run: impl FnOnce() -> T) -> T {
        let Some(timing) = self.timing.get() else { return run() };
        let begun = timing.now();
        let done = run();
        timing.took(step, timing.now().saturating_sub(begun));
        done
    }

    fn check(&self) -> Result<(), StoreError> {
        self.failed.read().clone().map_or(Ok(()), Err)
    }

    /// Makes every commit fail until the store is opened again.
    ///
    /// If the view has failed, every read fails too.
    fn fail(&self, error: StoreError, hides: bool) -> StoreError {
        if hides {
            self.is_hidden.store(true, Ordering::Release);
        }
        *self.failed.write() = Some(error.clone());
        error
    }

    /// Returns the view for readers, who continue after a failure of the log.
    ///
    /// The entries of the failed commit are applied, or cut off, when the log is opened again, and
    /// they were never acknowledged.
    fn view_for_readers(&self) -> Result<&dyn MarkedView, StoreError> {
        if self.is_hidden.load(Ordering::Acquire) {
            self.check()?;
        }
        Ok(&*self.view)
    }

    fn commit(&self, group: Group<'_>) -> Result<Position, StoreError> {
        let mut writing = self.writing.lock();
        self.check()?;
        let tail = self.log.tail().map_err(|error| self.fail(error.into(), false))?;
        if let Some(frame) = group.frame {
            let last = Position(tail.last.0.saturating_sub(writing.noted));
            check_number(last, frame).map_err(|error| self.fail(error, false))?;
        }
        let entries = self.encode(&mut writing, &tail, group)?;
        let bytes = entries.iter().map(bytes::Bytes::len).sum();
        if let Err(why) = self.log.has_room(bytes) {
            // The store continues: a checkpoint that is being written shall make room.
            writing.had_no_room = true;
            return Err(StoreError::Failed(why));
        }
        let appended = self.timed(Step::Append, || self.log.append(tail.last.next(), &entries));
        appended.map_err(|error| self.fail(error.into(), false))?;
        let at = mark_of(&self.log.tail().map_err(|error| self.fail(error.into(), false))?);
        let applied = self.timed(Step::Apply, || self.view.apply(&at, group.changes));
        applied.map_err(|error| self.fail(error, true))?;
        writing.noted = 0;
        Ok(at.position)
    }

    /// Returns the entries of a commit.
    fn encode(
        &self,
        writing: &mut CommitState,
        tail: &Tail,
        group: Group<'_>,
    ) -> Result<Vec<bytes::Bytes>, StoreError> {
        let (epoch, max) = (writing.epoch, self.log.entry_bytes_max());
        let mut parts = 1;
        let body = loop {
            // The frame's number is the position of the last part. All numbers are equally long.
            let number = Position(tail.last.0 + parts);
            writing.frame.clear();
            if let Some(frame) = group.frame {
                frame.encode_as(epoch, number, &mut writing.frame);
            }
            let body = encode_group(&writing.frame, change_refs(group.changes))?;
            let needed = parts_of(body.len(), max) as u64;
            if needed == parts {
                break body;
            }
            parts = needed;
        };
        let time_ms = entry_time_ms(tail, self.begun_at, group.time_ms);
        Ok(encode_commit(&tail.next(epoch), Kind::Group, time_ms, &body, max)?)
    }

    fn figures(&self) -> Result<Figures, StoreError> {
        self.check()?;
        Ok(Figures {
            last: self.log.tail()?.last,
            bytes: self.log.bytes_after(Position::START)?,
            segments: self.log.segments(),
            applied: self.view.applied()?.position,
            synced: self.view.synced()?,
            problem: self.problem.lock().clone(),
        })
    }

    fn trim(&self, through: Position) -> Result<(), StoreError> {
        self.check()?;
        // The entries that the view would need after a power cut stay.
        let synced = self.sync()?;
        Ok(self.log.trim(through.min(synced))?)
    }

    fn sync(&self) -> Result<Position, StoreError> {
        self.view.sync().map_err(|error| self.fail(error, true))
    }
}

/// The requested trim, and the position that limits it.
#[derive(Debug, Default)]
struct TrimBounds(Mutex<TrimPositions>);

#[derive(Debug, Default, Clone, Copy)]
struct TrimPositions {
    /// The position up to which only the checkpoints need the log.
    asked: Position,
    /// The position after which the checkpoints need the log; `None` if there are none.
    checkpoints: Option<Position>,
}

impl TrimPositions {
    fn through(self) -> Position {
        self.checkpoints.map_or(self.asked, |after| after.min(self.asked))
    }
}

impl TrimBounds {
    /// Records that it may be trimmed up to a position. Returns the allowed position.
    fn request(&self, through: Position) -> Position {
        let mut bounds = self.0.lock();
        bounds.asked = bounds.asked.max(through);
        bounds.through()
    }

    /// Records that checkpoints need the log after a position. Returns the allowed position.
    fn keep_after(&self, position: Position) -> Position {
        let mut bounds = self.0.lock();
        bounds.checkpoints = Some(position);
        bounds.through()
    }
}

impl Drop for LogStore {
    fn drop(&mut self) {
        if let Some(syncing) = self.syncing.take() {
            syncing.stop();
        }
    }
}

impl Store for LogStore {
    fn commit(&self, group: Group<'_>) -> Result<Position, StoreError> {
        self.inner.commit(group)
    }

    fn begin_epoch(&self) -> Result<(u64, Position), StoreError> {
        self.inner.claim()
    }

    fn close(&self) -> Result<(), StoreError> {
        let _writing = self.inner.writing.lock();
        self.inner.check()?;
        self.inner.sync()?;
        Ok(self.inner.log.close()?)
    }
}

impl View for LogStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.view_for_readers()?.get(table, key)
    }

    fn value_bytes(&self, table: Table, key: &[u8]) -> Result<Option<u64>, StoreError> {
        self.inner.view_for_readers()?.value_bytes(table, key)
    }

    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        from: Option<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.inner.view_for_readers()?.scan(table, prefix, from, direction, visit)
    }

    fn moment(&self) -> Result<Option<Box<dyn View>>, StoreError> {
        self.inner.view_for_readers()?.moment()
    }
}

impl Log for LogStore {
    fn read(
        &self,
        after: Position,
        visit: &mut dyn FnMut(Frame) -> ControlFlow<()>,
    ) -> Result<Position, StoreError> {
        self.inner.check()?;
        let first = self.inner.log.tail()?.first;
        let (mut reached, mut failed) = (after, None);
        read_commits(&*self.inner.log, after.next().max(first), &mut |commit| {
            reached = commit.position;
            match frame_of(&commit) {
                Ok(Some(frame)) => visit(frame),
                Ok(None) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        // After a failed commit, the last visible frames may turn out not to be durable.
        self.inner.check()?;
        failed.map_or(Ok(reached), Err)
    }

    fn last_position(&self) -> Result<Position, StoreError> {
        self.inner.check()?;
        Ok(self.inner.log.tail()?.last)
    }

    fn begins_after(&self) -> Result<Position, StoreError> {
        Ok(self.inner.log.tail()?.first.previous())
    }

    fn bytes_after(&self, after: Position) -> Result<u64, StoreError> {
        self.inner.check()?;
        Ok(self.inner.log.bytes_after(after)?)
    }

    fn trim(&self, through: Position) -> Result<(), StoreError> {
        self.inner.trim(self.inner.trimming.request(through))
    }

    fn figures(&self) -> Option<Figures> {
        self.inner.figures().ok()
    }

    fn reopen(&self) -> Result<(), StoreError> {
        self.inner.reopen()
    }
}

#[cfg(test)]
mod tests;

//! A store whose truth is a log in files of its own: the view is what the log adds up to.
//!
//! A commit is appended to the log, durably, then applied to the view, and only then acknowledged.
//! The view is synced once a second, beside. What it lost in a crash is applied again at the start.

pub(crate) mod decode;
mod encode;
mod failure;
mod note;
pub(crate) mod open;
mod reopen;
mod sync;
pub mod timing;
mod trimming;

#[cfg(test)]
mod tests;

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};
use postrider_domain::Timestamp;
use postrider_log::body::{DATA_FORMAT, encode_group};
use postrider_log::{
    self as log, Claim, Kind, LogId, Mark, PieceError, Tail, encode_commit, parts_of, read_commits,
    write_piece,
};

use crate::checkpoints::{Checkpoint, CheckpointError};
use crate::log::check_number;
use crate::view::{MarkedView, ViewSnapshot};
use crate::{
    Direction, Figures, Frame, Group, Log, Position, Store, StoreError, Table, View, Visit,
};
use decode::frame_of;
use encode::{changes, dated, mark};
use sync::Syncing;
use timing::{Step, Timing};
use trimming::Trimming;

/// Who writes.
#[derive(Debug, Clone, Default)]
pub struct Writes {
    /// The name of the node.
    pub node: String,
    /// Random bytes of the process.
    pub incarnation: [u8; 16],
    /// The version of the program.
    pub program: String,
    /// Engine time as it begins. No entry is dated earlier.
    pub begun_at: Timestamp,
}

/// A [`Store`] of a log and a view.
pub struct LogStore {
    inner: Arc<Inner>,
    syncing: Option<Syncing>,
}

/// What the store and the thread that syncs the view share.
struct Inner {
    log: Arc<dyn log::Log>,
    view: Arc<dyn MarkedView>,
    claim: Claim,
    begun_at: Timestamp,
    /// Held while anything is appended or applied.
    writing: Mutex<Writing>,
    failed: RwLock<Option<StoreError>>,
    timing: OnceLock<Box<dyn Timing>>,
    /// Why commits will fail soon, as it was a second ago.
    problem: Mutex<Option<String>>,
    /// Whether readers must not see the view, because it has failed or is behind.
    is_hidden: AtomicBool,
    trimming: Trimming,
}

/// What a commit needs.
#[derive(Debug, Default)]
struct Writing {
    epoch: u64,
    frame: Vec<u8>,
    /// Notes that were appended behind the last commit, which frames do not count.
    noted: u64,
    /// The last commit found no room, and nothing of it was appended.
    had_no_room: bool,
}

impl LogStore {
    /// A store of this log and this view, after the view has applied what it lacks.
    ///
    /// # Errors
    /// [`StoreError::Lost`] when the log ends before what the view applied;
    /// [`StoreError::Damaged`] when the view is of another log, or the log lacks what must be
    /// replayed; [`StoreError::Newer`] when it cannot be understood.
    pub fn open(
        log: Arc<dyn log::Log>,
        view: Arc<dyn MarkedView>,
        writes: Writes,
    ) -> Result<Self, StoreError> {
        open::log_applied(open::catch_up(&*log, &*view, &mut |_| Ok(true))?);
        Ok(Self::over(log, view, writes))
    }

    /// The same of a view that lacks nothing.
    pub(crate) fn over(log: Arc<dyn log::Log>, view: Arc<dyn MarkedView>, writes: Writes) -> Self {
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
            trimming: Trimming::default(),
        };
        Self { inner: Arc::new(inner), syncing: None }
    }

    /// Has the steps of commits measured. Only the first call counts.
    pub fn measure(&self, timing: impl Timing) {
        drop(self.inner.timing.set(Box::new(timing)));
    }

    /// Has the view synced each second on a thread of its own, and opened again if it failed.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the thread cannot be started.
    pub fn syncing(mut self) -> Result<Self, StoreError> {
        self.syncing = Some(Syncing::start(&self.inner)?);
        Ok(self)
    }
}

impl LogStore {
    /// The identity of the log.
    #[must_use]
    pub fn log_id(&self) -> LogId {
        self.inner.log.id()
    }

    /// The shard of the log.
    ///
    /// # Errors
    /// [`StoreError`]: the store has failed.
    pub fn shard(&self) -> Result<u16, StoreError> {
        Ok(self.inner.log.tail()?.shard)
    }

    /// All records at one mark, whatever is committed meanwhile.
    ///
    /// # Errors
    /// [`StoreError`]: the view has failed.
    pub fn snapshot(&self) -> Result<Box<dyn ViewSnapshot>, StoreError> {
        self.inner.shown()?.snapshot()
    }

    /// Keeps what follows a position in the log for checkpoints, whoever trims it. What was kept
    /// for them until now and was asked to be trimmed goes.
    ///
    /// # Errors
    /// [`StoreError`]: the store has failed.
    pub fn keep_for_checkpoints(&self, after: Position) -> Result<(), StoreError> {
        self.inner.trim(self.inner.trimming.keep_after(after))
    }

    /// Fails unless a checkpoint is of this log, which leads on from it.
    ///
    /// # Errors
    /// [`CheckpointError`]: why not.
    pub fn leads_on_from(&self, checkpoint: &Checkpoint) -> Result<Mark, CheckpointError> {
        checkpoint.must_lead_to(&*self.inner.log)
    }

    /// Writes what the log has after a position as a piece. Returns the mark of its end.
    ///
    /// # Errors
    /// See [`PieceError`].
    pub fn write_piece(&self, after: Position, out: &mut dyn Write) -> Result<Mark, PieceError> {
        write_piece(&*self.inner.log, after, out)
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

    /// Makes every commit fail until the store is opened again; and every read, if the view has
    /// failed.
    fn fail(&self, error: StoreError, hides: bool) -> StoreError {
        if hides {
            self.is_hidden.store(true, Ordering::Release);
        }
        *self.failed.write() = Some(error.clone());
        error
    }

    /// Readers go on after a failure of the log: what it holds of the failed commit is applied, or
    /// cut off, when it is opened again, and it was never acknowledged.
    fn shown(&self) -> Result<&dyn MarkedView, StoreError> {
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
            // The store goes on: a checkpoint that is being made shall make room.
            writing.had_no_room = true;
            return Err(StoreError::Failed(why));
        }
        let appended = self.timed(Step::Append, || self.log.append(tail.last.next(), &entries));
        appended.map_err(|error| self.fail(error.into(), false))?;
        let at = mark(&self.log.tail().map_err(|error| self.fail(error.into(), false))?);
        let applied = self.timed(Step::Apply, || self.view.apply(&at, group.changes));
        applied.map_err(|error| self.fail(error, true))?;
        writing.noted = 0;
        Ok(at.position)
    }

    /// The entries of a commit.
    fn encode(
        &self,
        writing: &mut Writing,
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
            let body = encode_group(&writing.frame, changes(group.changes))?;
            let needed = parts_of(body.len(), max) as u64;
            if needed == parts {
                break body;
            }
            parts = needed;
        };
        let time_ms = dated(tail, self.begun_at, group.time_ms);
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
        // What the view would need after a power cut stays.
        let synced = self.sync()?;
        Ok(self.log.trim(through.min(synced))?)
    }

    fn sync(&self) -> Result<Position, StoreError> {
        self.view.sync().map_err(|error| self.fail(error, true))
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
        self.inner.shown()?.get(table, key)
    }

    fn value_bytes(&self, table: Table, key: &[u8]) -> Result<Option<u64>, StoreError> {
        self.inner.shown()?.value_bytes(table, key)
    }

    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        from: Option<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.inner.shown()?.scan(table, prefix, from, direction, visit)
    }

    fn moment(&self) -> Result<Option<Box<dyn View>>, StoreError> {
        self.inner.shown()?.moment()
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
        // What follows a failure may have another outcome than it seems to have.
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
        self.inner.trim(self.inner.trimming.ask(through))
    }

    fn figures(&self) -> Option<Figures> {
        self.inner.figures().ok()
    }

    fn reopen(&self) -> Result<(), StoreError> {
        self.inner.reopen()
    }
}

//! The group commit: one thread that takes everything that waits, commits it as one atomic batch
//! with one fsync, and then tells everyone who waited.
//!
//! There is no timer. While one group is being committed the next one fills, so a busy store makes
//! large groups and an idle one answers after one fsync.

mod staging;
mod thread;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use postrider_domain::WorkspaceId;

use crate::{Change, Position, Store, StoreError};
use staging::{Need, Owner, Queue};

/// Bounds of the writer's queue.
#[derive(Debug, Clone, Copy)]
pub struct WriterOptions {
    /// Most bytes that may wait to be committed; beyond it a batch is refused.
    pub queued_bytes_max: usize,
}

impl Default for WriterOptions {
    /// 64 MiB.
    fn default() -> Self {
        Self { queued_bytes_max: 64 << 20 }
    }
}

/// Numbers the group commits of one writer, upwards from 1.
pub type GroupNumber = u64;

/// Told about each group in which a subscriber had something, once, on the writer's thread: the
/// group's number and whether it is durable. It must not block.
pub type Notify = Box<dyn Fn(GroupNumber, Result<(), CommitError>) + Send + Sync>;

/// One change of one record, borrowed for the length of a call.
#[derive(Debug, Clone, Copy)]
pub struct ChangeRef<'a> {
    /// Where the record is.
    pub table: crate::Table,
    /// Its key, 1 to 1,024 bytes.
    pub key: &'a [u8],
    /// Its new value, or `None` to delete it.
    pub value: Option<&'a [u8]>,
}

/// What one command of one workspace wants made durable, all or none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Batch<'a> {
    /// Journal events, encoded one after the other.
    pub events: &'a [u8],
    /// Entries of the workspace's event log, encoded one after the other.
    pub log: &'a [u8],
    /// The sequence of the first entry in `log`; meaningless when `log` is empty.
    pub log_first: u64,
    /// Bytes of all entries that were ever appended to the log before these.
    pub log_before: u64,
    /// How many entries `log` holds.
    pub log_count: u32,
    /// Changes of records. Where two name the same record in one group, the later one holds.
    pub changes: &'a [ChangeRef<'a>],
    /// Nobody waits for it: it may wait for company, a few milliseconds at the most, instead of
    /// having an fsync of its own.
    pub deferrable: bool,
}

/// Why something was not made durable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Too much waits already; nothing was queued.
    #[error("too much is waiting to be written")]
    Full,
    /// The events or the log of the batch are larger than a frame, or the whole of it larger than
    /// the queue; nothing was queued.
    #[error("too large to be written at once")]
    TooLarge,
    /// The commit failed, or an earlier one did and the store is not open again yet.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The writer has stopped. What was queued when it died is not known to be durable.
    #[error("the store is closed")]
    Closed,
}

/// What the writer has made durable since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriterStats {
    /// Group commits, each one fsync.
    pub groups: u64,
    /// Batches and calls of [`Writer::commit`] in them.
    pub batches: u64,
    /// Bytes of events, log entries, keys and values as they were submitted.
    pub bytes: u64,
}

/// The way to the writer's thread. Cheap to clone. When the last clone goes, the thread ends as
/// after [`stop`](Self::stop), but nobody waits for it.
#[derive(Clone)]
pub struct Writer(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.begin_stop();
    }
}

/// What the thread, the writers and the subscribers share.
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    healthy: AtomicBool,
    last_position: AtomicU64,
    groups: AtomicU64,
    batches: AtomicU64,
    bytes: AtomicU64,
}

impl Shared {
    fn begin_stop(&self) {
        self.queue.lock().stopping = true;
        self.wake.notify_all();
    }

    /// Stages something under the lock and wakes the thread if it has to be.
    fn stage<T>(
        &self,
        deferrable: bool,
        stage: impl FnOnce(&mut Queue) -> Result<T, CommitError>,
    ) -> Result<T, CommitError> {
        let mut queue = self.queue.lock();
        queue.admit()?;
        let staged = stage(&mut queue)?;
        let wake = queue.call(deferrable);
        drop(queue);
        if wake {
            self.wake.notify_one();
        }
        Ok(staged)
    }
}

impl Writer {
    /// Raises the store's epoch, durably, and starts the thread.
    ///
    /// # Errors
    /// Those of the store, and [`StoreError::Failed`] when no thread can be had.
    pub fn start(store: Arc<dyn Store>, options: WriterOptions) -> Result<Self, StoreError> {
        let (worker, shared) = thread::Worker::open(store, options)?;
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || worker.run())
            .map_err(|error| StoreError::Failed(format!("starting the writer: {error}")))?;
        Ok(Self(Arc::new(Inner { shared, thread: Mutex::new(Some(thread)) })))
    }

    /// A way for one workspace actor to submit batches and to hear what became of them.
    ///
    /// Two subscribers of one workspace are kept apart: each has its own notifications, and its
    /// own section of a frame.
    #[must_use]
    pub fn subscribe(&self, workspace: WorkspaceId, notify: Notify) -> Subscriber {
        let owner = Owner { workspace, notify, failed: AtomicBool::new(false) };
        Subscriber {
            shared: self.0.shared.clone(),
            owner: Arc::new(owner),
            group: AtomicU64::new(0),
            section: AtomicUsize::new(0),
        }
    }

    /// Makes changes of records durable, all or none, in the next group commit. For callers that
    /// are not workspace actors. Staged at the first poll.
    ///
    /// # Errors
    /// As for [`Subscriber::submit`]; [`CommitError::Store`] also when the commit itself failed.
    pub async fn commit(&self, changes: Vec<Change>) -> Result<(), CommitError> {
        self.wait_for(changes).await
    }

    /// Resolves when everything that was staged before the first poll is settled.
    ///
    /// # Errors
    /// [`CommitError::Store`] when the store is not open, or something staged before failed;
    /// [`CommitError::Closed`] after the end.
    pub async fn barrier(&self) -> Result<(), CommitError> {
        // An empty entry in the last group: it settles with it. A group of nothing else is settled
        // in its turn without a commit.
        self.wait_for(Vec::new()).await
    }

    async fn wait_for(&self, changes: Vec<Change>) -> Result<(), CommitError> {
        let (sender, receiver) = oneshot::channel();
        self.0.shared.stage(false, |queue| queue.stage_changes(changes, sender))?;
        receiver.await.unwrap_or(Err(CommitError::Closed))
    }

    /// Lets what is queued finish, ends the thread and waits for it. Blocks. Submits from now on
    /// give [`CommitError::Closed`]. While the store is failed, it does not wait for it to open.
    pub fn stop(&self) {
        self.0.shared.begin_stop();
        let mut thread = self.0.thread.lock();
        // From a notification, hence on that thread, there is nothing to wait for.
        if thread.as_ref().is_some_and(|it| it.thread().id() == std::thread::current().id()) {
            return;
        }
        if let Some(thread) = thread.take() {
            // The thread catches its own panics, so there is no other outcome.
            drop(thread.join());
        }
    }

    /// Whether submits are accepted, as far as the store is concerned.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.0.shared.healthy.load(Ordering::Acquire)
    }

    /// The number of the newest durable frame.
    #[must_use]
    pub fn last_position(&self) -> Position {
        Position(self.0.shared.last_position.load(Ordering::Acquire))
    }

    /// Counters since the start, read without a lock.
    #[must_use]
    pub fn stats(&self) -> WriterStats {
        let shared = &self.0.shared;
        WriterStats {
            groups: shared.groups.load(Ordering::Relaxed),
            batches: shared.batches.load(Ordering::Relaxed),
            bytes: shared.bytes.load(Ordering::Relaxed),
        }
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// One workspace's way to the group commit.
pub struct Subscriber {
    shared: Arc<Shared>,
    owner: Arc<Owner>,
    /// The last group this had a section in, and which. Both are read and written under the
    /// queue's lock only; they are atomics to be reachable through `&self`.
    group: AtomicU64,
    section: AtomicUsize,
}

impl Subscriber {
    /// Queues a batch for the next group commit and returns that group's number. Batches are
    /// committed in the order of these calls. The notification with this number says how it went;
    /// one notification covers all batches of this subscriber in that group, and never comes
    /// before this call queued the batch, but may come before it returns.
    ///
    /// **After a failed commit in which it had a part, a subscriber refuses everything for ever**:
    /// what it would submit was computed from a state that is not durable. Rebuild that state and
    /// subscribe again.
    ///
    /// # Errors
    /// [`CommitError::Full`], [`CommitError::TooLarge`] or [`CommitError::Closed`], with nothing
    /// queued; [`CommitError::Store`] while the store is not open and after such a failure.
    pub fn submit(&self, batch: Batch<'_>) -> Result<GroupNumber, CommitError> {
        let need = Need::of(&self.owner.workspace, &batch)?;
        self.shared.stage(batch.deferrable, |queue| {
            if self.owner.failed.load(Ordering::Relaxed) {
                let why = "an earlier commit of this workspace failed";
                return Err(StoreError::Failed(why.into()).into());
            }
            let last = (self.group.load(Ordering::Relaxed), self.section.load(Ordering::Relaxed));
            let (group, section) = queue.stage_batch(&self.owner, last, &batch, need)?;
            self.group.store(group, Ordering::Relaxed);
            self.section.store(section, Ordering::Relaxed);
            Ok(group)
        })
    }

    /// Somebody waits for what was submitted after all: has it committed as soon as can be.
    pub fn hurry(&self) {
        let mut queue = self.shared.queue.lock();
        let wake = !queue.groups.is_empty() && queue.call(false);
        drop(queue);
        if wake {
            self.shared.wake.notify_one();
        }
    }

    /// Whose batches these are.
    #[must_use]
    pub fn workspace(&self) -> &WorkspaceId {
        &self.owner.workspace
    }
}

impl std::fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscriber").field("workspace", self.workspace()).finish_non_exhaustive()
    }
}

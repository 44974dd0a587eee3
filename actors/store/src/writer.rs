//! The group commit makes everything that is queued durable with one fsync.
//!
//! One thread takes the queued batches, commits them as one atomic group and then notifies every
//! waiting caller. While one group is being committed the next ones fill, so a busy store makes
//! large groups and an idle one answers after one fsync.

mod staging;
mod thread;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use postrider_domain::{Timestamp, Unavailable, UnavailableReason, WorkspaceId};
use tokio::sync::oneshot;

use crate::{Change, Position, Store, StoreError, Table, View};
use staging::{BatchSize, Queue, SectionOwner};

/// Bounds of the writer's queue.
#[derive(Debug, Clone, Copy)]
pub struct WriterOptions {
    /// The maximum bytes in the queue, 64 MiB unless set. A batch that would exceed it is refused.
    pub queued_bytes_max: usize,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self { queued_bytes_max: 64 << 20 }
    }
}

/// The number of a group commit of one writer, from 1 upwards.
pub type GroupNumber = u64;

/// Called once for each group with a batch of a subscriber.
///
/// It receives the group's number and whether it is durable. It runs on the writer's thread and
/// must not block.
pub type Notify = Box<dyn Fn(GroupNumber, Result<(), CommitError>) + Send + Sync>;

/// One change of one record, borrowed for the length of a call.
#[derive(Debug, Clone, Copy)]
pub struct ChangeRef<'a> {
    /// The record's table.
    pub table: Table,
    /// Its key, 1 to 1,024 bytes.
    pub key: &'a [u8],
    /// Its new value, or `None` to delete it.
    pub value: Option<&'a [u8]>,
}

/// The changes of one command of one workspace, which become durable all or none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Batch<'a> {
    /// Concatenated journal events.
    pub events: &'a [u8],
    /// Concatenated entries of the workspace's event log.
    pub log: &'a [u8],
    /// The sequence of the first entry in `log`. It is ignored when `log` is empty.
    pub log_first: u64,
    /// Bytes of all entries that were ever appended to the log before these.
    pub log_before: u64,
    /// The number of entries in `log`.
    pub log_count: u32,
    /// Changes of records. If two in one group name the same record, the later one wins.
    pub changes: &'a [ChangeRef<'a>],
    /// No caller waits for this batch. The writer may hold it up to 5 ms so that it shares an
    /// fsync.
    pub deferrable: bool,
}

/// The reason why a batch was not made durable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The queue is full. Nothing was queued. [`Subscriber::submit`] never returns it.
    #[error("too much is waiting to be written")]
    Full,
    /// The batch's events or log entries exceed a frame, or the batch exceeds the queue. Nothing
    /// was queued.
    #[error("too large to be written at once")]
    TooLarge,
    /// The commit failed, or an earlier one failed and the store is not open again yet.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The writer has stopped. Batches that were queued then may or may not be durable.
    #[error("the store is closed")]
    Closed,
}

/// A storage failure is logged here, because callers see only that the outcome is unknown.
impl From<CommitError> for Unavailable {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Full | CommitError::TooLarge => {
                Self::because(UnavailableReason::Overloaded)
            }
            CommitError::Closed => Self::because(UnavailableReason::Draining),
            CommitError::Store(error) => {
                tracing::error!(%error, "a record was not stored");
                Self::because(UnavailableReason::Storage)
            }
        }
    }
}

/// Counters of the durable commits since the writer's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriterStats {
    /// Group commits, each one fsync.
    pub groups: u64,
    /// Batches and calls of [`Writer::commit`] in those groups.
    pub batches: u64,
    /// Bytes of the submitted events, log entries, keys and values.
    pub bytes: u64,
}

/// Returns the present moment. The store reads no clock: its caller supplies one.
pub type Moments = Box<dyn Fn() -> Timestamp + Send>;

/// The key in [`Table::Meta`] of the moment of the last commit, which each commit stores.
///
/// All data of a group was created before its commit, so no moment in the data is later than it.
pub const LAST_MOMENT: &[u8] = b"durable_moment";
/// The first byte of the value. The moment in milliseconds follows, as u64, big endian.
const MOMENT_VERSION: u8 = 1;

fn encode_moment(at: Timestamp) -> [u8; 9] {
    let [a, b, c, d, e, f, g, h] = at.as_millis().to_be_bytes();
    [MOMENT_VERSION, a, b, c, d, e, f, g, h]
}

/// Returns the change that stores the moment of a commit.
pub(crate) fn last_moment_change(at: Timestamp) -> Change {
    Change::put(Table::Meta, LAST_MOMENT, encode_moment(at))
}

/// Returns the moment of the last commit; `None` where nothing was committed with one.
///
/// # Errors
/// Those of [`View::get`]; [`StoreError::Damaged`] when it is not a moment of this version.
pub fn last_moment(store: &dyn View) -> Result<Option<Timestamp>, StoreError> {
    let Some(bytes) = store.get(Table::Meta, LAST_MOMENT)? else { return Ok(None) };
    let millis = match bytes.split_first() {
        Some((&MOMENT_VERSION, millis)) => millis.try_into().ok().map(u64::from_be_bytes),
        _ => None,
    };
    let damaged = || StoreError::Damaged("the moment of the last commit".into());
    Ok(Some(Timestamp::from_millis(millis.ok_or_else(damaged)?)))
}

/// A handle of the writer's thread, cheap to clone.
///
/// When the last clone is dropped, the thread ends as after [`stop`](Self::stop), but the drop does
/// not wait for it.
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

/// The shared state of the thread, the writers and the subscribers.
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    healthy: AtomicBool,
    /// Set if new work may be started, as of the queue's last change.
    has_room: AtomicBool,
    last_position: AtomicU64,
    /// Milliseconds of the last commit's moment; 0 if none is known.
    last_moment: AtomicU64,
    groups: AtomicU64,
    batches: AtomicU64,
    bytes: AtomicU64,
}

impl Shared {
    /// Publishes whether there is room. It must be called under the queue's lock.
    fn note_room(&self, queue: &Queue) {
        self.has_room.store(queue.has_room(), Ordering::Release);
    }

    fn begin_stop(&self) {
        self.queue.lock().stopping = true;
        self.wake.notify_all();
    }

    /// Stages a batch or changes under the lock, and wakes the thread if necessary.
    fn stage<T>(
        &self,
        deferrable: bool,
        stage: impl FnOnce(&mut Queue) -> Result<T, CommitError>,
    ) -> Result<T, CommitError> {
        let mut queue = self.queue.lock();
        queue.admit()?;
        let staged = stage(&mut queue)?;
        self.note_room(&queue);
        let wake = queue.note_staged(deferrable);
        drop(queue);
        if wake {
            self.wake.notify_one();
        }
        Ok(staged)
    }
}

impl Writer {
    /// Raises the store's epoch durably and starts the thread.
    ///
    /// # Errors
    /// Those of the store, and [`StoreError::Failed`] if the thread cannot be started.
    pub fn start(store: Arc<dyn Store>, options: WriterOptions) -> Result<Self, StoreError> {
        Self::start_by(store, options, None)
    }

    /// Does the same, with the same errors, and stores its moment with each commit.
    ///
    /// [`last_moment`] reads it.
    pub fn start_dated(
        store: Arc<dyn Store>,
        options: WriterOptions,
        moments: Moments,
    ) -> Result<Self, StoreError> {
        Self::start_by(store, options, Some(moments))
    }

    fn start_by(
        store: Arc<dyn Store>,
        options: WriterOptions,
        moments: Option<Moments>,
    ) -> Result<Self, StoreError> {
        let (worker, shared) = thread::Worker::open(store, options, moments)?;
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || worker.run())
            .map_err(|error| StoreError::Failed(format!("starting the writer: {error}")))?;
        Ok(Self(Arc::new(Inner { shared, thread: Mutex::new(Some(thread)) })))
    }

    /// Returns a handle by which one workspace actor submits batches.
    ///
    /// `notify` is called with their results. Two subscribers of one workspace are independent.
    /// Each has its own notifications and its own section of a frame. A new one starts behind
    /// everything that is queued.
    #[must_use]
    pub fn subscribe(&self, workspace: WorkspaceId, notify: Notify) -> Subscriber {
        let owner = SectionOwner { workspace, notify, failed: AtomicBool::new(false) };
        let shared = self.0.shared.clone();
        let group = AtomicU64::new(shared.queue.lock().last_group());
        Subscriber { shared, owner: Arc::new(owner), group, section: AtomicUsize::new(NO_SECTION) }
    }

    /// Makes changes of records durable, all or none, for callers that are not workspace actors.
    ///
    /// The changes are staged at the first poll. Calls keep their order among each other, but not
    /// relative to the batches of subscribers. A caller that needs that order awaits the one before
    /// the other.
    ///
    /// # Errors
    /// As for [`Subscriber::submit`]; [`CommitError::Store`] also when the commit itself failed.
    pub async fn commit(&self, changes: Vec<Change>) -> Result<(), CommitError> {
        self.wait_for(changes, false).await
    }

    /// Does the same for the engine's own writes, which are not refused for lack of room.
    ///
    /// Callers must bound them themselves, such as by one pending write for each actor.
    ///
    /// # Errors
    /// As for [`commit`](Self::commit), without [`CommitError::Full`].
    pub async fn commit_own(&self, changes: Vec<Change>) -> Result<(), CommitError> {
        self.wait_for(changes, true).await
    }

    /// Resolves when every commit that was staged before the first poll is settled.
    ///
    /// # Errors
    /// [`CommitError::Store`] if the store is not open or the last staged group fails;
    /// [`CommitError::Closed`] after the writer has stopped.
    pub async fn barrier(&self) -> Result<(), CommitError> {
        // This stages an empty entry, which settles with its group. A group of empty entries is
        // settled in its turn without a commit.
        self.wait_for(Vec::new(), true).await
    }

    async fn wait_for(&self, changes: Vec<Change>, must: bool) -> Result<(), CommitError> {
        let (sender, receiver) = oneshot::channel();
        self.0.shared.stage(false, |queue| queue.stage_changes(changes, must, sender))?;
        receiver.await.unwrap_or(Err(CommitError::Closed))
    }

    /// Commits the queue, ends the thread and waits for it. Blocks.
    ///
    /// Later submits return [`CommitError::Closed`]. If the store has failed, this does not wait
    /// until it is open again.
    pub fn stop(&self) {
        self.0.shared.begin_stop();
        let mut thread = self.0.thread.lock();
        // A notification runs on that thread, which cannot wait for itself.
        if thread.as_ref().is_some_and(|it| it.thread().id() == std::thread::current().id()) {
            return;
        }
        if let Some(thread) = thread.take() {
            // The thread catches its own panics, so joining it cannot fail.
            drop(thread.join());
        }
    }

    /// Returns whether the store is open, so that submits are accepted.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.0.shared.healthy.load(Ordering::Acquire)
    }

    /// Returns whether new work may be started.
    ///
    /// Without room an actor must refuse a command before it has changed anything, because a batch
    /// that is submitted cannot be refused any more.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.0.shared.has_room.load(Ordering::Acquire)
    }

    /// Returns the number of the newest durable frame.
    #[must_use]
    pub fn last_position(&self) -> Position {
        Position(self.0.shared.last_position.load(Ordering::Acquire))
    }

    /// Returns the moment of the last durable commit; `None` if none is known.
    #[must_use]
    pub fn last_moment(&self) -> Option<Timestamp> {
        let millis = self.0.shared.last_moment.load(Ordering::Acquire);
        (millis > 0).then(|| Timestamp::from_millis(millis))
    }

    /// Returns the counters since the start, read without a lock.
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

/// The value for a missing index of a section.
const NO_SECTION: usize = usize::MAX;

/// The handle by which one workspace submits batches to the group commit.
pub struct Subscriber {
    shared: Arc<Shared>,
    owner: Arc<SectionOwner>,
    /// The last group in which this subscriber had a section, and the section's index; at first the
    /// last group before it, and [`NO_SECTION`]. Used under the queue's lock only; they are atomics
    /// so that `&self` suffices.
    group: AtomicU64,
    section: AtomicUsize,
}

impl Subscriber {
    /// Queues a batch for the next group commit that has room, and returns that group's number.
    ///
    /// The batches of one subscriber are committed in the order of the calls. The notification with
    /// this number reports the result. It covers all batches of this subscriber in that group. It
    /// never comes before this call has queued the batch, but it may come before the call returns.
    ///
    /// **After a failed commit that included its batches, a subscriber refuses every submit**,
    /// because new batches would be computed from a state that is not durable. The caller must
    /// rebuild that state and subscribe again.
    ///
    /// A full queue refuses no batch: its state has changed already. The caller asks
    /// [`Writer::has_room`] before it changes anything for a command. So the queue exceeds its
    /// bound at most by one submit for each thread, and by the engine's own writes.
    ///
    /// # Errors
    /// [`CommitError::TooLarge`] or [`CommitError::Closed`], with nothing queued;
    /// [`CommitError::Store`] while the store is not open and after such a failure.
    pub fn submit(&self, batch: Batch<'_>) -> Result<GroupNumber, CommitError> {
        let need = BatchSize::of(&self.owner.workspace, &batch)?;
        self.shared.stage(batch.deferrable, |queue| {
            if self.owner.failed.load(Ordering::Relaxed) {
                let why = "an earlier commit of this workspace failed";
                return Err(StoreError::Failed(why.into()).into());
            }
            let section = Some(self.section.load(Ordering::Relaxed)).filter(|at| *at != NO_SECTION);
            let last = (self.group.load(Ordering::Relaxed), section);
            let (group, section) = queue.stage_batch(&self.owner, last, &batch, need)?;
            self.group.store(group, Ordering::Relaxed);
            self.section.store(section, Ordering::Relaxed);
            Ok(group)
        })
    }

    /// Commits submitted deferrable batches at once, because a caller now waits for them.
    pub fn hurry(&self) {
        let mut queue = self.shared.queue.lock();
        let wake = !queue.groups.is_empty() && queue.note_staged(false);
        drop(queue);
        if wake {
            self.shared.wake.notify_one();
        }
    }

    /// Returns the workspace that submits the batches.
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

#[cfg(test)]
mod tests;

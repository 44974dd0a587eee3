//! What an endpoint's actor has in memory while it runs.

use tokio::sync::oneshot;
use tokio::task::JoinSet;

use postrider_runtime::timer::Timer;

use crate::delivery::Attempt;
use crate::queue::DeliveryQueue;
use crate::records::{AttemptLog, Cursor, DeliveryAttempt};
use crate::replay::ReplayError;
use crate::request_pool::Permit;

/// Who waits for a replay to be durable, and the number of its deliveries.
type ReplayReply = (oneshot::Sender<Result<u64, ReplayError>>, u64);

/// The actor's mutable half.
pub(crate) struct EndpointState {
    pub(super) queue: DeliveryQueue,
    pub(super) attempts: AttemptLog,
    /// Attempts that have ended and are not written yet.
    pub(super) new_attempts: Vec<DeliveryAttempt>,
    /// How many attempts the write in progress contains.
    pub(super) attempts_in_write: usize,
    /// First attempts of batches. A batch must be the same when it is repeated after a crash, so it
    /// is posted only when the record of its events is durable.
    pub(super) unposted: Vec<(Attempt, Permit)>,
    /// Those whose record the write in progress contains.
    pub(super) unposted_in_write: Vec<(Attempt, Permit)>,
    /// Attempts in flight; they end with the actor.
    pub(super) tasks: JoinSet<()>,
    /// The log may have more than was read.
    pub(super) grown: bool,
    /// A read of the log is in progress.
    pub(super) reading: bool,
    /// The last read was for a replay.
    pub(super) replay_was_read: bool,
    /// Something has changed since the last write began.
    pub(super) dirty: bool,
    /// A write is in progress.
    pub(super) writing: bool,
    /// The cursor that was written last.
    pub(super) written: Cursor,
    /// Replays that wait for the next write.
    pub(super) replies: Vec<ReplayReply>,
    /// Replays that wait for the write in progress.
    pub(super) replies_in_write: Vec<ReplayReply>,
    /// Wakes the actor when the next delivery may start.
    pub(super) timer: Timer,
    /// Counts messages, so that the idle timer sees whether any came.
    pub(super) busy: u64,
    /// The idle timer runs.
    pub(super) idling: bool,
    /// Who waits for the actor to drain.
    pub(super) drained: Option<oneshot::Sender<()>>,
    /// The endpoint was deleted.
    pub(super) retired: bool,
}

impl EndpointState {
    /// The state at the start: `cursor` is what was written last.
    pub(super) fn new(queue: DeliveryQueue, attempts: AttemptLog, cursor: Cursor) -> Self {
        Self {
            queue,
            attempts,
            new_attempts: Vec::new(),
            attempts_in_write: 0,
            unposted: Vec::new(),
            unposted_in_write: Vec::new(),
            tasks: JoinSet::new(),
            grown: true,
            reading: false,
            replay_was_read: false,
            dirty: false,
            writing: false,
            written: cursor,
            replies: Vec::new(),
            replies_in_write: Vec::new(),
            timer: Timer::default(),
            busy: 0,
            idling: false,
            drained: None,
            retired: false,
        }
    }
}

//! The state of an endpoint's actor in memory while it runs.

use tokio::sync::oneshot;
use tokio::task::JoinSet;

use postrider_runtime::timer::Timer;

use crate::delivery::Attempt;
use crate::queue::DeliveryQueue;
use crate::records::{AttemptLog, Cursor, DeliveryAttempt};
use crate::replay::ReplayError;
use crate::request_pool::Permit;

/// The caller that waits for a replay to be durable, and the number of its deliveries.
type ReplayReply = (oneshot::Sender<Result<u64, ReplayError>>, u64);

/// The actor's mutable half.
pub(crate) struct EndpointState {
    pub(super) queue: DeliveryQueue,
    pub(super) attempts: AttemptLog,
    /// Attempts that have ended and are not written yet.
    pub(super) new_attempts: Vec<DeliveryAttempt>,
    /// The number of attempts in the write in progress.
    pub(super) attempts_in_write: usize,
    /// First attempts of batches. A batch must be the same when it is repeated after a crash, so it
    /// is posted only when the record of its events is durable.
    pub(super) unposted: Vec<(Attempt, Permit)>,
    /// The unposted batches whose record is in the write in progress.
    pub(super) unposted_in_write: Vec<(Attempt, Permit)>,
    /// Attempts in flight; they end with the actor.
    pub(super) tasks: JoinSet<()>,
    /// Set if the log may have more than was read.
    pub(super) grown: bool,
    /// Set if a read of the log is in progress.
    pub(super) reading: bool,
    /// Set if the last read was for a replay.
    pub(super) replay_was_read: bool,
    /// Set if something has changed since the last write started.
    pub(super) dirty: bool,
    /// Set if a write is in progress.
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
    /// Set if the idle timer runs.
    pub(super) idling: bool,
    /// The caller that waits for the actor to drain.
    pub(super) drained: Option<oneshot::Sender<()>>,
    /// Set if the endpoint was deleted.
    pub(super) retired: bool,
}

impl EndpointState {
    /// Returns the state at the start: `cursor` is the one that was written last.
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

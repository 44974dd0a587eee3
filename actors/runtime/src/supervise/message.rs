//! The messages of a supervisor, from directories and from itself.

use tokio::sync::oneshot;

/// A message to a supervisor.
#[derive(Debug)]
pub enum SupervisorMessage<K> {
    /// The supervisor must start this child unless it runs, is down or is parked. It replies when
    /// the placement is published, whether the child runs or not; a dropped reply means that the
    /// supervisor has stopped.
    Start(K, Option<oneshot::Sender<()>>),
    /// The delay after a failure is over: the supervisor must restart the child if it is still
    /// wanted. No reply.
    Restart(K),
}

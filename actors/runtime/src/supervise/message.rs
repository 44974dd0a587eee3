//! The messages of a supervisor, from directories and from itself.

use tokio::sync::oneshot;

/// A message to a supervisor.
#[derive(Debug)]
pub enum SupervisorMessage<K> {
    /// Start this child unless it runs, is down or is parked.
    ///
    /// The supervisor replies when the placement is published, whether the child runs or not. A
    /// dropped reply means that the supervisor has stopped.
    Start(K, Option<oneshot::Sender<()>>),
    /// Restart the child, if it is still wanted, since the delay after its failure is over.
    ///
    /// The supervisor does not reply.
    Restart(K),
}

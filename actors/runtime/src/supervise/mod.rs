//! Supervision: a supervisor starts actors on demand and restarts those that fail.

mod loaded;
mod message;
mod restart;
mod supervisor;

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;

pub use loaded::LoadedActor;
pub use message::SupervisorMessage;
pub use restart::RestartPolicy;
pub use supervisor::{ChildSpec, Supervisor};

/// The placement of a supervised child.
#[derive(Debug)]
pub enum Placement<M> {
    /// The child does not run; it is started when it is needed.
    Idle,
    /// The child runs as this actor.
    Live(ActorRef<M>),
    /// The child failed and is restarted after a delay.
    Down {
        /// The longest time until the restart.
        retry_after: Duration,
    },
    /// The child cannot be started until an operator acts; the text is the reason.
    Parked(Arc<str>),
}

impl<M> Clone for Placement<M> {
    fn clone(&self) -> Self {
        match self {
            Self::Idle => Self::Idle,
            Self::Live(actor) => Self::Live(actor.clone()),
            Self::Down { retry_after } => Self::Down { retry_after: *retry_after },
            Self::Parked(reason) => Self::Parked(Arc::clone(reason)),
        }
    }
}

/// A failure that a restart cannot mend: the data from which the child is rebuilt is not readable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("damaged: {0}")]
pub struct Damaged(pub String);

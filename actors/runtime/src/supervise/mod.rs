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

/// Where a supervised child is.
#[derive(Debug)]
pub enum Placement<M> {
    /// It does not run; it is started when it is needed.
    Idle,
    /// It runs as this actor.
    Live(ActorRef<M>),
    /// It failed and is restarted after a delay.
    Down {
        /// The longest time until then.
        retry_after: Duration,
    },
    /// It cannot be started until an operator acts; the text says why.
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

/// A failure that a restart cannot mend: what the child is rebuilt from is not readable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("damaged: {0}")]
pub struct Damaged(pub String);

//! Supervision: who restarts whom, when, and when not.

mod restart;
mod supervisor;

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;

pub use restart::RestartPolicy;
pub use supervisor::{ChildSpec, Supervisor, SupervisorMessage};

/// Where a supervised child is.
#[derive(Debug)]
pub enum Placement<M> {
    /// Nowhere, and rightly: it is started when it is needed.
    Idle,
    /// In this actor.
    Live(ActorRef<M>),
    /// It died and is started again after a while.
    Down {
        /// How long that is, at the most.
        retry_after: Duration,
    },
    /// It cannot be started; the text tells an operator why.
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

/// A child's death that a restart cannot mend: what it is rebuilt from is not readable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("damaged: {0}")]
pub struct Damaged(pub String);

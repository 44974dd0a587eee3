//! Pure: the refusal of a workspace that cannot accept a command now.

use std::time::Duration;

/// The command was refused. It had no effect, unless the reason says that its outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unavailable {
    /// Why the command was refused.
    pub reason: UnavailableReason,
    /// How long the caller should wait before it tries again.
    pub retry_after: Duration,
}

/// Why a workspace cannot take a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnavailableReason {
    /// The limit on concurrent commands is reached.
    #[error("too many requests are under way")]
    Overloaded,
    /// The engine is stopping.
    #[error("the engine is shutting down")]
    Draining,
    /// The commit failed. The command may or may not have taken effect.
    #[error("storage failed; the outcome is unknown")]
    Storage,
    /// The workspace is being rebuilt from durable state. The outcome of commands in flight is
    /// unknown.
    #[error("the workspace is restarting")]
    Restarting,
    /// The workspace is stopped until an operator acts. The text says why.
    #[error("the workspace is parked: {0}")]
    Parked(String),
    /// The circuit breaker of the messaging number is open, because sending failed repeatedly.
    #[error("the messaging number is failing")]
    ChannelDown,
}

impl Unavailable {
    /// A refusal for this reason, to be retried after one second.
    #[must_use]
    pub const fn because(reason: UnavailableReason) -> Self {
        Self { reason, retry_after: Duration::from_secs(1) }
    }
}

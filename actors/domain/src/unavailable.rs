//! How a workspace refuses what it cannot take now.

use std::time::Duration;

/// Nothing can be done now; nothing was done, unless the reason says that this is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unavailable {
    /// Why.
    pub reason: UnavailableReason,
    /// When it is worth trying again.
    pub retry_after: Duration,
}

/// Why a workspace cannot take a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnavailableReason {
    /// As many commands are under way as may be.
    #[error("too many requests are under way")]
    Overloaded,
    /// The engine is stopping.
    #[error("the engine is shutting down")]
    Draining,
    /// The commit failed; what was asked may or may not have been done.
    #[error("storage failed; the outcome is unknown")]
    Storage,
    /// The workspace is being rebuilt from what is durable; what was under way is unknown.
    #[error("the workspace is restarting")]
    Restarting,
    /// The workspace was stopped for good; the text says why.
    #[error("the workspace is parked: {0}")]
    Parked(String),
    /// The messaging number fails repeatedly and is not being tried for a while.
    #[error("the messaging number is failing")]
    ChannelDown,
}

impl Unavailable {
    /// Unavailable for this reason, worth another try in a second.
    #[must_use]
    pub const fn because(reason: UnavailableReason) -> Self {
        Self { reason, retry_after: Duration::from_secs(1) }
    }
}

//! Pure: the refusal of a workspace that cannot accept a command now.

use std::time::Duration;

/// The command was refused. It had no effect, unless the reason says that its outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unavailable {
    /// The reason for the refusal.
    pub reason: UnavailableReason,
    /// The time that the caller should wait before it tries again.
    pub retry_after: Duration,
}

/// The reason for which a workspace cannot accept a command.
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
    /// The workspace is stopped until an operator acts. The text is the reason.
    #[error("the workspace is parked: {0}")]
    Parked(String),
    /// The circuit breaker of the messaging number is open, because sending failed repeatedly.
    #[error("the messaging number is failing")]
    ChannelDown,
    /// The workspace has reached its maximum number of bytes, so nothing more is made in it.
    #[error("the workspace uses {used} bytes and is allowed {allowed}; delete something first")]
    QuotaBytes {
        /// The number of bytes that it uses.
        used: u64,
        /// The number of bytes that it may use.
        allowed: u64,
    },
    /// The workspace has reached its maximum number of retained broadcasts.
    #[error(
        "the workspace keeps {used} broadcasts and is allowed {allowed}; older ones end by age"
    )]
    QuotaBroadcasts {
        /// The number of broadcasts that it retains.
        used: u64,
        /// The number of broadcasts that it may retain.
        allowed: u64,
    },
    /// Nothing may leave the engine, because its data is older than the outside world.
    #[error("the server is held: nothing is sent until an operator releases it")]
    Held,
    /// The engine has no storage for the contents of files.
    #[error("no media files are kept here: there is no place for them")]
    NoMediaStore,
    /// The disk has too little free space for this command.
    #[error("the server's disk is almost full")]
    DiskFull,
}

impl Unavailable {
    /// Returns a refusal for this reason, to be retried after one second.
    #[must_use]
    pub const fn because(reason: UnavailableReason) -> Self {
        Self { reason, retry_after: Duration::from_secs(1) }
    }
}

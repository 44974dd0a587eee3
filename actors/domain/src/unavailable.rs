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
    /// The workspace has at least as many bytes as it may, so nothing more is made in it.
    #[error("the workspace uses {used} bytes and is allowed {allowed}; delete something first")]
    QuotaBytes {
        /// What it uses.
        used: u64,
        /// What it is allowed.
        allowed: u64,
    },
    /// The workspace keeps at least as many broadcasts as it may.
    #[error(
        "the workspace keeps {used} broadcasts and is allowed {allowed}; older ones end by age"
    )]
    QuotaBroadcasts {
        /// How many it keeps.
        used: u64,
        /// How many it is allowed.
        allowed: u64,
    },
    /// Nothing may leave the engine, because what it knows is older than the world.
    #[error("the server is held: nothing is sent until an operator releases it")]
    Held,
    /// What is asked for is still being counted, because an earlier version kept no counts.
    #[error("the conversations are still being counted after an upgrade")]
    Counting,
    /// The engine has no place for the contents of files.
    #[error("no media files are kept here: there is no place for them")]
    NoMediaStore,
    /// The disk has too little free space for this command.
    #[error("the server's disk is almost full")]
    DiskFull,
}

impl Unavailable {
    /// A refusal for this reason, to be retried after one second.
    #[must_use]
    pub const fn because(reason: UnavailableReason) -> Self {
        Self { reason, retry_after: Duration::from_secs(1) }
    }
}

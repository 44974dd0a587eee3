//! Pure: what can be delivered again, and why it may not be.

use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{EventId, Timestamp};

/// What is delivered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// Every event from this moment on.
    Since(Timestamp),
    /// One event.
    Event(EventId),
    /// What failed: deliveries that were given up, and those that wait for a retry.
    Failed,
}

/// Why nothing is delivered again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// There is no such webhook.
    #[error("no such webhook")]
    NotFound,
    /// The log has no such event.
    #[error("no such event")]
    NoSuchEvent,
    /// Not now; the caller may try again.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl ReplayError {
    /// The endpoint's actor did not answer: it is being restarted.
    pub(super) fn restarting() -> Self {
        Unavailable::because(UnavailableReason::Restarting).into()
    }
}

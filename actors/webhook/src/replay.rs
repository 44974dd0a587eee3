//! Pure: the kinds of replays, and the reasons for their refusal.

use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{EventId, Timestamp};

/// The events that are delivered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// Every event from this moment on.
    Since(Timestamp),
    /// One event.
    Event(EventId),
    /// Failed deliveries: those that were given up, and those that wait for a retry.
    Failed,
}

/// The reason why nothing is delivered again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// There is no such webhook.
    #[error("no such webhook")]
    NotFound,
    /// The log has no such event.
    #[error("no such event")]
    NoSuchEvent,
    /// It is not possible now; the caller may try again.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl ReplayError {
    /// Returns the error of an endpoint's actor that did not answer: it is being restarted.
    pub(super) fn restarting() -> Self {
        Unavailable::because(UnavailableReason::Restarting).into()
    }
}

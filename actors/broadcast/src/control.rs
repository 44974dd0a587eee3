//! What is asked of a broadcast, and why it is refused.

use std::time::Duration;

use postrider_domain::Unavailable;

use crate::outcomes::Tally;
use crate::record::BroadcastStatus;

/// Why a broadcast is paused whose template the channel has paused.
pub const TEMPLATE_PAUSED: &str = "the template is paused";
/// Why a broadcast ends whose template may not be sent any more.
pub const TEMPLATE_GONE: &str = "the template is not approved any more";

/// What is to be done to a broadcast.
#[derive(Debug, Clone)]
pub enum Control {
    /// Its turn has come.
    Begin {
        /// How long ago.
        late: Duration,
    },
    /// It pauses.
    Pause {
        /// Why, if nobody asked for it.
        reason: Option<Box<str>>,
    },
    /// It resumes.
    Resume,
    /// It is cancelled.
    Cancel,
    /// It cannot go on.
    Fail {
        /// Why.
        reason: Box<str>,
    },
    /// Every message that was claimed has an outcome, and nothing more is claimed.
    Finish {
        /// How many have which outcome.
        tally: Tally,
    },
}

/// Why a fan-out's request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// There is none of that id.
    #[error("no such broadcast")]
    NotFound,
    /// Its status does not allow that: somebody else has changed it.
    #[error("the broadcast is {}", .0.as_str())]
    WrongState(BroadcastStatus),
    /// The workspace's rules forbid it; the text says why.
    #[error("{0}")]
    Refused(Box<str>),
    /// Not now; the fan-out tries again.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

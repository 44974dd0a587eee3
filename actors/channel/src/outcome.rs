//! Pure: the final outcome of a message, after all attempts to send it.

use crate::{Failure, Origin};

/// The final outcome of a message. Delivery reports may still follow for one that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinalOutcome {
    /// The channel accepted it.
    Sent,
    /// The same of a single message, which the channel calls so.
    SentAs(Box<str>),
    /// The channel refused it, or its number was disconnected.
    Failed(Failure),
    /// It may have been accepted: no answer arrived.
    Unknown,
    /// It expired before the channel accepted it.
    NotSentInTime,
}

impl FinalOutcome {
    /// The channel accepted a message, and calls it so. Only the ids of single messages are kept:
    /// nobody answers a code, and a broadcast has too many.
    #[must_use]
    pub fn sent(origin: Origin, provider_id: Option<Box<str>>) -> Self {
        match (origin, provider_id) {
            (Origin::Message(_), Some(id)) => Self::SentAs(id),
            _ => Self::Sent,
        }
    }
}

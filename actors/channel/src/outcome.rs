//! Pure: the final outcome of a message, after all attempts to send it.

use crate::{Acceptance, Failure, Origin};

/// The final outcome of a message. Delivery reports may still follow for one that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinalOutcome {
    /// The channel accepted it.
    Sent,
    /// The channel accepted it, and has this id of it. It is no code.
    SentAs(Box<str>),
    /// The channel accepted it and holds it back. The id is the channel's, if it is no code.
    Held(Option<Box<str>>),
    /// The channel refused it, or its number was disconnected.
    Failed(Failure),
    /// It may have been accepted: no answer arrived.
    Unknown,
    /// It expired before the channel accepted it.
    NotSentInTime,
}

impl FinalOutcome {
    /// Returns the outcome of an accepted message.
    ///
    /// The ids of codes are dropped, because nobody answers a code.
    #[must_use]
    pub fn accepted(origin: Origin, Acceptance { provider_id, held, .. }: Acceptance) -> Self {
        let id = provider_id.filter(|_| !matches!(origin, Origin::Otp { .. }));
        match id {
            id if held => Self::Held(id),
            Some(id) => Self::SentAs(id),
            None => Self::Sent,
        }
    }
}

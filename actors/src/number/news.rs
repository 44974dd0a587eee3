//! What a number has to tell its workspace beside the answers for messages.

use crate::channel::Failure;
use crate::domain::Phone;

/// What happened to a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum News {
    /// Its account cannot send: what it has waits.
    Stopped(Failure),
    /// It sends again.
    Recovered,
    /// The channel's answers have told this of whom it wrote to.
    Recipients(Vec<Recipient>),
}

/// What an answer tells of whom a message went to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recipient {
    /// The provider knows whoever has the phone by another number.
    KnownAs { phone: Phone, known_as: Phone },
    /// They want no marketing.
    StoppedMarketing(Phone),
}

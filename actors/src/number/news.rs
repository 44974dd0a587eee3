//! What a number has to tell its workspace beside the answers for messages.

use crate::channel::Failure;

/// What happened to a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum News {
    /// Its account cannot send: what it has waits.
    Stopped(Failure),
    /// It sends again.
    Recovered,
}

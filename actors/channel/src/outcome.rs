//! What finally became of a message.

use crate::Failure;

/// What the channel finally said of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinalOutcome {
    /// It took it.
    Sent,
    /// It refused it.
    Failed(Failure),
    /// It was handed over and no answer came.
    Unknown,
    /// It did not take it while the code was valid.
    NotSentInTime,
}

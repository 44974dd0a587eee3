//! Pure: the final outcome of a message, after all attempts to send it.

use crate::Failure;

/// The final outcome of a message. Delivery reports may still follow for one that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinalOutcome {
    /// The channel accepted it.
    Sent,
    /// The channel refused it, or its number was disconnected.
    Failed(Failure),
    /// It may have been accepted: no answer arrived.
    Unknown,
    /// It expired before the channel accepted it.
    NotSentInTime,
}

//! Pure: the port to one stream, which appends by compare-and-swap on its last sequence.

use std::fmt::Debug;

use bytes::Bytes;
use postrider_log::Position;

/// A stream of messages. Every method blocks for at most about a second.
pub trait Stream: Debug + Send + Sync + 'static {
    /// Returns the name of the stream for messages about it.
    fn name(&self) -> &str;

    /// Publishes a message if the last sequence is `expected`.
    fn publish(&self, expected: u64, bytes: &Bytes) -> Published;

    /// Returns the message with this sequence, from the server that leads; `None` when there is
    /// none.
    ///
    /// # Errors
    /// [`StreamError`] when the leader did not answer.
    fn message(&self, sequence: u64) -> Result<Option<Bytes>, StreamError>;

    /// Returns the messages from a sequence on, up to `count`, without missing ones.
    ///
    /// # Errors
    /// Those of [`message`](Self::message).
    fn messages(&self, from: u64, count: u64) -> Result<Vec<(u64, Bytes)>, StreamError> {
        let mut found = Vec::new();
        for sequence in from..from.saturating_add(count) {
            found.extend(self.message(sequence)?.map(|bytes| (sequence, bytes)));
        }
        Ok(found)
    }

    /// Returns the ends of the stream, from the server that leads.
    ///
    /// # Errors
    /// [`StreamError`] when the leader did not answer.
    fn ends(&self) -> Result<Ends, StreamError>;

    /// Deletes all messages before this sequence.
    ///
    /// # Errors
    /// [`StreamError`] when it is not known whether the messages were deleted.
    fn purge_before(&self, sequence: u64) -> Result<(), StreamError>;

    /// Switches to another server after a publish that was not answered in time.
    fn switch_server(&self) {}
}

/// The answer to a publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Published {
    /// The message has the sequence behind the expected one.
    Acknowledged,
    /// The publish was refused for the sequence, or the answer is not the one to a single publish.
    Refused(String),
    /// This publish surely did nothing: the stream is full or the message too large.
    Declined(String),
    /// No answer arrived.
    Silent(String),
}

/// The first and the last sequence of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// The first stored sequence, or the next one of an empty stream.
    pub first: u64,
    /// The last sequence; 0 before the first message.
    pub last: u64,
    /// The number of stored bytes.
    pub bytes: u64,
}

impl Ends {
    /// Returns the bytes behind a position, as if all entries were equally long.
    pub(crate) fn bytes_after(self, after: Position) -> u64 {
        let Self { first, last, bytes } = self;
        let kept = (last + 1).saturating_sub(first.max(1));
        let behind = last.saturating_sub(after.0).min(kept);
        // The bytes of one stream fit a u64 many times over, but not times any count.
        let share = u128::from(bytes) * u128::from(behind);
        let share = share.checked_div(u128::from(kept)).unwrap_or(0);
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

/// The error of a stream that did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StreamError(pub String);

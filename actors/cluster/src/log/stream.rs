//! Pure: the port to one stream, which appends by compare-and-swap on its last sequence.

use std::fmt::Debug;

use bytes::Bytes;
use postrider_log::Position;

/// A stream of messages. Every method blocks, for about a second at most.
pub trait Stream: Debug + Send + Sync + 'static {
    /// What messages about it call it.
    fn name(&self) -> &str;

    /// Publishes a message if the last sequence is `expected`.
    fn publish(&self, expected: u64, bytes: &Bytes) -> Published;

    /// The message with this sequence, from the server that leads; `None` when there is none.
    ///
    /// # Errors
    /// [`StreamError`] when the leader did not answer.
    fn message(&self, sequence: u64) -> Result<Option<Bytes>, StreamError>;

    /// The messages from a sequence on, up to `count`, without those that are not there.
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

    /// Where the stream begins and ends, from the server that leads.
    ///
    /// # Errors
    /// [`StreamError`] when the leader did not answer.
    fn ends(&self) -> Result<Ends, StreamError>;

    /// Deletes all messages before this sequence.
    ///
    /// # Errors
    /// [`StreamError`] when it is not known whether that was done.
    fn purge_before(&self, sequence: u64) -> Result<(), StreamError>;

    /// Nothing was heard of a publish in time: another server may do better.
    fn switch_server(&self) {}
}

/// What was heard of a publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Published {
    /// The message has the sequence behind the expected one.
    Acknowledged,
    /// It was refused for the sequence, or the answer is not what a sole publish gets.
    Refused(String),
    /// This publish surely did nothing: the stream is full or the message too large.
    Declined(String),
    /// Nothing was heard.
    Silent(String),
}

/// Where a stream begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// The first sequence that is kept, or the next one of an empty stream.
    pub first: u64,
    /// The last sequence; 0 before the first message.
    pub last: u64,
    /// The bytes that are kept.
    pub bytes: u64,
}

impl Ends {
    /// The bytes behind a position, if all entries are equally long.
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

/// A stream could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StreamError(pub String);

//! Pure: the steps of a writer until it knows whether its entry is in the stream.
//!
//! It owns one append of one entry, from its first publish to a certain outcome. It promises that
//! an entry is durable only if the stream has it. It is taken only if another writer's entry is at
//! its position. Neither a refusal nor a silence is ever an outcome. An entry that was not appended
//! at once is published again only behind the entry that it follows.

use bytes::Bytes;
use postrider_log::{EntryHash, Header, Position};

#[cfg(test)]
use crate::planted::Planted;

#[cfg(test)]
mod tests;

/// The time before a writer repeats an unanswered question, in milliseconds.
pub const ASK_AGAIN_MS: u64 = 1_000;

/// The time for which a stream must look too short before its end is believed, in milliseconds.
///
/// A server that no longer leads may show an older end until it notices, within 20 s. It checks
/// each 10 s whether it heard the others in the last ten. So a writer that sees such an end asks
/// another server next. The end is believed when all of them show it for as long as this.
pub const SHORT_FOR_MS: u64 = 12_000;

/// The result of an [`Act`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// The publish was acknowledged with the expected sequence.
    Acknowledged,
    /// The publish was refused, for the sequence or for anything else.
    Refused,
    /// No answer arrived in time.
    Nothing,
    /// The position has these bytes.
    Found(Bytes),
    /// The position that was looked up is empty, and the stream ends here.
    Absent {
        /// The last position of the stream.
        last: Position,
    },
    /// The pause is over.
    Woken,
}

/// The next step of the writer; each is answered by one [`Heard`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Publish the entry, expecting the entry before it to be the last.
    Publish,
    /// Read the message at this position, from the stream's leader.
    LookUp(Position),
    /// Wait until this time.
    WaitUntil(u64),
    /// Done.
    Done(Settled),
}

/// The outcome of an append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// The entry is in the stream.
    Durable,
    /// Another writer's entry has the position. A writer that was the owner has been replaced.
    Taken(Header),
    /// The message at the position is no entry, or does not follow the one before it.
    Damaged(String),
    /// The stream ends before an entry that this writer knows to have been in it.
    Lost {
        /// The last position of the stream.
        last: Position,
    },
}

/// One append of one entry.
#[derive(Debug)]
pub struct Settlement {
    at: Position,
    bytes: Bytes,
    has_begun: bool,
    /// The time since which the stream has looked too short.
    short_since: Option<u64>,
    /// The position that was looked up last: the entry's, or the one before it.
    looks_at: Position,
    /// The time of the last lookup: an answer may be read long after it was given.
    looked_at: u64,
    #[cfg(test)]
    pub(crate) planted: Option<Planted>,
}

impl Settlement {
    /// Creates the append of these bytes at this position.
    #[must_use]
    pub const fn new(at: Position, bytes: Bytes) -> Self {
        Self {
            at,
            bytes,
            has_begun: false,
            short_since: None,
            looks_at: at,
            looked_at: 0,
            #[cfg(test)]
            planted: None,
        }
    }

    /// Returns the position of the entry.
    #[must_use]
    pub const fn at(&self) -> Position {
        self.at
    }

    /// Returns the bytes of the entry.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the first step: a publish, or a lookup if the append was started before.
    pub fn begin(&mut self, now: u64) -> Act {
        if std::mem::replace(&mut self.has_begun, true) {
            return self.step(now, Heard::Woken);
        }
        Act::Publish
    }

    /// Processes a result, and returns the next step.
    pub fn step(&mut self, now: u64, heard: Heard) -> Act {
        match heard {
            Heard::Acknowledged => Act::Done(Settled::Durable),
            Heard::Refused | Heard::Nothing | Heard::Woken => {
                self.looked_at = now;
                self.look_up(self.at)
            }
            Heard::Found(before) if self.looks_at < self.at => self.publish_behind(&before),
            Heard::Found(bytes) if bytes == self.bytes => Act::Done(Settled::Durable),
            Heard::Found(bytes) => Act::Done(match Header::decode(&bytes) {
                Ok(header) => Settled::Taken(header),
                Err(fault) => Settled::Damaged(fault.to_string()),
            }),
            Heard::Absent { last } if last == self.at.previous() => {
                self.short_since = None;
                match last {
                    Position::START => Act::Publish,
                    // The message was removed below the end.
                    last if last == self.looks_at => Act::WaitUntil(now + ASK_AGAIN_MS),
                    last => self.look_up(last),
                }
            }
            Heard::Absent { last } if last < self.at => {
                let since = *self.short_since.get_or_insert(now);
                #[cfg(test)]
                if self.planted == Some(Planted::LateAnswerTakenForFresh) {
                    self.looked_at = now;
                }
                if self.looked_at >= since + SHORT_FOR_MS {
                    return Act::Done(Settled::Lost { last });
                }
                Act::WaitUntil(now + ASK_AGAIN_MS)
            }
            Heard::Absent { .. } => Act::WaitUntil(now + ASK_AGAIN_MS),
        }
    }

    fn look_up(&mut self, at: Position) -> Act {
        self.looks_at = at;
        Act::LookUp(at)
    }

    /// Publishes again if the entry follows `before`.
    ///
    /// A stream that lost its end and was written by another node since may end at the same
    /// position. Its servers compare positions only.
    fn publish_behind(&self, before: &Bytes) -> Act {
        let own = Header::decode(&self.bytes);
        if own.is_ok_and(|own| own.prev == EntryHash::of(before)) {
            return Act::Publish;
        }
        let what = "the entry before it is another than the one that was there".to_owned();
        Act::Done(Settled::Damaged(what))
    }
}

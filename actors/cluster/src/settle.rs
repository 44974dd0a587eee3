//! Pure: what a writer does until it knows whether its entry is in the stream.
//!
//! It owns one append of one entry, from its first publish to an outcome that is sure.
//! It promises that an entry is durable only if the stream has it, taken only if another's entry
//! stands at its position, and that neither a refusal nor a silence is ever an outcome. What was
//! not appended at once is published again only behind the entry that it follows.

use bytes::Bytes;
use postrider_log::{EntryHash, Header, Position};

#[cfg(test)]
use crate::planted::Planted;

#[cfg(test)]
mod tests;

/// How long a writer waits before it asks again what it could not learn, in milliseconds.
pub const ASK_AGAIN_MS: u64 = 1_000;

/// For how long a stream must look too short before its end is believed, in milliseconds.
///
/// A server that no longer leads may show an older end until it notices, within 20 s: it looks
/// each 10 s whether it heard the others in the last ten. So whoever sees such an end asks another
/// server next, and the end is believed when all of them show it for as long as this.
pub const SHORT_FOR_MS: u64 = 12_000;

/// What was heard after an [`Act`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// The publish was acknowledged with the sequence that was expected.
    Acknowledged,
    /// The publish was refused, for the sequence or for anything else.
    Refused,
    /// Nothing was heard in time.
    Nothing,
    /// These bytes stand at the position.
    Found(Bytes),
    /// Nothing stands at the position that was looked at, and the stream ends here.
    Absent {
        /// The last position of the stream.
        last: Position,
    },
    /// The pause is over.
    Woken,
}

/// What the writer does next; each is answered by one [`Heard`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Publish the entry, expecting that the one before it is the last.
    Publish,
    /// Read what stands at this position, from the stream's leader.
    LookUp(Position),
    /// Wait until this time.
    WaitUntil(u64),
    /// Done.
    Done(Settled),
}

/// How an append ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// The entry is in the stream.
    Durable,
    /// Another's entry has the position. Whoever wrote as an owner has been replaced.
    Taken(Header),
    /// What stands at the position is no entry, or it does not follow what stands before it.
    Damaged(String),
    /// The stream ends before what this writer knows to have been in it.
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
    /// Since when the stream has looked too short.
    short_since: Option<u64>,
    /// What was looked at last: the position, or the one before it.
    looks_at: Position,
    /// When it was looked at last: an answer may be heard long after it was given.
    looked_at: u64,
    #[cfg(test)]
    pub(crate) planted: Option<Planted>,
}

impl Settlement {
    /// The append of these bytes at this position.
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

    /// The position of the entry.
    #[must_use]
    pub const fn at(&self) -> Position {
        self.at
    }

    /// The bytes of the entry.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// What is done first: a publish, and when it was begun before, a look at what became of it.
    pub fn begin(&mut self, now: u64) -> Act {
        if std::mem::replace(&mut self.has_begun, true) {
            return self.step(now, Heard::Woken);
        }
        Act::Publish
    }

    /// Takes what was heard, and says what to do next.
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
                    // It was removed below the end.
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

    /// Publishes again if this is what the entry follows. A stream that has lost its end and was
    /// written by another since ends at the same position, and its servers look at no more.
    fn publish_behind(&self, before: &Bytes) -> Act {
        let own = Header::decode(&self.bytes);
        if own.is_ok_and(|own| own.prev == EntryHash::of(before)) {
            return Act::Publish;
        }
        let what = "the entry before it is another than the one that was there".to_owned();
        Act::Done(Settled::Damaged(what))
    }
}

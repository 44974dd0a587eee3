//! Pure: the time for which a node may answer as an owner, and the renewals that extend it.
//!
//! It owns the node's key in the bucket, its renewals, and the deadline that follows from them. It
//! promises that the deadline passes before the key can have expired at any server. The rate of
//! that server's clock must differ by less than the margin in a lease. A right never outlives its
//! key.

use std::collections::VecDeque;

use crate::name::Identity;

#[cfg(test)]
mod tests;

/// The time to live of keys, and the margin by which a node stops earlier by its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The time to live of a node's key, in milliseconds.
    pub lease_ms: u64,
    /// The time by which the right ends before the key, in milliseconds.
    pub margin_ms: u64,
    /// The time between two renewals, which is also the maximum wait for one, in milliseconds.
    pub renewal_ms: u64,
}

impl Terms {
    /// A lease of 13 s, renewed each second, with a margin of 2 s.
    pub const DEFAULT: Self = Self { lease_ms: 13_000, margin_ms: 2_000, renewal_ms: 1_000 };
}

/// The number of unsettled renewals that are remembered.
const RENEWALS_KEPT: usize = 64;
/// The minimum time between a renewal and the next one with news, in milliseconds.
const NEWS_AFTER_MS: u64 = 200;

/// The value of the node's key in the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeKey {
    /// The revision, which a renewal names.
    pub revision: u64,
    /// The identity of its writer.
    pub identity: Identity,
    /// The number of the renewal that wrote it.
    pub renewal: u64,
}

/// An input of the tenure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TenureInput {
    /// Time has passed.
    Tick,
    /// The content of the key has changed: the next renewal comes early.
    News,
    /// The write of this renewal succeeded.
    Written {
        /// The number of the renewal.
        renewal: u64,
        /// The revision that it made.
        revision: u64,
    },
    /// The write of this renewal was refused, or its outcome is not known.
    NotWritten {
        /// The number of the renewal.
        renewal: u64,
    },
    /// The key was read after [`TenureOutput::Read`].
    Found(Option<NodeKey>),
}

/// An action of the tenure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TenureOutput {
    /// Write the key with its time to live, if its revision is this one; 0 if it must not exist.
    Write {
        /// The number of the renewal, which is written to the key.
        renewal: u64,
        /// The revision that the key must have.
        revision: u64,
    },
    /// Read the key.
    Read,
    /// The key expired, or belonged to an earlier process: nothing is owned any more.
    TermOver,
    /// Another node has the name.
    NameTaken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyState {
    /// The key must be read: at the start, and after a renewal with an unknown outcome.
    Unknown,
    /// The key exists, with this revision.
    Held(u64),
    /// The key did not exist when it was read.
    Absent,
}

/// The right of a node to answer as an owner.
///
/// All times are of one clock that counts on while the machine sleeps, and never jumps.
#[derive(Debug)]
pub struct Tenure {
    terms: Terms,
    me: Identity,
    key: KeyState,
    /// The renewals whose outcome may still become known, with the time when each was sent.
    sent: VecDeque<(u64, u64)>,
    renewals: u64,
    /// Set if the next renewal has news and shall come soon.
    has_news: bool,
    /// The time at which the outstanding read or write was started.
    asked_at: Option<u64>,
    /// The number of the term, in which shards are owned. It rises each time the key is written
    /// again.
    term: u64,
    deadline: u64,
}

impl Tenure {
    /// Creates the tenure of a process that has just started: it has no right yet.
    #[must_use]
    pub const fn new(terms: Terms, me: Identity) -> Self {
        Self {
            terms,
            me,
            key: KeyState::Unknown,
            sent: VecDeque::new(),
            renewals: 0,
            has_news: false,
            asked_at: None,
            term: 0,
            deadline: 0,
        }
    }

    /// Returns the term, if the right holds at this time.
    #[must_use]
    pub const fn term(&self, now: u64) -> Option<u64> {
        if now < self.deadline { Some(self.term) } else { None }
    }

    /// Returns the time at which the right ends unless it is renewed.
    #[must_use]
    pub const fn deadline(&self) -> u64 {
        self.deadline
    }

    /// Processes an input, and returns the next actions.
    pub fn step(&mut self, now: u64, input: &TenureInput) -> Vec<TenureOutput> {
        match *input {
            TenureInput::Tick => self.tick(now),
            TenureInput::News => {
                self.has_news = true;
                self.tick(now)
            }
            TenureInput::Written { renewal, revision } => {
                self.asked_at = None;
                if !self.is_outstanding(renewal) {
                    self.key = KeyState::Unknown;
                    return vec![TenureOutput::Read];
                }
                self.hold(renewal, revision);
                Vec::new()
            }
            TenureInput::NotWritten { renewal } => {
                if renewal != self.renewals {
                    return Vec::new();
                }
                self.key = KeyState::Unknown;
                self.asked_at = Some(now);
                vec![TenureOutput::Read]
            }
            TenureInput::Found(found) => {
                self.asked_at = None;
                self.found(now, found)
            }
        }
    }

    fn tick(&mut self, now: u64) -> Vec<TenureOutput> {
        if self.asked_at.is_some_and(|at| now < at + self.terms.renewal_ms) {
            return Vec::new();
        }
        if self.asked_at.is_some() {
            // The key may have been written without an answer in time, or may still be.
            self.key = KeyState::Unknown;
        }
        match self.key {
            KeyState::Unknown => {
                self.asked_at = Some(now);
                vec![TenureOutput::Read]
            }
            KeyState::Held(revision) => {
                let last = self.sent.back().map_or(0, |(_, at)| *at);
                let every = self.terms.renewal_ms;
                let after = if self.has_news { every.min(NEWS_AFTER_MS) } else { every };
                let due = now >= last + after;
                due.then(|| self.write(now, revision)).into_iter().collect()
            }
            KeyState::Absent => vec![self.write(now, 0)],
        }
    }

    fn write(&mut self, now: u64, revision: u64) -> TenureOutput {
        self.renewals += 1;
        self.has_news = false;
        self.sent.push_back((self.renewals, now));
        if self.sent.len() > RENEWALS_KEPT {
            self.sent.pop_front();
        }
        self.asked_at = Some(now);
        TenureOutput::Write { renewal: self.renewals, revision }
    }

    fn is_outstanding(&self, renewal: u64) -> bool {
        self.sent.iter().any(|(number, _)| *number == renewal)
    }

    /// Notes that the key is this process's own: the right counts from when the renewal was sent.
    fn hold(&mut self, renewal: u64, revision: u64) {
        self.key = KeyState::Held(revision);
        let sent = self.sent.iter().find(|(number, _)| *number == renewal);
        if let Some((_, sent)) = sent {
            let until = sent + self.terms.lease_ms.saturating_sub(self.terms.margin_ms);
            self.deadline = self.deadline.max(until);
        }
        // The last renewal stays: its time decides when the next one is due.
        self.sent.retain(|(number, _)| *number >= renewal);
    }

    fn found(&mut self, now: u64, found: Option<NodeKey>) -> Vec<TenureOutput> {
        let Some(key) = found else {
            self.key = KeyState::Absent;
            return self.begin_term(now, 0);
        };
        if key.identity == self.me {
            self.hold(key.renewal, key.revision);
            return Vec::new();
        }
        if key.identity.directory == self.me.directory {
            // The key is of an earlier process of this directory, which has ended: the lock is
            // free.
            return self.begin_term(now, key.revision);
        }
        self.key = KeyState::Unknown;
        self.deadline = 0;
        vec![TenureOutput::TermOver, TenureOutput::NameTaken]
    }

    /// Starts a new term: no right holds until the key exists again.
    fn begin_term(&mut self, now: u64, revision: u64) -> Vec<TenureOutput> {
        self.term += 1;
        self.deadline = 0;
        // A renewal of the term before cannot succeed any more: its revision was replaced.
        self.sent.clear();
        vec![TenureOutput::TermOver, self.write(now, revision)]
    }
}

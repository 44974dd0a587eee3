//! Pure: for how long a node may answer as an owner, and what it does to keep that right.
//!
//! It owns the node's key in the bucket, its renewals, and the deadline that follows from them.
//! It promises that the deadline passes before the key can have expired at any server whose clock's
//! rate differs by less than the margin in a lease, and that a right never outlives its key.

use std::collections::VecDeque;

use crate::name::Identity;

#[cfg(test)]
mod tests;

/// How long keys live, and how much earlier a node stops by its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The time to live of a node's key, in milliseconds.
    pub lease_ms: u64,
    /// How much earlier the right ends than the key, in milliseconds.
    pub margin_ms: u64,
    /// The time between two renewals, which is also how long one is waited for.
    pub renewal_ms: u64,
}

impl Terms {
    /// A lease of 13 s, renewed each second, with a margin of 2 s.
    pub const DEFAULT: Self = Self { lease_ms: 13_000, margin_ms: 2_000, renewal_ms: 1_000 };
}

/// Unsettled renewals that are remembered.
const RENEWALS_KEPT: usize = 64;
/// How soon after a renewal the next one may report what is new, in milliseconds.
const NEWS_AFTER_MS: u64 = 200;

/// What the bucket has under the node's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeKey {
    /// The revision, which a renewal names.
    pub revision: u64,
    /// Who wrote it.
    pub identity: Identity,
    /// The number of the renewal that wrote it.
    pub renewal: u64,
}

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TenureInput {
    /// Time has passed.
    Tick,
    /// The key should say something else: its renewal is not waited for.
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

/// What shall be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TenureOutput {
    /// Write the key with its time to live, if its revision is this one; 0 when there must be none.
    Write {
        /// The number of the renewal, which stands in the key.
        renewal: u64,
        /// The revision that must be there.
        revision: u64,
    },
    /// Read the key.
    Read,
    /// The key has expired, or was an earlier process's: nothing that was owned is owned any more.
    TermOver,
    /// Another node has the name.
    NameTaken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyState {
    /// It must be read: at the start, and after a renewal with an unknown outcome.
    Unknown,
    /// It is there, with this revision.
    Held(u64),
    /// It was not there when it was read.
    Absent,
}

/// The right of a node to answer as an owner.
///
/// Times are of one clock that runs on while the machine sleeps, and never jumps.
#[derive(Debug)]
pub struct Tenure {
    terms: Terms,
    me: Identity,
    key: KeyState,
    /// The renewals that may still become known, with the time when each was sent.
    sent: VecDeque<(u64, u64)>,
    renewals: u64,
    /// Something is to be said with the next renewal, which shall come soon.
    has_news: bool,
    /// When the outstanding read or write was begun.
    asked_at: Option<u64>,
    /// It rises each time the key is made anew; what is owned is owned in a term.
    term: u64,
    deadline: u64,
}

impl Tenure {
    /// The tenure of a process that has just started: it has no right yet.
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

    /// The term, if the right holds at this time.
    #[must_use]
    pub const fn term(&self, now: u64) -> Option<u64> {
        if now < self.deadline { Some(self.term) } else { None }
    }

    /// When the right ends unless it is renewed.
    #[must_use]
    pub const fn deadline(&self) -> u64 {
        self.deadline
    }

    /// Takes what has happened, and says what shall be done.
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
            // No answer in time: it may have been written, or may be yet.
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

    /// The key is this process's own: the right counts from when the renewal was sent.
    fn hold(&mut self, renewal: u64, revision: u64) {
        self.key = KeyState::Held(revision);
        let sent = self.sent.iter().find(|(number, _)| *number == renewal);
        if let Some((_, sent)) = sent {
            let until = sent + self.terms.lease_ms.saturating_sub(self.terms.margin_ms);
            self.deadline = self.deadline.max(until);
        }
        // The last one stays: it says when the next is due.
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
            // An earlier process of this directory, which has ended: the lock is free.
            return self.begin_term(now, key.revision);
        }
        self.key = KeyState::Unknown;
        self.deadline = 0;
        vec![TenureOutput::TermOver, TenureOutput::NameTaken]
    }

    /// Nothing holds from here on until the key is there again.
    fn begin_term(&mut self, now: u64, revision: u64) -> Vec<TenureOutput> {
        self.term += 1;
        self.deadline = 0;
        // A renewal of the term before cannot succeed any more: its revision was replaced.
        self.sent.clear();
        vec![TenureOutput::TermOver, self.write(now, revision)]
    }
}

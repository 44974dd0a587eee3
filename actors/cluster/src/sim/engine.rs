//! What a node of a simulation has of a shard: the applied records, and the engine of an owner.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use postrider_log::{CheckpointNote, Entry, Kind, Position};

use super::append::Append;
use super::call::Request;
use super::ops::{Change, changes};
use crate::planted::Planted;

/// How long a window of messages is, in engine time.
const WINDOW_MS: u64 = 5_000;
/// How many messages a window has room for.
pub(super) const WINDOW_ROOM: u32 = 4;
/// How long one place of the bucket takes to come back, in engine time.
pub(super) const PLACE_MS: u64 = 2_000;
/// How many places the bucket has.
const PLACES: u64 = 6;
/// How often the bucket is saved.
const SAVE_EVERY_MS: u64 = 1_000;
/// The same with a fault.
const SAVE_LATE_MS: u64 = 10_000;

/// What is known of a message that is not done with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message {
    /// Nobody was given it yet.
    Accepted,
    /// It may have been handed over.
    Claimed,
    /// It may have been handed over, and its policy is to send it again.
    Unknown,
}

/// The records of one shard, as far as they are applied.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    pub(super) entries: Vec<Bytes>,
    /// 1 for an issued code, 2 for a verified one.
    pub(super) codes: BTreeMap<u32, u8>,
    /// The messages that are not done with.
    pub(super) messages: BTreeMap<u32, Message>,
    /// The newest window, and how many messages it has.
    pub(super) window: (u32, u32),
    /// Until when the bucket was empty when it was saved last.
    pub(super) empty_until: u64,
    /// When the group with that was made, in virtual time.
    pub(super) saved_at: u32,
    /// When the last group was made, in virtual time.
    pub(super) stamp: u32,
    /// The engine time of the last entry.
    pub(super) last_ms: u64,
}

impl View {
    pub(super) fn apply(&mut self, bytes: Bytes, body: Option<&[u8]>, time_ms: u64) {
        for change in body.into_iter().flat_map(changes) {
            self.change(change);
        }
        self.last_ms = time_ms;
        self.entries.push(bytes);
    }

    /// Forgets what the entries behind so many changed.
    pub(super) fn forget_behind(&mut self, count: usize) {
        let (entries, last_ms) = (std::mem::take(&mut self.entries), self.last_ms);
        *self = Self::default();
        for bytes in entries.iter().take(count) {
            let entry = Entry::decode(bytes.clone()).unwrap();
            let body = (entry.header.kind == Kind::Group).then(|| entry.body());
            self.apply(entry.bytes, body.as_deref(), entry.header.time_ms);
        }
        (self.entries, self.last_ms) = (entries, last_ms);
    }

    fn change(&mut self, change: Change) {
        match change {
            // It comes before all others of its group.
            Change::Stamp(at) => self.stamp = at,
            Change::Issue(code) => {
                self.codes.entry(code).or_insert(1);
            }
            Change::Verify(code) => {
                self.codes.insert(code, 2);
            }
            Change::Accept(id) => {
                self.messages.insert(id, Message::Accepted);
            }
            Change::Claim(id) => {
                self.messages.insert(id, Message::Claimed);
            }
            // Those with odd numbers shall be sent at least once, the others at most once.
            Change::Unknown(id) if id % 2 == 1 => {
                self.messages.insert(id, Message::Unknown);
            }
            Change::Sent(id) | Change::Unknown(id) => {
                self.messages.remove(&id);
            }
            Change::Count(window) if self.window.0 == window => self.window.1 += 1,
            Change::Count(window) => self.window = (window, 1),
            Change::Save(until) => {
                self.empty_until = until.into();
                self.saved_at = self.stamp;
            }
        }
    }
}

/// Something that waits for the next group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub(super) change: Change,
    /// Who is answered when it is durable.
    pub(super) request: Option<Request>,
}

/// What runs while a shard is owned.
#[derive(Debug, Default)]
pub(super) struct Engine {
    pub(super) epoch: u64,
    /// The term in which it may answer.
    pub(super) term: Option<u64>,
    /// The engine time at a time of the node's steady clock.
    pub(super) began: (u64, u64),
    pub(super) queue: Vec<Job>,
    /// The group that is being appended.
    pub(super) flight: Option<(Append, Vec<Job>)>,
    /// What is to be noted of a checkpoint, and up to where the log is trimmed behind that.
    pub(super) note: Option<(CheckpointNote, Position)>,
    /// Up to where, when the note under way is durable.
    pub(super) trims: Option<Position>,
    /// A checkpoint is being stored.
    pub(super) is_storing: bool,
    /// Codes with a verification under way.
    pub(super) verifying: BTreeSet<u32>,
    /// Messages from when they are claimed to when their outcome is durable.
    pub(super) in_hand: BTreeSet<u32>,
    window: (u32, u32),
    /// The bucket: no place until then, less by each place.
    empty_until: u64,
    /// What was saved of it last, and when by the steady clock.
    saved: (u64, Option<u64>),
    pub(super) is_closed: bool,
    pub(super) is_drained: bool,
}

impl Engine {
    /// Starts over what is applied.
    pub(super) fn over(view: &View, planted: Option<Planted>) -> Self {
        let forgets = |fault| planted == Some(fault);
        let window = if forgets(Planted::WindowsForgotten) { (0, 0) } else { view.window };
        let full = forgets(Planted::BucketsForgotten);
        let empty_until = if full { 0 } else { view.empty_until };
        let mut engine = Self { window, empty_until, ..Self::default() };
        engine.saved.0 = empty_until;
        let claimed = view.messages.iter().filter(|(_, it)| **it == Message::Claimed);
        for id in claimed.map(|(id, _)| *id) {
            let again = planted == Some(Planted::ClaimedSentAgain);
            let change = if again { Change::Claim(id) } else { Change::Unknown(id) };
            engine.in_hand.insert(id);
            engine.queue.push(Job { change, request: None });
        }
        engine
    }

    /// Takes a place of the window at this engine time.
    pub(super) fn count(&mut self, now: u64) -> Option<Change> {
        // Engine time is far below what a u32 of windows holds.
        let number = (now / WINDOW_MS) as u32;
        if self.window.0 < number {
            self.window = (number, 0);
        }
        if self.window.1 >= WINDOW_ROOM {
            return None;
        }
        self.window.1 += 1;
        Some(Change::Count(self.window.0))
    }

    /// Takes a place of the bucket at this engine time.
    pub(super) fn take(&mut self, now: u64) -> bool {
        let Some(until) = next_empty_until(self.empty_until, now) else { return false };
        self.empty_until = until;
        true
    }

    /// Whether the bucket has to be saved, at this time of the steady clock.
    pub(super) fn is_save_due(&self, boot: u64, planted: Option<Planted>) -> bool {
        let every = match planted {
            Some(Planted::BucketsSavedLate) => SAVE_LATE_MS,
            _ => SAVE_EVERY_MS,
        };
        self.empty_until != self.saved.0 && self.saved.1.is_none_or(|at| boot >= at + every)
    }

    pub(super) const fn save(&mut self, boot: u64) -> Change {
        self.saved = (self.empty_until, Some(boot));
        // Times of a run are below what a u32 holds.
        Change::Save(self.empty_until as u32)
    }
}

/// The generic cell rate algorithm, by which a bucket is judged too.
pub(super) fn next_empty_until(empty_until: u64, now: u64) -> Option<u64> {
    let next = empty_until.max(now) + PLACE_MS;
    (next <= now + PLACES * PLACE_MS).then_some(next)
}

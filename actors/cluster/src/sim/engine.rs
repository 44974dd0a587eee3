//! The part of a shard on a node of a simulation: the applied records, and the engine of an owner.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use postrider_log::{CheckpointNote, Entry, Kind, Position};

use super::append::Append;
use super::call::Request;
use super::ops::{Change, changes};
use crate::planted::Planted;

/// The length of a window of messages, in engine time.
const WINDOW_MS: u64 = 5_000;
/// The number of messages for which a window has room.
pub(super) const WINDOW_ROOM: u32 = 4;
/// The time in which one place of the bucket returns, in engine time.
pub(super) const PLACE_MS: u64 = 2_000;
/// The number of places of the bucket.
const PLACES: u64 = 6;
/// The time between two saves of the bucket.
const SAVE_EVERY_MS: u64 = 1_000;
/// The same time with a planted fault.
const SAVE_LATE_MS: u64 = 10_000;

/// The state of an unfinished message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message {
    /// It was given to nobody yet.
    Accepted,
    /// It may have been handed over.
    Claimed,
    /// It may have been handed over, and its policy is to send it again.
    Unknown,
}

/// The applied records of one shard.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    pub(super) entries: Vec<Bytes>,
    /// 1 for an issued code, 2 for a verified one.
    pub(super) codes: BTreeMap<u32, u8>,
    /// The unfinished messages.
    pub(super) messages: BTreeMap<u32, Message>,
    /// The newest window, and the number of its messages.
    pub(super) window: (u32, u32),
    /// The time until which the bucket was empty when it was saved last.
    pub(super) empty_until: u64,
    /// The virtual time of the group that saved the bucket.
    pub(super) saved_at: u32,
    /// The virtual time of the last group.
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

    /// Drops the changes of the entries behind the first `count`.
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
            // The stamp precedes all other changes of its group.
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
            // Messages with odd numbers shall be sent at least once, the others at most once.
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

/// A change that waits for the next group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub(super) change: Change,
    /// The request that is answered when the change is durable.
    pub(super) request: Option<Request>,
}

/// The engine that runs while a shard is owned.
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
    /// The note of a checkpoint, and the position up to which the log is trimmed after it.
    pub(super) note: Option<(CheckpointNote, Position)>,
    /// The position up to which the log is trimmed when the note under way is durable.
    pub(super) trims: Option<Position>,
    /// Set while a checkpoint is being stored.
    pub(super) is_storing: bool,
    /// Codes with a verification under way.
    pub(super) verifying: BTreeSet<u32>,
    /// Messages between their claim and the durable outcome.
    pub(super) in_hand: BTreeSet<u32>,
    window: (u32, u32),
    /// The time until which the bucket is empty; each place takes its share of it.
    empty_until: u64,
    /// The last saved value of the bucket, and the time of the save by the steady clock.
    saved: (u64, Option<u64>),
    pub(super) is_closed: bool,
    pub(super) is_drained: bool,
}

impl Engine {
    /// Creates an engine over the applied records.
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
        // The number of windows in the engine time of a run fits a u32.
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

    /// Returns whether the bucket must be saved, at this time of the steady clock.
    pub(super) fn is_save_due(&self, boot: u64, planted: Option<Planted>) -> bool {
        let every = match planted {
            Some(Planted::BucketsSavedLate) => SAVE_LATE_MS,
            _ => SAVE_EVERY_MS,
        };
        self.empty_until != self.saved.0 && self.saved.1.is_none_or(|at| boot >= at + every)
    }

    pub(super) const fn save(&mut self, boot: u64) -> Change {
        self.saved = (self.empty_until, Some(boot));
        // The times of a run fit a u32.
        Change::Save(self.empty_until as u32)
    }
}

/// Returns the next state of a bucket by the generic cell rate algorithm, which the judge uses too.
pub(super) fn next_empty_until(empty_until: u64, now: u64) -> Option<u64> {
    let next = empty_until.max(now) + PLACE_MS;
    (next <= now + PLACES * PLACE_MS).then_some(next)
}

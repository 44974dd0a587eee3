//! Pure: the status of a message, and the callers that wait for its outcome.

use std::cmp::Ordering;
use std::fmt::Debug;

use hashbrown::HashMap;
use postrider_domain::{MessageId, NumberId};
use serde::{Deserialize, Serialize};

/// The status of a message. The order of the variants is that on disk; [`Ord`] orders by progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageStatus {
    /// Durable, not yet taken by the channel.
    Queued,
    /// It was handed over and no answer came.
    Unknown,
    /// The channel took it.
    Sent,
    /// It is on the recipient's device.
    Delivered,
    /// The recipient has opened it.
    Read,
    /// It was not delivered, and what was paid for it was given back.
    Failed,
    /// The channel took it and holds it back: it may send it later, or drop it.
    Held,
}

impl Ord for MessageStatus {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for MessageStatus {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl MessageStatus {
    const fn rank(self) -> u8 {
        match self {
            Self::Queued => 0,
            Self::Unknown => 1,
            Self::Held => 2,
            Self::Sent => 3,
            Self::Delivered => 4,
            Self::Read => 5,
            Self::Failed => 6,
        }
    }

    /// Returns the status as a body spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Unknown => "unknown",
            Self::Held => "held",
            Self::Sent => "sent",
            Self::Delivered => "delivered",
            Self::Read => "read",
            Self::Failed => "failed",
        }
    }

    /// Returns the status that a caller gets who waits for the outcome of the message.
    pub(crate) const fn as_answer(self) -> Self {
        match self {
            Self::Sent | Self::Delivered | Self::Read => Self::Sent,
            Self::Held | Self::Failed => self,
            // A lost answer is none: it stays to be settled.
            Self::Queued | Self::Unknown => Self::Queued,
        }
    }
}

/// A caller that waits: either it gets the outcome, or it has given up before.
pub trait OutcomeWaiter: Debug + Send {
    /// Returns whether the caller still waits.
    fn is_waiting(&self) -> bool;

    /// Decides that the caller gets the outcome. Returns false if it has given up before.
    fn decide(&self) -> bool;

    /// Notifies the caller.
    fn resolve(self: Box<Self>, settled: SettledOutcome);
}

/// The outcome of a message that a caller waits for: its status, and its number. The number may be
/// another one than it was accepted for.
pub type SettledOutcome = (MessageStatus, NumberId);

/// A waiting caller, and the answer that is stored for it.
#[derive(Debug)]
pub struct Waiter {
    /// The waiting caller.
    pub caller: Box<dyn OutcomeWaiter>,
    /// The key of the answer's record under an idempotency key. The record must become the caller's
    /// answer.
    pub kept_under: Option<Vec<u8>>,
}

/// The callers that wait, by message.
#[derive(Debug, Default)]
pub struct Waiters {
    waiting: HashMap<MessageId, Waiter>,
    /// The messages of the callers, by the record of the answer that is stored for them.
    by_record: HashMap<Vec<u8>, MessageId>,
}

impl Waiters {
    /// Adds a caller that waits for this message, which was just accepted.
    pub(crate) fn add(&mut self, id: MessageId, waiter: Waiter) {
        if let Some(record) = &waiter.kept_under {
            self.by_record.insert(record.clone(), id);
        }
        self.waiting.insert(id, waiter);
    }

    /// Returns whether a caller waits for the answer that is stored in this record.
    pub(crate) fn wait_for(&self, record: &[u8]) -> bool {
        let waiter = self.by_record.get(record).and_then(|id| self.waiting.get(id));
        waiter.is_some_and(|waiter| waiter.caller.is_waiting())
    }

    /// Removes and returns the caller that waits for this message, which is settled.
    ///
    /// The stored answer for one that has given up stays as it is.
    pub(crate) fn take(&mut self, id: MessageId) -> Option<Waiter> {
        let waiter = self.waiting.remove(&id)?;
        if let Some(record) = &waiter.kept_under {
            self.by_record.remove(record);
        }
        waiter.caller.decide().then_some(waiter)
    }
}

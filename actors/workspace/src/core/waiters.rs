//! Pure: callers that wait for the outcome of a message, by message.

use std::fmt::Debug;

use hashbrown::HashMap;

use postrider_domain::{MessageId, NumberId};

use crate::core::message_status::MessageStatus;

/// A caller that waits: either it gets the outcome, or it has given up before.
pub trait OutcomeWaiter: Debug + Send {
    /// Returns whether the caller still waits.
    fn is_waiting(&self) -> bool;

    /// Decides that the caller gets the outcome. Returns false if it has given up before.
    fn decide(&self) -> bool;

    /// Notifies the caller.
    fn resolve(self: Box<Self>, settled: Settled);
}

/// The outcome of a message that a caller waits for: its status, and its number. The number may be
/// another one than it was accepted for.
pub type Settled = (MessageStatus, NumberId);

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

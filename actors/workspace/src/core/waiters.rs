//! Pure: callers that wait for the outcome of a message, by message.

use std::fmt::Debug;

use hashbrown::HashMap;

use postrider_domain::{MessageId, NumberId};

use crate::core::message_status::MessageStatus;

/// A caller that waits: either it gets the outcome, or it has given up before.
pub trait OutcomeWaiter: Debug + Send {
    /// Whether the caller still waits.
    fn is_waiting(&self) -> bool;

    /// Decides that the caller gets the outcome. Returns false where it has given up before.
    fn decide(&self) -> bool;

    /// Notifies the caller.
    fn resolve(self: Box<Self>, settled: Settled);
}

/// What becomes of a message that a caller waits for: how it stands, and the number that it left
/// through, which may be another one than it was accepted for.
pub type Settled = (MessageStatus, NumberId);

/// A caller that waits, and the answer that is kept for it.
#[derive(Debug)]
pub struct Waiter {
    /// Who waits.
    pub caller: Box<dyn OutcomeWaiter>,
    /// The record of the answer under an idempotency key, which must become what the caller
    /// gets.
    pub kept_under: Option<Vec<u8>>,
}

/// The callers that wait, by message.
#[derive(Debug, Default)]
pub struct Waiters {
    waiting: HashMap<MessageId, Waiter>,
    /// Their messages, by the record of the answer that is kept for them.
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

    /// Whether a caller waits for the answer that is kept in this record.
    pub(crate) fn wait_for(&self, record: &[u8]) -> bool {
        let waiter = self.by_record.get(record).and_then(|id| self.waiting.get(id));
        waiter.is_some_and(|waiter| waiter.caller.is_waiting())
    }

    /// Takes out the caller that waits for this message, which is settled. The answer that is kept
    /// for one that has given up stays as it is.
    pub(crate) fn take(&mut self, id: MessageId) -> Option<Waiter> {
        let waiter = self.waiting.remove(&id)?;
        if let Some(record) = &waiter.kept_under {
            self.by_record.remove(record);
        }
        waiter.caller.decide().then_some(waiter)
    }
}

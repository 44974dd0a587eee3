//! Who waits for the channel's answer for a message.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashMap;
use tokio::sync::oneshot;

use postrider_domain::MessageId;

use crate::messages::record::MessageStatus;

/// Somebody who waits: either they are told, or they have given up before.
#[derive(Debug)]
pub struct Waiter {
    sender: oneshot::Sender<MessageStatus>,
    /// Whether it is decided which of the two.
    decided: Arc<AtomicBool>,
    /// The record of the answer under an idempotency key, which must become what they are told.
    pub(crate) kept_under: Option<Vec<u8>>,
}

/// The other end of a [`Waiter`].
pub(crate) struct Waiting {
    receiver: oneshot::Receiver<MessageStatus>,
    decided: Arc<AtomicBool>,
}

/// Somebody who will wait, and what tells them.
pub(crate) fn waiter(kept_under: Option<Vec<u8>>) -> (Waiter, Waiting) {
    let (sender, receiver) = oneshot::channel();
    let decided = Arc::new(AtomicBool::new(false));
    (Waiter { sender, decided: Arc::clone(&decided), kept_under }, Waiting { receiver, decided })
}

impl Waiter {
    /// Decides that they are told. Returns whether they have given up before.
    fn has_given_up(&self) -> bool {
        self.decided.swap(true, Ordering::AcqRel)
    }

    /// Tells them.
    pub fn tell(self, status: MessageStatus) {
        // Nobody is told if the asker has gone away.
        self.sender.send(status).ok();
    }
}

impl Waiting {
    /// What they are told, if that comes before `patience` is over. What is on its way by then is
    /// waited for: it only has to become durable.
    pub(crate) async fn settled(
        mut self,
        patience: impl Future<Output = ()>,
    ) -> Option<MessageStatus> {
        tokio::select! {
            biased;
            // Nobody tells when the answer was given before, or when the workspace restarts.
            status = &mut self.receiver => status.ok(),
            () = patience => {
                let decided = self.decided.swap(true, Ordering::AcqRel);
                if decided { self.receiver.await.ok() } else { None }
            }
        }
    }
}

/// Who waits, by message.
#[derive(Debug, Default)]
pub struct Waiters {
    waiting: HashMap<MessageId, Waiter>,
    /// Their messages, by the record of the answer that is kept for them.
    by_record: HashMap<Vec<u8>, MessageId>,
    /// Those whose answer is there and not durable yet.
    answered: Vec<(Waiter, MessageStatus)>,
}

impl Waiters {
    /// Somebody waits for this message, which was just accepted.
    pub(crate) fn add(&mut self, id: MessageId, waiter: Waiter) {
        if let Some(record) = &waiter.kept_under {
            self.by_record.insert(record.clone(), id);
        }
        self.waiting.insert(id, waiter);
    }

    /// Whether somebody waits for the answer that is kept in this record.
    pub fn wait_for(&self, record: &[u8]) -> bool {
        let waiter = self.by_record.get(record).and_then(|id| self.waiting.get(id));
        waiter.is_some_and(|waiter| {
            !waiter.decided.load(Ordering::Acquire) && !waiter.sender.is_closed()
        })
    }

    /// Takes out who waits for this message, which is settled.
    pub(crate) fn take(&mut self, id: MessageId) -> Option<Waiter> {
        let waiter = self.waiting.remove(&id)?;
        if let Some(record) = &waiter.kept_under {
            self.by_record.remove(record);
        }
        // Who has gone away has given up too: the answer that is kept for them stays as it is.
        let gone = waiter.sender.is_closed() || waiter.has_given_up();
        (!gone).then_some(waiter)
    }

    /// Has them told what is not durable yet.
    pub(crate) fn answer(&mut self, waiter: Waiter, status: MessageStatus) {
        self.answered.push((waiter, status));
    }

    /// Whether there are answers to be given.
    pub const fn has_answers(&self) -> bool {
        !self.answered.is_empty()
    }

    /// Takes those whose answer is there.
    pub fn take_answered(&mut self) -> Vec<(Waiter, MessageStatus)> {
        std::mem::take(&mut self.answered)
    }
}

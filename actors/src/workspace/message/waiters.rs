//! Who waits for the channel's answer for a message.

use hashbrown::HashMap;
use tokio::sync::oneshot;

use crate::domain::MessageId;

use super::state::MessageStatus;

/// Where a message's status goes once it is settled.
pub(crate) type Waiter = oneshot::Sender<MessageStatus>;

/// Who waits, by message.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    waiting: HashMap<MessageId, Waiter>,
    /// Those whose answer is there and not durable yet.
    answered: Vec<(Waiter, MessageStatus)>,
}

impl Waiters {
    /// Somebody waits for this message, which was just accepted.
    pub(super) fn add(&mut self, id: MessageId, waiter: Waiter) {
        self.waiting.insert(id, waiter);
    }

    /// The message is settled.
    pub(super) fn settled(&mut self, id: MessageId, status: MessageStatus) {
        self.answered.extend(self.waiting.remove(&id).map(|waiter| (waiter, status)));
    }

    /// Whether there are answers to be given.
    pub(in crate::workspace) const fn has_answers(&self) -> bool {
        !self.answered.is_empty()
    }

    /// Takes those whose answer is there.
    pub(in crate::workspace) fn take_answered(&mut self) -> Vec<(Waiter, MessageStatus)> {
        std::mem::take(&mut self.answered)
    }
}

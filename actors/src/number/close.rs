//! Disconnecting a number: what it has not handed over fails, unless it is a broadcast's.

use crate::channel::{Failure, Origin, Outbound};
use crate::domain::NumberId;
use crate::supervise::Residence;
use crate::workspace::core::Settled;

use super::{Answers, NumberMessage, Numbers};

impl Numbers {
    /// Fails messages of a number that was disconnected while they became durable, and hands those
    /// of broadcasts back.
    pub(super) fn refuse(&self, message: NumberMessage) {
        let failed = Settled::Failed(Failure::permanent(None));
        let (messages, settled) = match message {
            NumberMessage::Dispatch(messages) => {
                (messages.into_iter().map(|handed| handed.message).collect(), failed)
            }
            NumberMessage::Recover(messages) => (messages, failed),
            NumberMessage::Doubt(messages) => (messages, Settled::Unknown),
            _ => return,
        };
        let Some(wiring) = self.wiring.get() else { return };
        let mut places = Vec::new();
        for Outbound { workspace, origin, .. } in messages {
            if let Origin::Broadcast { broadcast, index } = origin {
                places.push((broadcast, index));
                continue;
            }
            let settled = vec![(origin, settled.clone())];
            self.outcomes.count(&settled);
            wiring.settle.settled(&workspace, Answers { settled, noted_to: None });
        }
        self.withdrawn(places);
    }

    /// A number was disconnected: what it has not handed over fails, and it goes.
    pub(crate) fn close(&self, number: NumberId) {
        self.connected.remove(&number);
        let Some((_, slot)) = self.directory.remove(&number) else { return };
        let residence = slot.residence.read();
        match &*residence {
            Residence::Live(actor) => drop(actor.cast(NumberMessage::Close)),
            // None has started yet, or one has died; what came since then has not come to any.
            residence => {
                let waiting = std::mem::take(&mut *slot.waiting.lock());
                waiting.into_iter().for_each(|message| self.refuse(message));
                let has_died = !matches!(residence, Residence::Idle);
                // It took its messages with it.
                if has_died && let Some(wiring) = self.wiring.get() {
                    wiring.settle.queue_lost(number);
                }
            }
        }
    }
}

//! Disconnecting a number: what it has not handed over fails, unless it is a broadcast's.

use postrider_channel::outcome::FinalOutcome;
use postrider_channel::{Failure, Origin, Outbound};
use postrider_domain::NumberId;
use postrider_runtime::directory::Undelivered;
use postrider_runtime::supervise::Placement;

use crate::ports::Outcomes;
use crate::{NumberEntry, NumberMessage, Numbers};

impl Numbers {
    /// Fails messages of a number that was disconnected while they became durable, and hands those
    /// of broadcasts back.
    pub(super) fn refuse(&self, message: NumberMessage) {
        let failed = FinalOutcome::Failed(Failure::permanent(None));
        let (messages, settled) = match message {
            NumberMessage::Dispatch(messages) => {
                (messages.into_iter().map(|handed| handed.message).collect(), failed)
            }
            NumberMessage::Recover(messages) => (messages, failed),
            NumberMessage::ReportUnknown(messages) => (messages, FinalOutcome::Unknown),
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
            wiring.sink.settled(&workspace, Outcomes { settled, ack_to: None });
        }
        self.withdrawn(places);
    }

    /// A number was disconnected: what it has not handed over fails, and it goes.
    pub fn close(&self, number: NumberId) {
        self.connected.remove(&number);
        let Some(slot) = self.directory.remove(&number) else { return };
        slot.cast_or(NumberMessage::Close, |undelivered, entry| {
            self.closed(number, &undelivered, entry);
        });
    }

    /// No actor could be told: none has started yet, or one has died; what came since then has not
    /// come to any.
    fn closed(
        &self,
        number: NumberId,
        undelivered: &Undelivered<NumberMessage>,
        entry: &NumberEntry,
    ) {
        if matches!(undelivered.placement, Placement::Live(_)) {
            return;
        }
        let waiting = std::mem::take(&mut *entry.waiting.lock());
        waiting.into_iter().for_each(|message| self.refuse(message));
        let has_died = !matches!(undelivered.placement, Placement::Idle);
        // It took its messages with it.
        if has_died && let Some(wiring) = self.wiring.get() {
            wiring.sink.queue_lost(number);
        }
    }
}

//! Disconnects numbers: their unsent messages fail, and messages of broadcasts return.

use postrider_channel::outcome::FinalOutcome;
use postrider_channel::{Failure, Origin, Outbound};
use postrider_domain::{NumberId, WorkspaceId};
use postrider_runtime::directory::Undelivered;
use postrider_runtime::supervise::Placement;

use crate::directory::Numbers;
use crate::entry::NumberEntry;
use crate::message::NumberMessage;
use crate::ports::Outcomes;

impl Numbers {
    /// Fails messages of a number that was disconnected while they became durable. Returns messages
    /// of broadcasts to them.
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
        let Some(sink) = self.reporter.sink() else { return };
        let mut withdrawn = Vec::new();
        for Outbound { workspace, origin, number, .. } in messages {
            if let Origin::Broadcast { broadcast, index } = origin {
                withdrawn.push((broadcast, index));
                continue;
            }
            let settled = vec![(origin, settled.clone())];
            self.outcomes.count(&settled);
            sink.settled(&workspace, Outcomes { number, settled, ack_to: None });
        }
        self.reporter.withdrawn(withdrawn);
    }

    /// Disconnects a number. Its messages that the channel does not have fail, and the actor stops.
    pub fn close(&self, number: NumberId) {
        let connected = self.connections.get(number);
        self.connections.disconnect(number);
        let Some(slot) = self.directory.remove(&number) else { return };
        let workspace = connected.as_ref().map(|connected| &connected.workspace);
        slot.cast_or(NumberMessage::Close, |undelivered, entry| {
            self.closed((workspace, number), &undelivered, entry);
        });
    }

    /// Disconnects the numbers of a deleted workspace.
    pub fn close_all_of(&self, workspace: &WorkspaceId) {
        for number in self.connections.of_workspace(workspace) {
            self.close(number);
        }
        self.connections.forget_sandbox(workspace);
    }

    /// Refuses waiting messages, since no actor received the `Close`: none has started, or one has
    /// died. `entry` holds the messages that have not reached any actor.
    fn closed(
        &self,
        (workspace, number): (Option<&WorkspaceId>, NumberId),
        undelivered: &Undelivered<NumberMessage>,
        entry: &NumberEntry,
    ) {
        if matches!(undelivered.placement, Placement::Live(_)) {
            return;
        }
        let waiting = std::mem::take(&mut *entry.waiting.lock());
        waiting.into_iter().for_each(|message| self.refuse(message));
        let has_died = !matches!(undelivered.placement, Placement::Idle);
        // The queue was lost with the actor.
        if has_died && let Some(sink) = self.reporter.sink() {
            sink.queue_lost(workspace, number);
        }
    }
}

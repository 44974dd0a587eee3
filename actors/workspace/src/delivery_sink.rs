//! The destination of outcomes: each goes to its broadcast or workspace.

use postrider_broadcast::FanoutMessage;
use postrider_channel::outcome::FinalOutcome;
use postrider_channel::{Failure, Origin, Outbound};
use postrider_domain::{BroadcastId, NumberId, UnavailableReason, WorkspaceId};
use postrider_number::{Claims, NumberNotice, OutcomeSink, Outcomes};

use crate::Workspace;
use crate::mailbox::message::WorkspaceMessage;
use crate::numbers::notices::RecordNotice;
use crate::services::Services;

/// The maximum number of tries to record a number's notice, while a workspace cannot accept it.
const NOTICE_TRIES: u32 = 100;

/// Delivers the numbers' outcomes to their workspaces. It is weak, because the workspaces own the
/// numbers.
pub struct DeliverySink(pub std::sync::Weak<Services>);

impl OutcomeSink for DeliverySink {
    fn settled(&self, workspace: &WorkspaceId, mut outcomes: Outcomes) {
        let Some(shared) = self.0.upgrade() else { return };
        let (broadcasts, settled) = by_origin(std::mem::take(&mut outcomes.settled));
        shared.broadcasts.settled(broadcasts);
        if settled.is_empty() {
            return;
        }
        if let Some(actor) = shared.workspaces.slot(workspace).and_then(|slot| slot.live()) {
            let outcomes = Outcomes { settled, ..outcomes };
            // A workspace that has just died gets them again when it asks for missing outcomes.
            drop(actor.cast(WorkspaceMessage::Settled(outcomes)));
        }
    }

    fn claims(&self, workspace: &WorkspaceId, claims: Claims) {
        let Some(shared) = self.0.upgrade() else { return };
        if let Some(actor) = shared.workspaces.slot(workspace).and_then(|slot| slot.live()) {
            // The number repeats its request to a workspace that has just died.
            drop(actor.cast(WorkspaceMessage::Claims(claims)));
        }
    }

    fn notice(&self, workspace: &WorkspaceId, number: NumberId, notice: NumberNotice) {
        let Some(shared) = self.0.upgrade() else { return };
        let Some(slot) = shared.workspaces.slot(workspace) else { return };
        let workspace = Workspace::new(shared, slot);
        drop(tokio::spawn(async move {
            let command = RecordNotice { number, notice };
            for _ in 0..NOTICE_TRIES {
                match workspace.perform(command.clone()).await {
                    Err(why) if why.reason != UnavailableReason::Draining => {
                        tokio::time::sleep(why.retry_after).await;
                    }
                    _ => return,
                }
            }
            let notice = command.notice.name();
            tracing::error!(%number, notice, "a notice of a number could not be written");
        }));
    }

    fn withdrawn(&self, places: Vec<(BroadcastId, u32)>) {
        if let Some(shared) = self.0.upgrade() {
            shared.broadcasts.withdrawn(places);
        }
    }

    fn handed_back(&self, workspace: &WorkspaceId, messages: Vec<Outbound>) {
        let Some(shared) = self.0.upgrade() else { return };
        // A workspace without an actor dispatches all messages when it has one again.
        shared.workspaces.cast_live(workspace, WorkspaceMessage::HandedBack(messages));
    }

    fn stopped(&self, number: NumberId, failure: &Failure) {
        if let Some(shared) = self.0.upgrade() {
            let stopped = || FanoutMessage::NumberStopped(number, failure.clone());
            shared.broadcasts.cast_all_live(stopped);
        }
    }

    fn queue_lost(&self, workspace: Option<&WorkspaceId>, number: NumberId) {
        let Some(shared) = self.0.upgrade() else { return };
        shared.broadcasts.cast_all_live(|| FanoutMessage::QueueLost(number));
        match workspace {
            Some(workspace) => {
                // A workspace without an actor dispatches all messages when it has one again.
                shared.workspaces.cast_live(workspace, WorkspaceMessage::Redispatch);
            }
            None => shared.workspaces.cast_all_live(|| WorkspaceMessage::Redispatch),
        }
    }
}

/// An outcome of a broadcast's message: broadcast, recipient, outcome.
type BroadcastOutcome = (BroadcastId, u32, FinalOutcome);

/// Splits outcomes into those of broadcasts and those of codes and single messages.
fn by_origin(
    outcomes: Vec<(Origin, FinalOutcome)>,
) -> (Vec<BroadcastOutcome>, Vec<(Origin, FinalOutcome)>) {
    if !outcomes.iter().any(|(origin, _)| matches!(origin, Origin::Broadcast { .. })) {
        return (Vec::new(), outcomes);
    }
    let (mut broadcasts, mut others) = (Vec::new(), Vec::new());
    for (origin, settled) in outcomes {
        match origin {
            Origin::Broadcast { broadcast, index } => broadcasts.push((broadcast, index, settled)),
            Origin::Otp { .. } | Origin::Message(_) => others.push((origin, settled)),
        }
    }
    (broadcasts, others)
}

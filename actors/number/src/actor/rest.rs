//! Passivates an idle number's actor, and passes later messages to its successor.

use std::sync::atomic::Ordering;

use postrider_domain::Timestamp;
use ractor::ActorRef;

use super::NumberActor;
use super::state::State;
use crate::entry::REST_AFTER;
use crate::message::NumberMessage;

/// Publishes the time since which the number has been idle.
pub(super) fn note_rest(actor: &NumberActor, state: &mut State) {
    let since = match (state.has_nothing_to_do(), state.idle_since) {
        (false, _) => None,
        (true, None) => Some(actor.clock.now()),
        (true, since) => since,
    };
    if since != state.idle_since {
        state.idle_since = since;
        let since = since.map_or(0, Timestamp::as_millis);
        actor.slot.idle_since_ms.store(since, Ordering::Release);
    }
}

/// Passivates the actor if it is still idle. It stops once it has passed on the messages that were
/// in its mailbox.
pub(super) fn rest(actor: &NumberActor, myself: &ActorRef<NumberMessage>, state: &mut State) {
    let now = actor.clock.now();
    let long = state.idle_since.is_some_and(|since| since.plus(REST_AFTER) <= now);
    if !long || !actor.slot.rest_if(|entry| entry.waiting.lock().is_empty()) {
        return;
    }
    state.resting = true;
    actor.slot.idle_since_ms.store(0, Ordering::Release);
    actor.slot.capacity.set(0);
    // Each message that was cast while the actor was live precedes this one in the mailbox.
    drop(myself.cast(NumberMessage::Rested));
}

/// Handles a message to an actor that has passivated itself. Work goes to the successor.
pub(super) fn pass_on(
    actor: &NumberActor,
    myself: &ActorRef<NumberMessage>,
    message: NumberMessage,
) {
    match message {
        NumberMessage::Rested | NumberMessage::Close => myself.stop(None),
        // The engine stops, and the channel has no message. The asker may not wait any more.
        NumberMessage::Drain(done) => drop(done.send(())),
        message @ (NumberMessage::Dispatch(_)
        | NumberMessage::Recover(_)
        | NumberMessage::ReportUnknown(_)
        | NumberMessage::Fault(_)
        | NumberMessage::Withdraw(_)
        | NumberMessage::WithdrawCode(_)) => (actor.to_successor)(message),
        // Nothing was claimed or reported, and the channel has no message. A successor reads its
        // connection when it starts.
        NumberMessage::Acked(_)
        | NumberMessage::Granted(_)
        | NumberMessage::Done(..)
        | NumberMessage::Wake(_)
        | NumberMessage::Reconnected
        | NumberMessage::Figures(_)
        | NumberMessage::HandBack(_)
        | NumberMessage::Rest
        | NumberMessage::Released => {}
    }
}

impl State {
    /// Returns whether a new actor would lose nothing. It would not if no message waits, is with
    /// the channel or has to be reported, and the number is not stopped.
    fn has_nothing_to_do(&self) -> bool {
        self.unanswered() == 0
            && self.recipients.next().is_none()
            && self.reservations.is_empty()
            && self.released.is_empty()
            && self.unacked.is_empty()
            && self.outcomes.is_empty()
            && self.learned.is_empty()
            && self.handed_back.is_empty()
            && self.breaker.open_until().is_none()
            && self.draining.is_none()
            && !self.closed
    }
}

//! A number that has nothing to do passivates itself, and a successor takes what comes later.

use std::sync::atomic::Ordering;

use postrider_domain::Timestamp;
use ractor::ActorRef;

use super::NumberActor;
use super::state::State;
use crate::entry::REST_AFTER;
use crate::message::NumberMessage;

/// Publishes since when the number has had nothing to do.
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

/// Passivates the actor, if it still has nothing to do. It stops once it has passed on what was in
/// its mailbox by then.
pub(super) fn rest(actor: &NumberActor, myself: &ActorRef<NumberMessage>, state: &mut State) {
    let now = actor.clock.now();
    let long = state.idle_since.is_some_and(|since| since.plus(REST_AFTER) <= now);
    if !long || !actor.slot.rest_if(|entry| entry.waiting.lock().is_empty()) {
        return;
    }
    state.resting = true;
    actor.slot.idle_since_ms.store(0, Ordering::Release);
    actor.slot.capacity.set(0);
    // Whatever was cast while the actor was live stands before this in the mailbox.
    drop(myself.cast(NumberMessage::Rested));
}

/// Handles a message of an actor that has passivated itself: what has to be done goes to the
/// successor.
pub(super) fn pass_on(
    actor: &NumberActor,
    myself: &ActorRef<NumberMessage>,
    message: NumberMessage,
) {
    match message {
        NumberMessage::Rested | NumberMessage::Close => myself.stop(None),
        // The engine stops, and nothing is with the channel. The asker may not wait any more.
        NumberMessage::Drain(done) => drop(done.send(())),
        message @ (NumberMessage::Dispatch(_)
        | NumberMessage::Recover(_)
        | NumberMessage::ReportUnknown(_)
        | NumberMessage::Fault(_)
        | NumberMessage::Withdraw(_)
        | NumberMessage::WithdrawCode(_)) => (actor.to_successor)(message),
        // Nothing was claimed, reported or with the channel, and a successor reads its connection
        // when it starts.
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
    /// Whether a new actor would know as much: nothing waits, is with the channel or has to be
    /// reported, and nothing stops the number. One that is stopped must remember that.
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

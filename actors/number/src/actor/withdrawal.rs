//! Takes waiting messages out of a number: they return, end, or go to another number.

use std::cell::Cell;

use postrider_channel::outcome::FinalOutcome;
use postrider_channel::{Content, Failure, Origin};
use postrider_domain::{BroadcastId, RenderedContent, RequestId};

use super::NumberActor;
use super::state::State;
use crate::message::Wanted;
use crate::queue::SendAttempt;

/// The maximum number of messages that are returned at once. Messages that come back wait behind
/// the others, so that all have their turn.
const RETURNED_MAX: usize = 1000;

impl NumberActor {
    /// Takes a broadcast's messages out of every queue and returns them, in order.
    pub(super) fn withdraw(&self, broadcast: BroadcastId, state: &mut State) {
        let is_its = |attempt: &SendAttempt| {
            attempt.broadcast_recipient().is_some_and(|(other, _)| other == broadcast)
        };
        let mut out = state.recipients.take(&is_its);
        out.extend(state.queue.take_bulk(&is_its));
        let delayed = state.delayed.extract_if(.., |_, attempt| is_its(attempt));
        out.extend(delayed.map(|(_, attempt)| attempt));
        out.sort_unstable_by_key(|attempt| attempt.sequence);
        self.return_to_broadcasts(out, state);
    }

    /// Takes the waiting messages of a request for a code out of every queue, and finishes them.
    pub(super) fn withdraw_code(&self, request: RequestId, state: &mut State) {
        let is_its = |attempt: &SendAttempt| matches!(attempt.message.origin, Origin::Otp { request_id, .. } if request_id == request);
        let mut out = state.recipients.take(&is_its);
        out.extend(state.queue.take_first(&is_its));
        let delayed = state.delayed.extract_if(.., |_, attempt| is_its(attempt));
        out.extend(delayed.map(|(_, attempt)| attempt));
        for mut attempt in out {
            state.cancel_trial(&mut attempt);
            self.finish(&attempt, FinalOutcome::NotSentInTime, state);
        }
    }

    /// Fails all waiting messages of a disconnected number, and returns messages of broadcasts.
    pub(super) fn fail_everything(&self, state: &mut State) {
        let delayed = std::mem::take(&mut state.delayed).into_values();
        let delayed = delayed.chain(state.claim_queue.drain());
        let waiting = state.queue.drain().chain(delayed).chain(state.recipients.drain());
        let waiting = waiting.collect();
        for attempt in self.return_to_broadcasts(waiting, state) {
            self.finish(&attempt, FinalOutcome::Failed(Failure::permanent(None)), state);
        }
    }

    /// Returns messages of broadcasts that the channel certainly did not accept to them. Returns
    /// the messages that belong to no broadcast.
    fn return_to_broadcasts(
        &self,
        attempts: Vec<SendAttempt>,
        state: &mut State,
    ) -> Vec<SendAttempt> {
        let (mut others, mut returned) = (Vec::new(), Vec::new());
        for attempt in attempts {
            let Some(recipient) = attempt.broadcast_recipient() else {
                others.push(attempt);
                continue;
            };
            returned.push(recipient);
            state.ledger.remove(&attempt.message);
            state.requeue_released_by(&attempt);
        }
        self.reporter.withdrawn(returned);
        others
    }

    /// Reports the returned messages, after the claims that ended with their return.
    pub(super) fn report_handed_back(&self, state: &mut State) {
        let messages = std::mem::take(&mut state.handed_back);
        if let (false, Some(sink)) = (messages.is_empty(), self.reporter.sink()) {
            sink.handed_back(&self.workspace, messages);
        }
    }
}

/// Takes the wanted waiting messages of a number that is down out of every queue, at most
/// [`RETURNED_MAX`], so that another number can send them. A number that sends keeps its own.
pub(super) fn hand_back(wanted: Wanted, state: &mut State) {
    if state.breaker.open_until().is_none() {
        return;
    }
    let is_wanted = first_of(RETURNED_MAX, |attempt| may_leave(attempt, wanted));
    let mut out = state.recipients.take(&is_wanted);
    out.extend(state.queue.take_first(&is_wanted));
    let delayed = state.delayed.extract_if(.., |_, attempt| is_wanted(attempt));
    out.extend(delayed.map(|(_, attempt)| attempt));
    out.sort_unstable_by_key(|attempt| attempt.sequence);
    for mut attempt in out {
        state.cancel_trial(&mut attempt);
        state.release(&mut attempt);
        state.requeue_released_by(&attempt);
        state.ledger.remove(&attempt.message);
        state.handed_back.push(attempt.message);
    }
}

/// Returns a predicate that holds for the first `max` attempts for which `wanted` holds.
fn first_of(max: usize, wanted: impl Fn(&SendAttempt) -> bool) -> impl Fn(&SendAttempt) -> bool {
    let room = Cell::new(max);
    move |attempt| {
        let is_wanted = room.get() > 0 && wanted(attempt);
        room.set(room.get() - usize::from(is_wanted));
        is_wanted
    }
}

/// Returns whether another number may send the message. Free text and replies belong to the number
/// through which they answer. A message whose sender named a number waits here, because it would
/// only come back.
fn may_leave(attempt: &SendAttempt, wanted: Wanted) -> bool {
    if attempt.message.pinned {
        return false;
    }
    match (&attempt.message.origin, &attempt.message.content) {
        (Origin::Otp { .. }, _) => wanted.codes,
        (Origin::Message(_), Content::Message(content)) => {
            let is_template = matches!(**content, RenderedContent::Template(_));
            wanted.templates && is_template && attempt.message.answers.is_none()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use postrider_channel::{Outbound, TemplateContent, TemplateName};
    use postrider_domain::RequestId;
    use postrider_domain::template::TemplateCategory;

    use super::*;
    use crate::queue::SendQueue;
    use crate::queue::tests::message;

    #[test]
    fn what_is_made_for_one_number_waits_there() {
        let template = TemplateName { name: "welcome".into(), language: "en".into() };
        let content = TemplateContent {
            template,
            components: "[]".into(),
            text: "Welcome!".into(),
            category: TemplateCategory::Utility,
        };
        let content = Arc::new(RenderedContent::Template(content));
        let of = |pinned| {
            let content = Content::Message(Arc::clone(&content));
            let mut queue = SendQueue::default();
            queue.push(Outbound { content, pinned, ..message(1, 9) }, false);
            let attempt = queue.pop().unwrap();
            [true, false].map(|templates| may_leave(&attempt, Wanted { codes: true, templates }))
        };
        assert_eq!([of(false), of(true)], [[true, false], [false, false]]);
        // A code leaves its number only for one that can send it.
        let mut queue = SendQueue::default();
        let origin = Origin::Otp { request_id: RequestId::from_bytes([1; 16]), number: 1 };
        queue.push(Outbound { origin, ..message(1, 9) }, false);
        let code = queue.pop().unwrap();
        let wanted = |codes| may_leave(&code, Wanted { codes, templates: true });
        assert_eq!([true, false].map(wanted), [true, false]);
    }

    #[test]
    fn so_many_are_returned_at_once_and_those_that_come_back_are_behind() {
        let mut queue = SendQueue::default();
        (1..=5).for_each(|phone| queue.push(message(phone, 9), false));
        let mut returned = |wanted: fn(&SendAttempt) -> bool| {
            let out = queue.take_first(&first_of(2, wanted));
            let sequences: Vec<_> = out.iter().map(|attempt| attempt.sequence).collect();
            out.into_iter().for_each(|attempt| queue.push(attempt.message, false));
            sequences
        };
        assert_eq!(returned(|attempt| attempt.sequence != 2), [1, 3]);
        assert_eq!(returned(|attempt| attempt.sequence != 2), [4, 5]);
        assert_eq!(returned(|_| true), [2, 6]);
    }
}

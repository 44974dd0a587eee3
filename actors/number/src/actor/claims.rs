//! A single message is sent only after its workspace has made a claim to it durable.
//!
//! A claim says that the message may have been sent. After a crash the outcome of claimed messages
//! is unknown, and all others are sent.

use ractor::ActorRef;

use postrider_channel::outcome::FinalOutcome;
use postrider_domain::Timestamp;
use postrider_runtime::flow::Passage;

use super::NumberActor;
use super::state::State;
use crate::message::NumberMessage;
use crate::ports::Claims;

/// The maximum number of claims that end in one commit of the workspace.
const RELEASED_MAX: usize = 1000;

impl NumberActor {
    /// Sends the claimed messages. They are queued again if the channel has paused or failed
    /// meanwhile, or nothing may leave the engine now.
    pub(super) fn send_claimed(
        &self,
        myself: &ActorRef<NumberMessage>,
        now: Timestamp,
        state: &mut State,
    ) {
        while let Some(mut attempt) = state.claim_queue.pop() {
            if attempt.message.give_up_at <= now {
                state.cancel_trial(&mut attempt);
                self.finish(&attempt, FinalOutcome::NotSentInTime, state);
                continue;
            }
            let paused = state.paused_until(now).is_some();
            let closed = !attempt.trial && state.breaker.passage(now) != Passage::Open;
            if paused || closed || !self.hold.lets_out() {
                state.cancel_trial(&mut attempt);
                state.requeue(attempt);
                continue;
            }
            if let Some(attempt) = state.hold_if_recipient_waits(attempt) {
                self.send(myself, attempt, state);
            }
        }
    }

    /// Requests claims from the workspace, and reports the claims that have ended.
    pub(super) fn report_claims(&self, state: &mut State) {
        let requested = state.claim_queue.request(self.clock.now());
        let mut released = std::mem::take(&mut state.released);
        let Some(sink) = self.reporter.sink() else { return };
        let report = |released, asked| {
            sink.claims(&self.workspace, Claims { number: self.number, released, asked });
        };
        while released.len() > RELEASED_MAX {
            report(released.split_off(released.len() - RELEASED_MAX), None);
        }
        if requested.is_some() || !released.is_empty() {
            report(released, requested);
        }
    }
}

//! A single message is handed over when its workspace has durably noted that it may have been.

use hashbrown::HashSet;
use ractor::ActorRef;

use postrider_channel::Outbound;
use postrider_channel::outcome::FinalOutcome;
use postrider_domain::Timestamp;

use super::actor::{NumberActor, NumberMessage, State};
use super::queue::Attempt;
use super::{Claims, Granted};
use postrider_runtime::flow::Passage;

/// Most claims that are given up in one commit of the workspace.
const RELEASED_MAX: usize = 1000;

impl State {
    /// The message was surely not taken: it can be handed over again, after a crash too.
    pub(super) fn release(&mut self, attempt: &mut Attempt) {
        self.released.extend(attempt.release());
    }

    /// What waits after all is not claimed: a crash while it waits leaves it to be sent.
    pub(super) fn release_waiting(&mut self) {
        self.released.extend(self.lanes.claimed().filter_map(Attempt::release));
    }

    /// Of messages that the workspace takes for claimed, those that wait are not: it has missed that.
    pub(super) fn release_again(&mut self, claimed: &[Outbound]) {
        let claimed: HashSet<_> = claimed.iter().map(|message| message.origin).collect();
        let waiting = self.lanes.iter().chain(self.delayed.values()).chain(self.recipients.iter());
        for attempt in waiting.filter(|attempt| claimed.contains(&attempt.message.origin)) {
            self.released.extend(attempt.must_claim());
        }
    }

    /// Puts everything back that was about to be handed over.
    pub(super) fn unstage(&mut self) {
        for mut attempt in self.staged.drain().collect::<Vec<_>>() {
            // It may have been asked for, and granted meanwhile.
            attempt.claimed = true;
            self.release(&mut attempt);
            if std::mem::take(&mut attempt.trial) {
                self.breaker.undecided(true);
            }
            self.expect_end(attempt.message.give_up_at);
            self.lanes.put_back(attempt);
        }
    }

    /// The workspace has answered what was asked.
    pub(super) fn granted(&mut self, granted: &Granted) {
        for dropped in self.staged.granted(granted) {
            // A report has settled it.
            if dropped.trial {
                self.breaker.undecided(true);
            }
            for released in self.recipients.settled(dropped.message.to, dropped.sequence) {
                self.lanes.put_back(released);
            }
        }
    }
}

impl NumberActor {
    /// Hands over what was claimed, unless something has come up meanwhile.
    pub(super) fn send_staged(
        &self,
        myself: &ActorRef<NumberMessage>,
        now: Timestamp,
        state: &mut State,
    ) {
        while let Some(mut attempt) = state.staged.pop() {
            if attempt.message.give_up_at <= now {
                if attempt.trial {
                    state.breaker.undecided(true);
                }
                self.conclude(&attempt, FinalOutcome::NotSentInTime, state);
                continue;
            }
            let paused = self.paused(now, state).is_some();
            let closed = !attempt.trial && state.breaker.passage(now) != Passage::Open;
            if paused || closed {
                if std::mem::take(&mut attempt.trial) {
                    state.breaker.undecided(true);
                }
                self.put_back(attempt, state);
                continue;
            }
            if let Some(attempt) = self.hold(attempt, state) {
                self.send(myself, attempt, state);
            }
        }
    }

    /// Tells the workspace what is claimed, and what is not any more.
    pub(super) fn tell_claims(&self, state: &mut State) {
        let asked = state.staged.ask(self.clock.now());
        let mut released = std::mem::take(&mut state.released);
        let Some(wiring) = self.numbers.wiring.get() else { return };
        let tell = |released, asked| {
            let claims = Claims { number: self.number, released, asked };
            wiring.sink.claims(&self.workspace, claims);
        };
        while released.len() > RELEASED_MAX {
            tell(released.split_off(released.len() - RELEASED_MAX), None);
        }
        if asked.is_some() || !released.is_empty() {
            tell(released, asked);
        }
    }
}

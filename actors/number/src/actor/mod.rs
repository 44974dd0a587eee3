//! A number's actor turns messages into calls of the channel, and outcomes into reports.
//!
//! An idle actor passivates itself, and passes later messages to its successor.

mod reporting;
mod sending;
mod state;
mod withdrawal;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use postrider_channel::outcome::FinalOutcome;
use postrider_channel::{AttemptOutcome, Origin, Outbound};
use postrider_domain::{NumberId, Timestamp, WorkspaceId};
use postrider_runtime::clock::{Clock, Stopwatch};
use postrider_runtime::flow::Rate;
use postrider_runtime::hold::Hold;
use postrider_runtime::trace::Traces;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::directory_entry::{NumberSlot, REST_AFTER};
use crate::figures::OutcomeCounts;
use crate::message::NumberMessage;
use crate::ports::{NumberNotice, OutcomeReporter, Outcomes};
use crate::providers::{Connected, NumberConnections};
use crate::queue::SendAttempt;

use state::State;

/// The actor of one number. Its mutable state is in [`State`].
pub(crate) struct NumberActor {
    pub(crate) number: NumberId,
    pub(crate) slot: Arc<NumberSlot>,
    /// The number's workspace.
    pub(crate) workspace: WorkspaceId,
    pub(crate) clock: Clock,
    pub(crate) hold: Hold,
    pub(crate) traces: Traces,
    pub(crate) connections: Arc<NumberConnections>,
    pub(crate) reporter: Arc<OutcomeReporter>,
    pub(crate) outcomes: Arc<OutcomeCounts>,
    /// Passes on a message that has reached an actor which passivates itself.
    pub(crate) to_successor: Box<dyn Fn(NumberMessage) + Send + Sync>,
}

impl Actor for NumberActor {
    type Msg = NumberMessage;
    type State = State;
    /// The connection that it sends through at first.
    type Arguments = Arc<Connected>;

    async fn pre_start(
        &self,
        _myself: ActorRef<Self::Msg>,
        connected: Arc<Connected>,
    ) -> Result<State, ActorProcessingErr> {
        Ok(State::new(connected))
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        if state.resting {
            self.pass_to_successor(&myself, message);
            return Ok(());
        }
        let asked_to_rest = matches!(message, NumberMessage::Rest);
        self.handle_message(message, state);
        if state.closed {
            self.fail_everything(state);
        }
        self.send_ready(&myself, state);
        self.report_outcomes(state);
        self.report_recipients(state);
        self.report_handed_back(state);
        if state.closed && state.in_flight.is_empty() {
            myself.stop(None);
        }
        if state.in_flight.is_empty()
            && let Some(done) = state.draining.take()
        {
            // The asker may have stopped waiting, and then needs no answer.
            done.send(()).ok();
            myself.stop(None);
        }
        self.publish_idle_time(state);
        if asked_to_rest {
            self.passivate(&myself, state);
        }
        Ok(())
    }
}

impl NumberActor {
    fn handle_message(&self, message: NumberMessage, state: &mut State) {
        match message {
            NumberMessage::Dispatch(messages) => {
                messages.into_iter().for_each(|message| state.push(message));
            }
            NumberMessage::Recover(messages) => {
                let has = state.origins();
                state.claim_queue.dispatched_again(messages.iter());
                let missing = messages.into_iter().filter(|message| !has.contains(&message.origin));
                missing.for_each(|message| state.push(message.into()));
                self.workspace_restarted(state);
            }
            NumberMessage::ReportUnknown(messages) => {
                let has = state.origins();
                state.release_again(&messages);
                let missing = messages.into_iter().filter(|message| !has.contains(&message.origin));
                self.workspace_restarted(state);
                missing.for_each(|it| self.collect_outcome(&it, FinalOutcome::Unknown, state));
            }
            NumberMessage::Acked(ticket) => state.unacked.acked(ticket),
            NumberMessage::Granted(granted) => state.granted(&granted),
            NumberMessage::Done(attempt, watch, outcome) => {
                self.call_returned(*attempt, &watch, outcome, state);
            }
            NumberMessage::Wake(generation) => {
                state.timer.woken(generation);
            }
            NumberMessage::Fault(failure) => self.fault(failure, false, state),
            NumberMessage::Reconnected => self.reconnected(state),
            NumberMessage::Withdraw(broadcast) => self.withdraw(broadcast, state),
            NumberMessage::HandBack(wanted) => withdrawal::hand_back(wanted, state),
            // The asker may not wait any more.
            NumberMessage::Figures(reply) => drop(reply.send(state.figures(self.clock.now()))),
            NumberMessage::WithdrawCode(request) => self.withdraw_code(request, state),
            // The code after the match handles these.
            NumberMessage::Rest | NumberMessage::Rested | NumberMessage::Released => {}
            NumberMessage::Close => state.closed = true,
            NumberMessage::Drain(done) => {
                state.draining = Some(done);
                state.requeue_claiming();
            }
        }
    }

    /// Uses the number's new connection from now on, and tries a new channel at once.
    fn reconnected(&self, state: &mut State) {
        // A number without a connection was disconnected: `Close` comes next.
        let Some(connected) = self.connections.get(self.number) else { return };
        if Arc::ptr_eq(&connected, &state.connected) {
            return;
        }
        if connected.messages_per_second != state.connected.messages_per_second {
            // Sent messages stay counted, so a rate that goes up and down allows no additional
            // messages.
            state.rate_limit.set_rate(Rate::bursty(connected.messages_per_second));
        }
        let is_same = Arc::ptr_eq(&connected.channel, &state.connected.channel);
        state.connected = connected;
        if !is_same {
            state.connection += 1;
            state.breaker.try_at_once(self.clock.now());
        }
    }

    /// Handles the outcome of a call that took time.
    fn call_returned(
        &self,
        attempt: SendAttempt,
        watch: &Stopwatch,
        outcome: AttemptOutcome,
        state: &mut State,
    ) {
        let in_flight = state.in_flight_or_claiming();
        let of = attempt.message.origin;
        if let Some(place) = state.in_flight.iter().position(|origin| *origin == of) {
            state.in_flight.swap_remove(place);
        }
        match outcome {
            AttemptOutcome::Unknown => state.concurrency.throttled(),
            AttemptOutcome::Sent | AttemptOutcome::SentAs(_) | AttemptOutcome::Failed(_) => {
                state.concurrency.answered(watch.elapsed(), in_flight);
            }
            // `handle_outcome` lowers the limit for a throttle; a retry says nothing about it.
            AttemptOutcome::Throttled { .. } | AttemptOutcome::Retry { .. } => {}
        }
        self.handle_outcome(attempt, outcome, state);
    }

    /// Repeats requests and outcomes after the workspace's restart. The workspace has lost the ones
    /// that it had not made durable.
    fn workspace_restarted(&self, state: &mut State) {
        state.claim_queue.request_again();
        for (ticket, outcomes) in state.unacked.all() {
            self.report(outcomes, Some(ticket), &self.workspace);
        }
    }

    /// Gives a message its final outcome.
    fn finish(&self, attempt: &SendAttempt, settled: FinalOutcome, state: &mut State) {
        state.requeue_released_by(attempt);
        state.ledger.remove(&attempt.message);
        self.collect_outcome(&attempt.message, settled, state);
    }

    /// Adds an outcome to the next report.
    fn collect_outcome(&self, message: &Outbound, settled: FinalOutcome, state: &mut State) {
        if state.outcomes_of.as_ref() != Some(&message.workspace) {
            self.report_outcomes(state);
            state.outcomes_of = Some(message.workspace.clone());
        }
        state.outcomes.push((message.origin, settled));
    }

    /// Reports the collected outcomes to their workspace.
    fn report_outcomes(&self, state: &mut State) {
        /// The maximum number of outcomes in a report, so that their events fit in a journal frame.
        const OUTCOMES_MAX: usize = 1000;
        if let Some(workspace) = &state.outcomes_of {
            while !state.outcomes.is_empty() {
                let rest = state.outcomes.split_off(state.outcomes.len().min(OUTCOMES_MAX));
                let outcomes = std::mem::replace(&mut state.outcomes, rest);
                // Counted here and not in `report`, which repeats unacknowledged outcomes.
                self.outcomes.count(&outcomes);
                let ticket = state.unacked.track(&outcomes);
                self.report(outcomes, ticket, workspace);
            }
        }
    }

    /// Reports to the workspace what the outcomes revealed about recipients.
    fn report_recipients(&self, state: &mut State) {
        /// The maximum number of recipients in one notice: the workspace commits each notice at
        /// once.
        const RECIPIENTS_MAX: usize = 100;
        for recipients in std::mem::take(&mut state.learned).chunks(RECIPIENTS_MAX) {
            self.notify(NumberNotice::Recipients(recipients.to_vec()));
        }
    }

    fn notify(&self, notice: NumberNotice) {
        if let Some(sink) = self.reporter.sink() {
            sink.notice(&self.workspace, self.number, notice);
        }
    }

    fn report(
        &self,
        settled: Vec<(Origin, FinalOutcome)>,
        ticket: Option<u64>,
        workspace: &WorkspaceId,
    ) {
        if let Some(sink) = self.reporter.sink() {
            let outcomes = Outcomes { number: self.number, settled, ack_to: ticket };
            sink.settled(workspace, outcomes);
        }
    }

    /// Publishes the time since which the number has been idle.
    fn publish_idle_time(&self, state: &mut State) {
        let since = match (state.has_nothing_to_do(), state.idle_since) {
            (false, _) => None,
            (true, None) => Some(self.clock.now()),
            (true, since) => since,
        };
        if since != state.idle_since {
            state.idle_since = since;
            let since = since.map_or(0, Timestamp::as_millis);
            self.slot.idle_since_ms.store(since, Ordering::Release);
        }
    }

    /// Passivates the actor if it is still idle. It stops once it has passed on the messages that
    /// were in its mailbox.
    fn passivate(&self, myself: &ActorRef<NumberMessage>, state: &mut State) {
        let now = self.clock.now();
        let long = state.idle_since.is_some_and(|since| since.plus(REST_AFTER) <= now);
        if !long || !self.slot.rest_if(|entry| entry.waiting.lock().is_empty()) {
            return;
        }
        state.resting = true;
        self.slot.idle_since_ms.store(0, Ordering::Release);
        self.slot.capacity.set(0);
        // Each message that was cast while the actor was live precedes this one in the mailbox.
        drop(myself.cast(NumberMessage::Rested));
    }

    /// Handles a message to an actor that has passivated itself. Work goes to the successor.
    fn pass_to_successor(&self, myself: &ActorRef<NumberMessage>, message: NumberMessage) {
        match message {
            NumberMessage::Rested | NumberMessage::Close => myself.stop(None),
            // The engine stops, and the channel has no message. The asker may not wait any more.
            NumberMessage::Drain(done) => drop(done.send(())),
            message @ (NumberMessage::Dispatch(_)
            | NumberMessage::Recover(_)
            | NumberMessage::ReportUnknown(_)
            | NumberMessage::Fault(_)
            | NumberMessage::Withdraw(_)
            | NumberMessage::WithdrawCode(_)) => (self.to_successor)(message),
            // Nothing was claimed or reported, and the channel has no message. A successor reads
            // its connection when it starts.
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
}

//! A number's actor.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashSet;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use postrider_channel::outcome::FinalOutcome;
use postrider_channel::{AttemptOutcome, Failure, Origin, Outbound};
use postrider_domain::{BroadcastId, MessageId, Timestamp, WorkspaceId};
use postrider_runtime::clock::Clock;
use postrider_runtime::flow::{CircuitBreaker, GradientLimit, Rate, TokenBucket};
use postrider_runtime::timer::Timer;

use super::capacity::{HandedOver, Reservation};
use super::claim_queue::ClaimQueue;
use super::notices::{NumberNotice, Recipient, ToldNames};
use super::providers::Connected;
use super::queue::{Attempt, SendQueue};
use super::recipient_backoff::Recipients;
use super::throttle::Pause;
use super::unacked::Unacked;
use crate::ports::{Granted, Outcomes};
use crate::{NumberSlot, Numbers};

/// What a number's actor is told.
#[derive(Debug)]
pub enum NumberMessage {
    /// Send these. Each gets one final answer, through [`super::OutcomeSink`], unless the actor dies.
    Dispatch(Vec<HandedOver>),
    /// The same, except for what it already has a message of.
    Recover(Vec<Outbound>),
    /// These were claimed: what it does not have may have been sent by a predecessor, or was
    /// answered for in vain.
    ReportUnknown(Vec<Outbound>),
    /// The workspace has durably noted the answers of this ticket.
    Acked(u64),
    /// The workspace has durably noted claims.
    Granted(Granted),
    /// A message that took time has its outcome.
    Done(Box<Attempt>, AttemptOutcome),
    /// The wait of this generation is over.
    Wake(u64),
    /// The provider has reported that the account cannot send.
    Fault(Failure),
    /// What the number sends through may have changed.
    Reconnected,
    /// The broadcast is held or over: what the channel does not have of it is handed back.
    Withdraw(BroadcastId),
    /// The number was disconnected: everything that is not with the channel fails.
    Close,
    /// Start nothing more; answered when nothing is with the channel.
    Drain(oneshot::Sender<()>),
}

pub struct NumberActor {
    pub(super) number: postrider_domain::NumberId,
    pub(super) slot: Arc<NumberSlot>,
    pub(super) workspace: WorkspaceId,
    pub(super) clock: Clock,
    pub(super) numbers: Arc<Numbers>,
}

pub struct State {
    /// What it sends through.
    pub(super) connected: Arc<Connected>,
    /// How often that has changed.
    pub(super) era: u32,
    /// To be sent. Every one is a pending request of a workspace, and those are bounded.
    pub(super) lanes: SendQueue,
    /// To be tried again from a moment on, by that and their place in the order.
    pub(super) delayed: BTreeMap<(Timestamp, u64), Attempt>,
    /// Those whose recipient waits.
    pub(super) recipients: Recipients,
    /// Those that are about to be handed over.
    pub(super) staged: ClaimQueue,
    /// Held by what has come and is not reckoned with yet.
    pub(super) places: Vec<Reservation>,
    /// Claims that the workspace is to be told the end of.
    pub(super) released: Vec<MessageId>,
    /// Outcomes that the workspace has not noted.
    unacked: Unacked,
    /// What the messages that are with the channel belong to, once for each message.
    pub(super) in_flight: Vec<Origin>,
    pub(super) breaker: CircuitBreaker,
    /// Whether the log says that the channel fails.
    pub(super) told_failing: bool,
    pub(super) pacer: TokenBucket,
    pub(super) window: GradientLimit,
    /// Throttles of this number alone.
    pub(super) pause: Pause,
    /// When the first of the waiting messages may not be worth sending any more.
    pub(super) expiry: Option<Timestamp>,
    pub(super) timer: Timer,
    /// Outcomes not handed back yet.
    answers: Vec<(Origin, FinalOutcome)>,
    /// What the answers told of recipients.
    pub(super) recipients_told: Vec<Recipient>,
    pub(super) told_names: ToldNames,
    /// Whose the answers are.
    workspace: Option<WorkspaceId>,
    pub(super) draining: Option<oneshot::Sender<()>>,
    closed: bool,
}

impl State {
    fn new(connected: Arc<Connected>) -> Self {
        Self {
            era: 0,
            pacer: TokenBucket::new(Rate::bursty(connected.messages_per_second)),
            connected,
            lanes: SendQueue::default(),
            delayed: BTreeMap::new(),
            recipients: Recipients::default(),
            staged: ClaimQueue::default(),
            places: Vec::new(),
            released: Vec::new(),
            unacked: Unacked::default(),
            in_flight: Vec::new(),
            breaker: CircuitBreaker::default(),
            told_failing: false,
            window: GradientLimit::default(),
            pause: Pause::default(),
            expiry: None,
            timer: Timer::default(),
            answers: Vec::new(),
            recipients_told: Vec::new(),
            told_names: ToldNames::default(),
            workspace: None,
            draining: None,
            closed: false,
        }
    }

    fn push(&mut self, handed: HandedOver) {
        self.expect_end(handed.message.give_up_at);
        self.lanes.push(handed.message, handed.place.is_some());
        self.places.extend(handed.place);
    }

    /// Has it looked at what waits when it may be over.
    pub(super) fn expect_end(&mut self, at: Timestamp) {
        self.expiry = Some(self.expiry.map_or(at, |expiry| expiry.min(at)));
    }

    /// How many are with the channel, or about to be.
    pub(super) fn under_way(&self) -> usize {
        self.in_flight.len() + self.staged.len()
    }

    /// How many are not answered for.
    pub(super) fn queue(&self) -> usize {
        self.lanes.len() + self.delayed.len() + self.recipients.len() + self.under_way()
    }

    /// What it has messages of.
    fn origins(&self) -> HashSet<Origin> {
        let waiting = self.lanes.iter().chain(self.delayed.values()).chain(self.recipients.iter());
        let waiting = waiting.chain(self.staged.iter()).map(|attempt| attempt.message.origin);
        let over = self.unacked.origins();
        waiting.chain(self.in_flight.iter().copied()).chain(over).collect()
    }
}

impl Actor for NumberActor {
    type Msg = NumberMessage;
    type State = State;
    /// What it sends through at first.
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
        match message {
            NumberMessage::Dispatch(messages) => {
                messages.into_iter().for_each(|message| state.push(message));
            }
            NumberMessage::Recover(messages) => {
                let has = state.origins();
                let missing = messages.into_iter().filter(|message| !has.contains(&message.origin));
                missing.for_each(|message| state.push(message.into()));
                self.workspace_is_new(state);
            }
            NumberMessage::ReportUnknown(messages) => {
                let has = state.origins();
                state.release_again(&messages);
                let missing = messages.into_iter().filter(|message| !has.contains(&message.origin));
                self.workspace_is_new(state);
                missing.for_each(|message| self.answer(&message, FinalOutcome::Unknown, state));
            }
            NumberMessage::Acked(ticket) => state.unacked.acked(ticket),
            NumberMessage::Granted(granted) => state.granted(&granted),
            NumberMessage::Done(attempt, outcome) => self.done(*attempt, outcome, state),
            NumberMessage::Wake(generation) => {
                state.timer.woken(generation);
            }
            NumberMessage::Fault(failure) => self.fault(failure, false, state),
            NumberMessage::Reconnected => self.reconnected(state),
            NumberMessage::Withdraw(broadcast) => self.withdraw(broadcast, state),
            NumberMessage::Close => state.closed = true,
            NumberMessage::Drain(done) => {
                state.draining = Some(done);
                state.unstage();
            }
        }
        if state.closed {
            self.fail_everything(state);
        }
        self.send_what_may_go(&myself, state);
        self.hand_back(state);
        self.tell_of_recipients(state);
        if state.closed && state.in_flight.is_empty() {
            myself.stop(None);
        }
        if state.in_flight.is_empty()
            && let Some(done) = state.draining.take()
        {
            // Nobody is told if the asker has gone away.
            done.send(()).ok();
            myself.stop(None);
        }
        Ok(())
    }
}

impl NumberActor {
    /// Takes up what the number sends through now, and tries it at once.
    fn reconnected(&self, state: &mut State) {
        // A number without it was disconnected, which it is told next.
        let Some(connected) = self.numbers.connected(self.number) else { return };
        if Arc::ptr_eq(&connected, &state.connected) {
            return;
        }
        if connected.messages_per_second != state.connected.messages_per_second {
            state.pacer = TokenBucket::new(Rate::bursty(connected.messages_per_second));
        }
        state.connected = connected;
        state.era += 1;
        state.breaker.try_at_once(self.clock.now());
    }

    fn done(&self, mut attempt: Attempt, outcome: AttemptOutcome, state: &mut State) {
        let under_way = state.under_way();
        let of = attempt.message.origin;
        if let Some(place) = state.in_flight.iter().position(|origin| *origin == of) {
            state.in_flight.swap_remove(place);
        }
        if let Some(watch) = attempt.watch.take() {
            match outcome {
                AttemptOutcome::Unknown => state.window.throttled(),
                AttemptOutcome::Sent | AttemptOutcome::SentAs(_) | AttemptOutcome::Failed(_) => {
                    state.window.answered(watch.elapsed(), under_way);
                }
                // What they say is taken below.
                AttemptOutcome::Throttled { .. } | AttemptOutcome::Retry { .. } => {}
            }
        }
        self.concluded(attempt, outcome, state);
    }

    /// The workspace may have been rebuilt: it has forgotten what it was told and has not noted.
    fn workspace_is_new(&self, state: &mut State) {
        state.staged.ask_anew();
        for (ticket, answers) in state.unacked.all() {
            self.give(answers, Some(ticket), &self.workspace);
        }
    }

    /// The number is gone: what waits for it has nowhere to go, unless it is a broadcast's.
    fn fail_everything(&self, state: &mut State) {
        let delayed = std::mem::take(&mut state.delayed).into_values();
        let delayed = delayed.chain(state.staged.drain());
        let waiting = state.lanes.drain().chain(delayed).chain(state.recipients.drain());
        let waiting = waiting.collect();
        for attempt in self.give_back(waiting, state) {
            self.conclude(&attempt, FinalOutcome::Failed(Failure::permanent(None)), state);
        }
    }

    /// Gives a message its final answer.
    pub(super) fn conclude(&self, attempt: &Attempt, settled: FinalOutcome, state: &mut State) {
        for released in state.recipients.settled(attempt.message.to, attempt.sequence) {
            state.lanes.put_back(released);
        }
        self.answer(&attempt.message, settled, state);
    }

    fn answer(&self, message: &Outbound, settled: FinalOutcome, state: &mut State) {
        if state.workspace.as_ref() != Some(&message.workspace) {
            self.hand_back(state);
            state.workspace = Some(message.workspace.clone());
        }
        state.answers.push((message.origin, settled));
    }

    /// Gives the collected answers to their workspace.
    fn hand_back(&self, state: &mut State) {
        /// Most answers in one message, so that their events fit in a frame.
        const ANSWERS_MAX: usize = 1000;
        if let Some(workspace) = &state.workspace {
            while !state.answers.is_empty() {
                let rest = state.answers.split_off(state.answers.len().min(ANSWERS_MAX));
                let answers = std::mem::replace(&mut state.answers, rest);
                // Here, since those that were not noted are given again.
                self.numbers.outcomes.count(&answers);
                let ticket = state.unacked.keep(&answers);
                self.give(answers, ticket, workspace);
            }
        }
    }

    /// Tells the workspace what the answers told of recipients.
    fn tell_of_recipients(&self, state: &mut State) {
        /// Most of them in one of the workspace's commits.
        const RECIPIENTS_MAX: usize = 100;
        for recipients in std::mem::take(&mut state.recipients_told).chunks(RECIPIENTS_MAX) {
            self.tell(NumberNotice::Recipients(recipients.to_vec()));
        }
    }

    fn give(
        &self,
        settled: Vec<(Origin, FinalOutcome)>,
        ticket: Option<u64>,
        workspace: &WorkspaceId,
    ) {
        if let Some(wiring) = self.numbers.wiring.get() {
            let ack_to = ticket.map(|ticket| (self.number, ticket));
            wiring.sink.settled(workspace, Outcomes { settled, ack_to });
        }
    }
}

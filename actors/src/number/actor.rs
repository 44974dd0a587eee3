//! A number's actor.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hashbrown::HashSet;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use crate::channel::{Channel, Failure, Origin, Outbound, Outcome};
use crate::clock::Clock;
use crate::domain::{Timestamp, WorkspaceId};
use crate::random;
use crate::workspace::core::Settled;

use super::breaker::Breaker;
use super::{NumberSlot, Numbers};

/// Most messages that are with the channel at once.
const IN_FLIGHT_MAX: usize = 1000;
/// How long a message waits that the channel did not take, the first time; doubles each time.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// A message never waits longer.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// What a number's actor is told.
#[derive(Debug)]
pub(crate) enum NumberMessage {
    /// Send these. Each gets one final answer, through [`super::Settle`], unless the actor dies.
    Dispatch(Vec<Outbound>),
    /// The same, except for what it already has a message of.
    Recover(Vec<Outbound>),
    /// A message that took time has its outcome.
    Done(Box<Attempt>, Outcome),
    /// The wait of this generation is over.
    Wake(u64),
    /// The number was disconnected: everything that is not with the channel fails.
    Close,
    /// Start nothing more; answered when nothing is with the channel.
    Drain(oneshot::Sender<()>),
}

/// A message and how often the channel has not taken it.
#[derive(Debug)]
pub(crate) struct Attempt {
    message: Outbound,
    refusals: u32,
}

pub(crate) struct NumberActor {
    pub(super) slot: Arc<NumberSlot>,
    pub(super) channel: Arc<dyn Channel>,
    pub(super) clock: Clock,
    pub(super) numbers: Arc<Numbers>,
}

#[derive(Default)]
pub(crate) struct State {
    /// To be sent, oldest first. Every one is a pending request of a workspace, and those are
    /// bounded.
    ready: VecDeque<Attempt>,
    /// To be sent from a moment on; the number tells those of one moment apart.
    delayed: BTreeMap<(Timestamp, u64), Attempt>,
    delayed_count: u64,
    /// What the messages that are with the channel belong to, once for each message.
    in_flight: Vec<Origin>,
    breaker: Breaker,
    /// The generation of the running wait, and what it waits for. Older waits are ignored.
    wait: (u64, Option<Timestamp>),
    /// Answers not handed back yet.
    answers: Vec<(Origin, Settled)>,
    /// Whose the answers are.
    workspace: Option<WorkspaceId>,
    draining: Option<oneshot::Sender<()>>,
    closed: bool,
}

impl State {
    /// Has a message sent at `at`. When it is over before that, the waiting ends there, and the
    /// message with it.
    fn delay(&mut self, at: Timestamp, attempt: Attempt) {
        let at = at.min(attempt.message.give_up_at);
        self.delayed_count += 1;
        self.delayed.insert((at, self.delayed_count), attempt);
    }

    /// What it has messages of.
    fn origins(&self) -> HashSet<Origin> {
        let waiting = self.ready.iter().chain(self.delayed.values());
        let waiting = waiting.map(|attempt| attempt.message.origin);
        waiting.chain(self.in_flight.iter().copied()).collect()
    }
}

impl Actor for NumberActor {
    type Msg = NumberMessage;
    type State = State;
    type Arguments = ();

    async fn pre_start(
        &self,
        _myself: ActorRef<Self::Msg>,
        (): (),
    ) -> Result<State, ActorProcessingErr> {
        Ok(State::default())
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            NumberMessage::Dispatch(messages) => {
                state.ready.extend(messages.into_iter().map(Attempt::first));
            }
            NumberMessage::Recover(messages) => {
                let has = state.origins();
                let missing = messages.into_iter().filter(|message| !has.contains(&message.origin));
                state.ready.extend(missing.map(Attempt::first));
            }
            NumberMessage::Done(attempt, outcome) => {
                let of = attempt.message.origin;
                if let Some(place) = state.in_flight.iter().position(|origin| *origin == of) {
                    state.in_flight.swap_remove(place);
                }
                self.concluded(*attempt, outcome, state);
            }
            NumberMessage::Wake(generation) => {
                if generation == state.wait.0 {
                    state.wait.1 = None;
                }
            }
            NumberMessage::Close => state.closed = true,
            NumberMessage::Drain(done) => state.draining = Some(done),
        }
        if state.closed {
            self.fail_everything(state);
        }
        self.send_what_may_go(&myself, state);
        self.hand_back(state);
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
    fn send_what_may_go(&self, myself: &ActorRef<NumberMessage>, state: &mut State) {
        if state.draining.is_some() {
            return;
        }
        let now = self.clock.now();
        while let Some(entry) = state.delayed.first_entry()
            && entry.key().0 <= now
        {
            state.ready.push_back(entry.remove());
        }
        while state.in_flight.len() < IN_FLIGHT_MAX
            && let Some(attempt) = state.ready.pop_front()
        {
            if attempt.message.give_up_at <= now {
                self.conclude(&attempt.message, Settled::NotSentInTime, state);
            } else if state.breaker.admit(now) {
                self.send(myself, attempt, state);
            } else if let Some(until) = state.breaker.open_until().filter(|until| *until > now) {
                state.delay(until, attempt);
            } else {
                // The trial that decides is under way, and its answer comes.
                state.ready.push_front(attempt);
                break;
            }
        }
        self.publish_breaker(state);
        self.wait_for_next(myself, state);
    }

    /// The number is gone: what waits for it has nowhere to go.
    fn fail_everything(&self, state: &mut State) {
        let delayed = std::mem::take(&mut state.delayed).into_values();
        let waiting: Vec<_> = state.ready.drain(..).chain(delayed).collect();
        for attempt in waiting {
            self.conclude(&attempt.message, Settled::Failed(Failure::permanent(None)), state);
        }
    }

    /// Hands one message over. A channel that answers at once costs no task.
    fn send(&self, myself: &ActorRef<NumberMessage>, attempt: Attempt, state: &mut State) {
        let mut sending = self.channel.send(attempt.message.clone());
        let mut context = Context::from_waker(Waker::noop());
        match Pin::as_mut(&mut sending).poll(&mut context) {
            Poll::Ready(outcome) => self.concluded(attempt, outcome, state),
            Poll::Pending => {
                state.in_flight.push(attempt.message.origin);
                let myself = myself.clone();
                drop(tokio::spawn(async move {
                    let outcome = sending.await;
                    // An actor that is gone has everything handed over again by its successor.
                    drop(myself.cast(NumberMessage::Done(Box::new(attempt), outcome)));
                }));
            }
        }
    }

    /// Takes what the channel said of a message.
    fn concluded(&self, mut attempt: Attempt, outcome: Outcome, state: &mut State) {
        let settled = match outcome {
            Outcome::Sent => Settled::Sent,
            Outcome::Failed(failure) => Settled::Failed(failure),
            Outcome::Unknown => Settled::Unknown,
            Outcome::Throttled { after, .. } => {
                state.breaker.answered();
                state.delay(self.clock.now().plus(after.unwrap_or(RETRY_MIN)), attempt);
                return;
            }
            Outcome::Retry { after } => {
                let now = self.clock.now();
                state.breaker.failed(now);
                let wait = after.unwrap_or_else(|| backoff(attempt.refusals, random::fraction()));
                attempt.refusals += 1;
                state.delay(now.plus(wait), attempt);
                return;
            }
        };
        state.breaker.answered();
        self.conclude(&attempt.message, settled, state);
    }

    fn conclude(&self, message: &Outbound, settled: Settled, state: &mut State) {
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
        if let (Some(wiring), Some(workspace)) = (self.numbers.wiring.get(), &state.workspace) {
            while !state.answers.is_empty() {
                let rest = state.answers.split_off(state.answers.len().min(ANSWERS_MAX));
                let answers = std::mem::replace(&mut state.answers, rest);
                wiring.settle.settled(workspace, answers);
            }
        }
    }

    fn publish_breaker(&self, state: &State) {
        let until_ms = state.breaker.open_until().map_or(0, Timestamp::as_millis);
        self.slot.down_until_ms.store(until_ms, Ordering::Release);
    }

    /// Has the actor woken when the next message may go.
    fn wait_for_next(&self, myself: &ActorRef<NumberMessage>, state: &mut State) {
        let now = self.clock.now();
        let delayed = state.delayed.first_key_value().map(|((at, _), _)| *at);
        // What is ready waits for an answer that is under way, not for time.
        let Some(next) = delayed.filter(|next| *next > now) else { return };
        if state.wait.1.is_some_and(|waited_for| waited_for <= next) {
            return;
        }
        state.wait = (state.wait.0 + 1, Some(next));
        let (myself, clock, generation) = (myself.clone(), self.clock.clone(), state.wait.0);
        drop(tokio::spawn(async move {
            clock.sleep_until(next).await;
            // The actor may be gone, and its successor waits for itself.
            drop(myself.cast(NumberMessage::Wake(generation)));
        }));
    }
}

impl Attempt {
    const fn first(message: Outbound) -> Self {
        Self { message, refusals: 0 }
    }
}

/// Exponential, with up to a quarter more or less by `jitter`, a fraction from 0 to 1.
fn backoff(refusals: u32, jitter: f64) -> Duration {
    let wait = RETRY_MIN.saturating_mul(1 << refusals.min(16)).min(RETRY_MAX);
    wait.mul_f64(0.75 + jitter / 2.0)
}

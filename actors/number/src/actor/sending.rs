//! Chooses the next message to send, calls the channel, and handles its outcomes.
//!
//! A single message is sent only after its workspace has made a claim to it durable. A claim says
//! that the message may have been sent. After a crash the outcome of claimed messages is unknown,
//! and all others are sent.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use postrider_channel::outcome::FinalOutcome;
use postrider_channel::{
    Acceptance, AttemptOutcome, Channel, Failure, FailureClass, Lane, Origin, Outbound, Sending,
    Throttle, Trouble,
};
use postrider_domain::{PartyNames, Timestamp};
use postrider_runtime::clock::Stopwatch;
use postrider_runtime::flow::{Backoff, Passage, Trip, jittered};
use postrider_runtime::hold::TENURE_AGAIN_AFTER;
use postrider_runtime::random;
use postrider_runtime::trace::{Span, SpanKind};
use ractor::ActorRef;

use super::NumberActor;
use super::state::State;
use crate::figures::NumberError;
use crate::message::NumberMessage;
use crate::ports::{Claims, NumberNotice, Recipient};
use crate::queue::SendAttempt;
use crate::throttle::Pause;

/// The wait before the retry of a message that the channel did not accept.
const RETRY: Backoff = Backoff { min: Duration::from_secs(1), max: Duration::from_secs(30) };
/// The jitter of that wait, as a fraction of it, so that retries do not come all at once.
const RETRY_SPREAD: f64 = 0.25;
/// The part of the rate that the bulk lane leaves unused, as the time in which it is refilled. So
/// the first lane need not wait for a token while a broadcast uses up all others.
const RESERVE: Duration = Duration::from_millis(100);
/// The minimum wait, whatever the provider asks for.
const RETRY_AFTER_MIN: Duration = Duration::from_millis(100);
/// The minimum interval between checks of all waiting messages for expiry.
const EXPIRY_EVERY: Duration = Duration::from_secs(1);
/// The maximum number of claims that end in one commit of the workspace.
const RELEASED_MAX: usize = 1000;

impl NumberActor {
    /// Sends the messages that may be sent now, and sets the timer for the next ones.
    pub(super) fn send_ready(&self, myself: &ActorRef<NumberMessage>, state: &mut State) {
        if state.draining.is_some() {
            state.release_waiting();
            self.slot.capacity.set(0);
            state.reservations.clear();
            return self.report_claims(state);
        }
        let now = self.clock.now();
        state.requeue_due(now);
        self.finish_expired(now, state);
        self.send_claimed(myself, now, state);
        let mut free = 0;
        let blocked_until = loop {
            let left = state.concurrency.limit().saturating_sub(state.in_flight_or_claiming());
            // A message arrives when the engine is no longer held.
            if left == 0 || self.hold.is_held() {
                break None;
            }
            match state.blocked(now) {
                Some(until) => break until,
                None if !self.hold.has_tenure() => break Some(now.plus(TENURE_AGAIN_AFTER)),
                None => {
                    let Some(attempt) = state.queue.pop() else {
                        free = left.min(state.rate_limit.tokens(now));
                        break None;
                    };
                    self.claim_or_send(myself, attempt, now, state);
                }
            }
        };
        if state.queue.is_empty() && state.recipients.next().is_none() {
            state.expiry = None;
        }
        self.publish(free, now, state);
        self.log_failing(state);
        self.report_claims(state);
        self.set_timer(myself, blocked_until, now, state);
    }

    /// Publishes the number's figures, with `free` as the capacity for single messages.
    fn publish(&self, free: usize, now: Timestamp, state: &mut State) {
        self.slot.note_down(state.breaker.open_until(), now);
        state.note_state(now);
        self.slot.queue.store(state.unanswered(), Ordering::Relaxed);
        self.slot.in_flight.store(state.in_flight_or_claiming(), Ordering::Relaxed);
        state.release_waiting();
        let is_open = state.breaker.passage(now) == Passage::Open;
        self.slot.capacity.set(if is_open { free } else { 0 });
        // After the capacity was published. It counts these messages already, and would count them
        // twice otherwise.
        state.reservations.clear();
    }

    /// Finishes the waiting messages that have expired.
    fn finish_expired(&self, now: Timestamp, state: &mut State) {
        if state.expiry.is_none_or(|expiry| expiry > now) {
            return;
        }
        let mut expired = Vec::new();
        let next = state.queue.expire(now, &mut expired);
        let next = next.into_iter().chain(state.recipients.expire(now, &mut expired)).min();
        state.expiry = next.map(|next| next.max(now.plus(EXPIRY_EVERY)));
        for mut attempt in expired {
            state.cancel_trial(&mut attempt);
            self.finish(&attempt, FinalOutcome::NotSentInTime, state);
        }
    }

    /// Sends a message, or queues it until its claim is durable or its recipient may be tried.
    fn claim_or_send(
        &self,
        myself: &ActorRef<NumberMessage>,
        attempt: SendAttempt,
        now: Timestamp,
        state: &mut State,
    ) {
        if attempt.message.give_up_at <= now {
            return self.finish(&attempt, FinalOutcome::NotSentInTime, state);
        }
        let Some(mut attempt) = state.hold_if_recipient_waits(attempt) else { return };
        if state.breaker.passage(now) == Passage::Trial {
            state.breaker.begin_trial();
            attempt.trial = true;
        }
        state.rate_limit.take(now);
        if let Some(attempt) = state.claim_queue.admit(attempt) {
            self.send(myself, attempt, state);
        }
    }

    /// Sends the claimed messages. They are queued again if the channel has paused or failed
    /// meanwhile, or nothing may leave the engine now.
    fn send_claimed(&self, myself: &ActorRef<NumberMessage>, now: Timestamp, state: &mut State) {
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
    fn report_claims(&self, state: &mut State) {
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

    /// Calls the channel. If its outcome is ready at once, no task is spawned.
    fn send(&self, myself: &ActorRef<NumberMessage>, mut attempt: SendAttempt, state: &mut State) {
        attempt.connection = state.connection;
        let span = begin_span(self, &attempt);
        match GuardedCall::start(state.connected.channel.as_ref(), attempt.message.clone()) {
            Ok(outcome) => {
                end_span(span, &outcome);
                if matches!(outcome, AttemptOutcome::Sent | AttemptOutcome::SentAs(_)) {
                    let in_flight = state.in_flight_or_claiming() + 1;
                    state.concurrency.answered(Duration::ZERO, in_flight);
                }
                self.handle_outcome(attempt, outcome, state);
            }
            Err(sending) => {
                let watch = Stopwatch::start();
                state.in_flight.push(attempt.message.origin);
                // The attempt is in a box, because a task is moved several times before it runs.
                let (myself, attempt) = (myself.clone(), Box::new(attempt));
                drop(tokio::spawn(async move {
                    let outcome = sending.await;
                    end_span(span, &outcome);
                    // If the actor has died, everything is dispatched again to its successor.
                    drop(myself.cast(NumberMessage::Done(attempt, watch, outcome)));
                }));
            }
        }
    }

    /// Handles the outcome of one attempt.
    pub(super) fn handle_outcome(
        &self,
        mut attempt: SendAttempt,
        outcome: AttemptOutcome,
        state: &mut State,
    ) {
        // An outcome of an earlier channel of the number does not concern the present one.
        let is_current = attempt.connection == state.connection;
        let trial = std::mem::take(&mut attempt.trial) && is_current;
        self.note_unrecognized(&attempt, &outcome, state);
        match outcome {
            AttemptOutcome::Failed(failure) if failure.class == FailureClass::Account => {
                if is_current {
                    self.fault(failure, trial, state);
                }
                state.requeue(attempt);
            }
            AttemptOutcome::Throttled { scope, after } => {
                self.throttled(attempt, scope, after, trial, state);
            }
            AttemptOutcome::Retry { after } => self.not_accepted(attempt, after, trial, state),
            AttemptOutcome::Unknown => {
                state.breaker.undecided(trial);
                self.finish(&attempt, FinalOutcome::Unknown, state);
            }
            AttemptOutcome::SentAs(mut acceptance) => {
                self.note_names(&attempt, std::mem::take(&mut acceptance.known_as), state);
                self.accepted(&attempt, acceptance, trial, state);
            }
            AttemptOutcome::Sent => self.accepted(&attempt, Acceptance::default(), trial, state),
            AttemptOutcome::Failed(failure) => {
                self.channel_answered(trial, state);
                self.note_error(&failure);
                // The workspace itself reads it from the outcome of a single message.
                let of_broadcast = attempt.message.origin.lane() == Lane::Bulk;
                if failure.class == FailureClass::OptedOut
                    && of_broadcast
                    && let Some(phone) = attempt.message.to.phone()
                {
                    state.learned.push(Recipient::StoppedMarketing(phone));
                }
                self.finish(&attempt, FinalOutcome::Failed(failure), state);
            }
        }
    }

    /// Stores an error of the channel for later reports.
    fn note_error(&self, failure: &Failure) {
        let error = NumberError::of(failure, self.clock.now());
        *self.slot.last_error.lock() = Some(error);
    }

    /// Notes the provider's names of a recipient, unless they were reported lately. The ids of a
    /// broadcast's recipients come with the reports on its messages at no cost. Here they would
    /// cost a commit for some hundreds.
    fn note_names(&self, attempt: &SendAttempt, mut known_as: PartyNames, state: &mut State) {
        let to = &attempt.message.to;
        if attempt.message.origin.lane() == Lane::Bulk {
            known_as.user_id = None;
        }
        let is_news = !known_as.is_empty();
        if is_news && state.reported_names.must_report(self.clock.now(), to, &known_as) {
            let at = attempt.message.message_id.timestamp();
            state.learned.push(Recipient::KnownAs { to: to.clone(), known_as, at });
        }
    }

    /// Notifies the operator of an unknown code, once several recipients have it.
    fn note_unrecognized(
        &self,
        attempt: &SendAttempt,
        outcome: &AttemptOutcome,
        state: &mut State,
    ) {
        if state.unrecognized.take(&attempt.message.to, outcome)
            && let AttemptOutcome::Failed(failure) = outcome
        {
            let (code, reason) = (failure.code, &*failure.details);
            tracing::warn!(
                number = %self.number, code, reason,
                "the number's channel refuses messages with a code that is not known"
            );
            self.notify(NumberNotice::Unrecognized(failure.clone()));
        }
    }

    /// Handles an acceptance by the channel.
    fn accepted(
        &self,
        attempt: &SendAttempt,
        acceptance: Acceptance,
        trial: bool,
        state: &mut State,
    ) {
        let shared = [&*state.connected.app_pause, &*state.connected.account_pause];
        shared.into_iter().chain([&state.pause]).for_each(Pause::accepted);
        self.channel_answered(trial, state);
        let now = self.clock.now();
        state.ledger.count_sent(now);
        if !matches!(attempt.message.origin, Origin::Otp { .. }) {
            self.slot.accepted.note(now);
        }
        self.finish(attempt, FinalOutcome::accepted(attempt.message.origin, acceptance), state);
    }

    /// Closes the breaker: the channel can be reached and the account can send.
    fn channel_answered(&self, trial: bool, state: &mut State) {
        if state.breaker.answered(trial) {
            tracing::info!(number = %self.number, "the number sends again");
            *self.slot.trouble.lock() = None;
            self.notify(NumberNotice::Recovered);
        }
    }

    /// Stops sending: the account cannot send, and all messages wait.
    pub(super) fn fault(&self, failure: Failure, trial: bool, state: &mut State) {
        let new = state.breaker.stop(self.clock.now(), trial);
        self.note_error(&failure);
        if let (true, Some(sink)) = (new || trial, self.reporter.sink()) {
            sink.stopped(self.number, &failure);
        }
        if new {
            let (code, class) = (failure.code, failure.class);
            // The provider's text is for administrators only: it may contain phones and tokens.
            tracing::warn!(number = %self.number, code, ?class, "the number's account cannot send");
            *self.slot.trouble.lock() = Some(Trouble::of(&failure));
            self.notify(NumberNotice::Stopped(failure));
        }
    }

    /// Queues a message again whose rate the provider limits, and pauses the throttled scope.
    fn throttled(
        &self,
        mut attempt: SendAttempt,
        scope: Throttle,
        after: Option<Duration>,
        trial: bool,
        state: &mut State,
    ) {
        let now = self.clock.now();
        state.breaker.undecided(trial);
        state.release(&mut attempt);
        let pause = match scope {
            Throttle::Recipient => {
                state.expect_expiry(attempt.message.give_up_at);
                return state.recipients.throttled(now, after, attempt);
            }
            Throttle::App => &*state.connected.app_pause,
            Throttle::Account => &*state.connected.account_pause,
            Throttle::Number => &state.pause,
        };
        pause.throttled(now, after);
        state.concurrency.throttled();
        state.requeue(attempt);
    }

    /// Schedules the retry of a message that the channel did not accept.
    fn not_accepted(
        &self,
        mut attempt: SendAttempt,
        after: Option<Duration>,
        trial: bool,
        state: &mut State,
    ) {
        let now = self.clock.now();
        state.breaker.failed(now, trial);
        state.release(&mut attempt);
        state.requeue_released_by(&attempt);
        let wait = after.unwrap_or_else(|| {
            jittered(RETRY.delay(attempt.retries), RETRY_SPREAD, random::fraction())
        });
        attempt.retries += 1;
        // A message that expires earlier waits only until then, and is finished there.
        let at = now.plus(wait.max(RETRY_AFTER_MIN)).min(attempt.message.give_up_at);
        state.delayed.insert((at, attempt.sequence), attempt);
    }

    /// Logs when the channel starts to fail, and when it works again.
    fn log_failing(&self, state: &mut State) {
        let is_failing = state.breaker.trip() == Some(Trip::Failing);
        match (std::mem::replace(&mut state.logged_failing, is_failing), is_failing) {
            (false, true) => {
                let trouble = state.connected.channel.trouble();
                let cause = trouble.as_ref().map_or("", |trouble| &*trouble.cause);
                tracing::warn!(number = %self.number, cause, "the number's channel fails; it is left alone for a while");
                *self.slot.trouble.lock() = trouble;
            }
            (true, false) => {
                tracing::info!(number = %self.number, "the number's channel answers again");
                if state.breaker.trip().is_none() {
                    *self.slot.trouble.lock() = None;
                }
            }
            _ => {}
        }
    }

    /// Sets the timer to the time at which the next message may be sent, or expires.
    fn set_timer(
        &self,
        myself: &ActorRef<NumberMessage>,
        blocked_until: Option<Timestamp>,
        now: Timestamp,
        state: &mut State,
    ) {
        let delayed = state.delayed.first_key_value().map(|((at, _), _)| *at);
        let (recipients, claims) = (state.recipients.next(), state.claim_queue.next());
        let waits = [blocked_until, delayed, recipients, claims, state.expiry];
        let Some(next) = waits.into_iter().flatten().filter(|next| *next > now).min() else {
            return;
        };
        let myself = myself.clone();
        state.timer.wake_at(&self.clock, next, move |generation| {
            // If the actor has died, its successor sets a timer of its own.
            drop(myself.cast(NumberMessage::Wake(generation)));
        });
    }
}

impl State {
    /// Queues the messages whose wait has ended.
    fn requeue_due(&mut self, now: Timestamp) {
        while let Some(entry) = self.delayed.first_entry()
            && entry.key().0 <= now
        {
            let attempt = entry.remove();
            self.expect_expiry(attempt.message.give_up_at);
            self.queue.put_back(attempt);
        }
        while let Some(attempt) = self.recipients.due(now) {
            self.queue.put_back(attempt);
        }
    }

    /// Returns `Some` if nothing may be sent now. The inner value is the end, if only time ends it.
    fn blocked(&self, now: Timestamp) -> Option<Option<Timestamp>> {
        if let Some(until) = self.paused_until(now) {
            return Some(Some(until));
        }
        match self.breaker.passage(now) {
            Passage::NotBefore(until) => return Some(Some(until)),
            Passage::AfterTrial => return Some(None),
            Passage::Open | Passage::Trial => {}
        }
        let reserve = match self.queue.next_lane() {
            Lane::First => Duration::ZERO,
            Lane::Bulk => RESERVE,
        };
        let ready_at = self.rate_limit.ready_at_leaving(reserve);
        (ready_at > now).then_some(Some(ready_at))
    }

    /// Holds a message without a claim if its recipient is throttled. Returns it if it may be sent.
    fn hold_if_recipient_waits(&mut self, mut attempt: SendAttempt) -> Option<SendAttempt> {
        if self.recipients.must_wait(&attempt) {
            self.release(&mut attempt);
        }
        self.recipients.admit(attempt)
    }
}

/// A call of a channel that has not returned yet. If the channel panics, the outcome is unknown and
/// the number continues.
struct GuardedCall(Sending);

impl GuardedCall {
    /// Hands a message to the channel. Returns the outcome if it is ready at once, else a future of
    /// it.
    fn start(channel: &dyn Channel, message: Outbound) -> Result<AttemptOutcome, Self> {
        let Some(sending) = guarded(|| channel.send(message)) else {
            return Ok(AttemptOutcome::Unknown);
        };
        let mut called = Self(sending);
        match Pin::new(&mut called).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Ok(outcome),
            Poll::Pending => Err(called),
        }
    }
}

impl Future for GuardedCall {
    type Output = AttemptOutcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<AttemptOutcome> {
        // Ready, so a call that has panicked is not polled again.
        guarded(|| self.0.as_mut().poll(context)).unwrap_or(Poll::Ready(AttemptOutcome::Unknown))
    }
}

/// Returns the result of `call`, or `None` if it panics.
fn guarded<T>(call: impl FnOnce() -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(call));
    if result.is_err() {
        // The panic's message may contain parts of the message, so it is not logged here; the
        // panic hook has written it to the output of the process.
        tracing::error!("a channel panicked; the outcome of the message is unknown");
    }
    result.ok()
}

/// Starts the span, if the request of the message is traced.
fn begin_span(actor: &NumberActor, attempt: &SendAttempt) -> Option<Span> {
    let context = actor.traces.of(|| attempt.message.origin.trace_subject())?;
    let mut span = actor.traces.below(context, "hand-over", SpanKind::Client)?;
    span.set("postrider.number_id", actor.number.to_string());
    span.set("postrider.retries", i64::from(attempt.retries));
    Some(span)
}

/// Ends the span with the channel's answer.
fn end_span(span: Option<Span>, outcome: &AttemptOutcome) {
    let Some(mut span) = span else { return };
    let (name, has_failed) = match outcome {
        AttemptOutcome::Sent | AttemptOutcome::SentAs(_) => ("sent", false),
        AttemptOutcome::Failed(_) => ("failed", true),
        AttemptOutcome::Throttled { .. } => ("throttled", false),
        AttemptOutcome::Retry { .. } => ("not_accepted", false),
        AttemptOutcome::Unknown => ("unknown", true),
    };
    span.set("postrider.outcome", name);
    if has_failed {
        span.fail();
    }
}

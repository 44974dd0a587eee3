//! What a number sends next, and what it makes of the channel's answers.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ractor::ActorRef;

use postrider_channel::outcome::FinalOutcome;
use postrider_channel::{AttemptOutcome, Failure, FailureClass, Lane, Throttle};
use postrider_domain::Timestamp;
use postrider_runtime::clock::Stopwatch;
use postrider_runtime::flow::{Backoff, Passage, Trip, jittered};
use postrider_runtime::random;

use super::actor::{NumberActor, NumberMessage, State};
use super::notices::{NumberNotice, Recipient};
use super::panic_guard::Caught;
use super::queue::Attempt;

/// How long a message waits that the channel did not take.
const RETRY: Backoff = Backoff { min: Duration::from_secs(1), max: Duration::from_secs(30) };
/// The part by which that is more or less, so that not all come back at once.
const RETRY_SPREAD: f64 = 0.25;
/// What the bulk lane leaves of the pace, in the time that it takes to fill, so that what goes first
/// need not wait for the next token while a broadcast uses up all of them.
const RESERVE: Duration = Duration::from_millis(100);
/// Nor shorter, whatever the provider says.
const ASKED_MIN: Duration = Duration::from_millis(100);
/// Everything that waits is looked at for what is over: not more often than this.
const EXPIRY_EVERY: Duration = Duration::from_secs(1);

impl NumberActor {
    /// Hands over what may go now, and has the actor woken when more may.
    pub(super) fn send_what_may_go(&self, myself: &ActorRef<NumberMessage>, state: &mut State) {
        if state.draining.is_some() {
            state.release_waiting();
            self.slot.capacity.set(0);
            state.places.clear();
            return self.tell_claims(state);
        }
        let now = self.clock.now();
        self.take_in_what_is_due(now, state);
        self.send_staged(myself, now, state);
        let mut room = 0;
        let blocked_until = loop {
            let left = state.window.limit().saturating_sub(state.under_way());
            if left == 0 {
                break None;
            }
            match self.blocked(now, state) {
                Some(until) => break until,
                None => {
                    let Some(attempt) = state.lanes.pop() else {
                        room = left.min(state.pacer.tokens(now));
                        break None;
                    };
                    self.send_or_keep(myself, attempt, now, state);
                }
            }
        };
        if state.lanes.is_empty() && state.recipients.next().is_none() {
            state.expiry = None;
        }
        let until_ms = state.breaker.open_until().map_or(0, Timestamp::as_millis);
        self.slot.down_until_ms.store(until_ms, Ordering::Release);
        self.slot.queue.store(state.queue(), Ordering::Relaxed);
        self.slot.under_way.store(state.under_way(), Ordering::Relaxed);
        state.release_waiting();
        let is_open = state.breaker.passage(now) == Passage::Open;
        self.slot.capacity.set(if is_open { room } else { 0 });
        // After that, so that none is taken twice.
        state.places.clear();
        self.tell_failing(state);
        self.tell_claims(state);
        self.wait_for_next(myself, blocked_until, now, state);
    }

    /// Puts what has waited long enough where it goes next, and ends what is over.
    fn take_in_what_is_due(&self, now: Timestamp, state: &mut State) {
        while let Some(entry) = state.delayed.first_entry()
            && entry.key().0 <= now
        {
            let attempt = entry.remove();
            state.expect_end(attempt.message.give_up_at);
            state.lanes.put_back(attempt);
        }
        while let Some(attempt) = state.recipients.due(now) {
            state.lanes.put_back(attempt);
        }
        if state.expiry.is_some_and(|expiry| expiry <= now) {
            let mut over = Vec::new();
            let next = state.lanes.expire(now, &mut over);
            let next = next.into_iter().chain(state.recipients.expire(now, &mut over)).min();
            state.expiry = next.map(|next| next.max(now.plus(EXPIRY_EVERY)));
            for attempt in over {
                if attempt.trial {
                    state.breaker.undecided(true);
                }
                self.conclude(&attempt, FinalOutcome::NotSentInTime, state);
            }
        }
    }

    /// Whether nothing may be sent now, and until when, if time alone ends that.
    fn blocked(&self, now: Timestamp, state: &State) -> Option<Option<Timestamp>> {
        if let Some(until) = self.paused(now, state) {
            return Some(Some(until));
        }
        match state.breaker.passage(now) {
            Passage::NotBefore(until) => return Some(Some(until)),
            Passage::AfterTrial => return Some(None),
            Passage::Open | Passage::Trial => {}
        }
        let reserve = match state.lanes.next_lane() {
            Lane::First => Duration::ZERO,
            Lane::Bulk => RESERVE,
        };
        let ready_at = state.pacer.ready_at_leaving(reserve);
        (ready_at > now).then_some(Some(ready_at))
    }

    /// Until when a provider asked to be left alone.
    pub(super) fn paused(&self, now: Timestamp, state: &State) -> Option<Timestamp> {
        let pauses = [&*state.connected.app_pause, &*state.connected.account_pause, &state.pause];
        pauses.iter().filter_map(|pause| pause.until(now)).max()
    }

    fn send_or_keep(
        &self,
        myself: &ActorRef<NumberMessage>,
        attempt: Attempt,
        now: Timestamp,
        state: &mut State,
    ) {
        if attempt.message.give_up_at <= now {
            return self.conclude(&attempt, FinalOutcome::NotSentInTime, state);
        }
        let Some(mut attempt) = self.hold(attempt, state) else { return };
        if state.breaker.passage(now) == Passage::Trial {
            state.breaker.begin_trial();
            attempt.trial = true;
        }
        state.pacer.take(now);
        if let Some(attempt) = state.staged.admit(attempt) {
            self.send(myself, attempt, state);
        }
    }

    /// Keeps a message whose recipient waits, unclaimed; gives it back if it may go.
    pub(super) fn hold(&self, mut attempt: Attempt, state: &mut State) -> Option<Attempt> {
        if state.recipients.must_wait(&attempt) {
            state.release(&mut attempt);
        }
        state.recipients.hold(attempt)
    }

    /// Hands one message over. A channel that answers at once costs no task.
    pub(super) fn send(
        &self,
        myself: &ActorRef<NumberMessage>,
        mut attempt: Attempt,
        state: &mut State,
    ) {
        attempt.era = state.era;
        match Caught::call(state.connected.channel.as_ref(), attempt.message.clone()) {
            Ok(outcome) => self.concluded(attempt, outcome, state),
            Err(sending) => {
                attempt.watch = Some(Stopwatch::start());
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
    pub(super) fn concluded(
        &self,
        mut attempt: Attempt,
        outcome: AttemptOutcome,
        state: &mut State,
    ) {
        // What an earlier channel of the number says decides nothing of this one.
        let is_current = attempt.era == state.era;
        let trial = std::mem::take(&mut attempt.trial) && is_current;
        match outcome {
            AttemptOutcome::Failed(failure)
                if failure.class == FailureClass::Account && !is_current =>
            {
                self.put_back(attempt, state);
            }
            AttemptOutcome::Failed(failure) if failure.class == FailureClass::Account => {
                self.stopped(attempt, failure, trial, state);
            }
            AttemptOutcome::Throttled { scope, after } => {
                self.throttled(attempt, scope, after, trial, state);
            }
            AttemptOutcome::Retry { after } => self.not_taken(attempt, after, trial, state),
            AttemptOutcome::Unknown => {
                state.breaker.undecided(trial);
                self.conclude(&attempt, FinalOutcome::Unknown, state);
            }
            AttemptOutcome::SentAs(known_as) => {
                let phone = attempt.message.to;
                if state.told_names.is_news(self.clock.now(), phone, known_as) {
                    let at = attempt.message.message_id.timestamp();
                    state.recipients_told.push(Recipient::KnownAs { phone, known_as, at });
                }
                attempt.trial = trial;
                self.concluded(attempt, AttemptOutcome::Sent, state);
            }
            AttemptOutcome::Sent => {
                let pauses = [&*state.connected.app_pause, &*state.connected.account_pause];
                pauses.into_iter().chain([&state.pause]).for_each(super::throttle::Pause::taken);
                self.answered(trial, state);
                self.conclude(&attempt, FinalOutcome::Sent, state);
            }
            AttemptOutcome::Failed(failure) => {
                self.answered(trial, state);
                if failure.class == FailureClass::OptedOut {
                    let told = Recipient::StoppedMarketing(attempt.message.to);
                    // The workspace reads it from the answer for a message of its own.
                    let of_broadcast = attempt.message.origin.lane() == Lane::Bulk;
                    state.recipients_told.extend(of_broadcast.then_some(told));
                }
                self.conclude(&attempt, FinalOutcome::Failed(failure), state);
            }
        }
    }

    fn answered(&self, trial: bool, state: &mut State) {
        if state.breaker.answered(trial) {
            tracing::info!(number = %self.number, "the number sends again");
            self.tell(NumberNotice::Recovered);
        }
    }

    /// The account cannot send: the message goes back.
    fn stopped(&self, attempt: Attempt, failure: Failure, trial: bool, state: &mut State) {
        self.fault(failure, trial, state);
        self.put_back(attempt, state);
    }

    /// The account cannot send: everything waits.
    pub(super) fn fault(&self, failure: Failure, trial: bool, state: &mut State) {
        let new = state.breaker.stop(self.clock.now(), trial);
        if let (true, Some(wiring)) = (new || trial, self.numbers.wiring.get()) {
            wiring.sink.stopped(self.number, &failure);
        }
        if new {
            let (code, reason) = (failure.code, &*failure.details);
            tracing::warn!(number = %self.number, code, reason, "the number's account cannot send");
            self.tell(NumberNotice::Stopped(failure));
        }
    }

    /// The provider wants less: the message goes back, and what is throttled waits.
    fn throttled(
        &self,
        mut attempt: Attempt,
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
                state.expect_end(attempt.message.give_up_at);
                return state.recipients.throttled(now, after, attempt);
            }
            Throttle::App => &*state.connected.app_pause,
            Throttle::Account => &*state.connected.account_pause,
            Throttle::Number => &state.pause,
        };
        pause.throttled(now, after);
        state.window.throttled();
        self.put_back(attempt, state);
    }

    /// The channel did not take the message: it is tried again after a while.
    fn not_taken(
        &self,
        mut attempt: Attempt,
        after: Option<Duration>,
        trial: bool,
        state: &mut State,
    ) {
        let now = self.clock.now();
        state.breaker.failed(now, trial);
        state.release(&mut attempt);
        for released in state.recipients.settled(attempt.message.to, attempt.sequence) {
            state.lanes.put_back(released);
        }
        let wait = after.unwrap_or_else(|| {
            jittered(RETRY.delay(attempt.refusals), RETRY_SPREAD, random::fraction())
        });
        attempt.refusals += 1;
        // When it is over before that, the waiting ends there, and the message with it.
        let at = now.plus(wait.max(ASKED_MIN)).min(attempt.message.give_up_at);
        state.delayed.insert((at, attempt.sequence), attempt);
    }

    pub(super) fn put_back(&self, mut attempt: Attempt, state: &mut State) {
        state.release(&mut attempt);
        state.expect_end(attempt.message.give_up_at);
        state.lanes.put_back(attempt);
    }

    /// Logs when the channel begins to fail, and when it answers again.
    fn tell_failing(&self, state: &mut State) {
        let is_failing = state.breaker.trip() == Some(Trip::Failing);
        match (std::mem::replace(&mut state.told_failing, is_failing), is_failing) {
            (false, true) => {
                let cause = state.connected.channel.trouble().unwrap_or_default();
                tracing::warn!(number = %self.number, cause, "the number's channel fails; it is left alone for a while");
            }
            (true, false) => {
                tracing::info!(number = %self.number, "the number's channel answers again");
            }
            _ => {}
        }
    }

    pub(super) fn tell(&self, news: NumberNotice) {
        if let Some(wiring) = self.numbers.wiring.get() {
            wiring.sink.notice(&self.workspace, self.number, news);
        }
    }

    /// Has the actor woken when the next message may go, or be over.
    fn wait_for_next(
        &self,
        myself: &ActorRef<NumberMessage>,
        blocked_until: Option<Timestamp>,
        now: Timestamp,
        state: &mut State,
    ) {
        let delayed = state.delayed.first_key_value().map(|((at, _), _)| *at);
        let (recipients, claims) = (state.recipients.next(), state.staged.next());
        let waits = [blocked_until, delayed, recipients, claims, state.expiry];
        let Some(next) = waits.into_iter().flatten().filter(|next| *next > now).min() else {
            return;
        };
        let myself = myself.clone();
        state.timer.wake_at(&self.clock, next, move |generation| {
            // The actor may be gone, and its successor waits for itself.
            drop(myself.cast(NumberMessage::Wake(generation)));
        });
    }
}

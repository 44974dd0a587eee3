//! The state of a number's actor: its queues, its limits, and its unreported results.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashSet;
use postrider_channel::outcome::FinalOutcome;
use postrider_channel::{Origin, Outbound};
use postrider_domain::{MessageId, Timestamp, WorkspaceId};
use postrider_runtime::flow::{CircuitBreaker, GradientLimit, Rate, TokenBucket, Trip};
use postrider_runtime::timer::Timer;
use tokio::sync::oneshot;

use super::reporting::{ReportedNames, Unacked, Unrecognized};
use crate::directory_entry::Reservation;
use crate::figures::{FigureLedger, NumberFigures, NumberState};
use crate::message::HandedOver;
use crate::ports::{Granted, Recipient};
use crate::providers::Connected;
use crate::queue::{ClaimQueue, SendAttempt, SendQueue};
use crate::throttle::{Pause, RecipientBackoff};

/// The mutable state of a number's actor. It is lost when the actor dies.
pub(crate) struct State {
    /// The connection that it sends through.
    pub(super) connected: Arc<Connected>,
    /// The number of changes of `connected`. It identifies outcomes of an earlier channel.
    pub(super) connection: u32,
    /// Messages that can be sent. Each is a pending request of a workspace, and those are bounded.
    pub(super) queue: SendQueue,
    /// Messages to be retried, by the earliest time of the retry and their sequence.
    pub(super) delayed: BTreeMap<(Timestamp, u64), SendAttempt>,
    /// Messages whose recipient is throttled.
    pub(super) recipients: RecipientBackoff,
    /// Messages that wait for a durable claim; the next step is the channel.
    pub(super) claim_queue: ClaimQueue,
    /// Reservations of messages that have arrived since the capacity was last published.
    pub(super) reservations: Vec<Reservation>,
    /// Messages whose claims have ended, to be reported to the workspace.
    pub(super) released: Vec<MessageId>,
    /// Outcomes that the workspace has not acknowledged.
    pub(super) unacked: Unacked,
    /// The origins of the messages that are with the channel, once for each message.
    pub(super) in_flight: Vec<Origin>,
    pub(super) breaker: CircuitBreaker,
    /// Set if the log says that the channel fails.
    pub(super) logged_failing: bool,
    pub(super) rate_limit: TokenBucket,
    pub(super) concurrency: GradientLimit,
    /// A pause that the provider asked for, of this number alone.
    pub(super) pause: Pause,
    /// The time at which the first of the waiting messages may expire.
    pub(super) expiry: Option<Timestamp>,
    pub(super) timer: Timer,
    /// Outcomes that were collected and not reported yet.
    pub(super) outcomes: Vec<(Origin, FinalOutcome)>,
    /// The workspace of `outcomes`.
    pub(super) outcomes_of: Option<WorkspaceId>,
    /// Facts about recipients that outcomes revealed, not reported yet.
    pub(super) learned: Vec<Recipient>,
    pub(super) reported_names: ReportedNames,
    /// Messages for another number to send, not reported yet.
    pub(super) handed_back: Vec<Outbound>,
    pub(super) unrecognized: Unrecognized,
    /// The figures that are reported of the number.
    pub(super) ledger: FigureLedger,
    /// Answered when the last message in flight has its outcome.
    pub(super) draining: Option<oneshot::Sender<()>>,
    pub(super) closed: bool,
    /// The time since which it has been idle.
    pub(super) idle_since: Option<Timestamp>,
    /// Set once it has passivated itself, and passes on later messages.
    pub(super) resting: bool,
}

impl State {
    pub(super) fn new(connected: Arc<Connected>) -> Self {
        Self {
            connection: 0,
            rate_limit: TokenBucket::new(Rate::bursty(connected.messages_per_second)),
            connected,
            queue: SendQueue::default(),
            delayed: BTreeMap::new(),
            recipients: RecipientBackoff::default(),
            claim_queue: ClaimQueue::default(),
            reservations: Vec::new(),
            released: Vec::new(),
            unacked: Unacked::default(),
            in_flight: Vec::new(),
            breaker: CircuitBreaker::default(),
            logged_failing: false,
            concurrency: GradientLimit::default(),
            pause: Pause::default(),
            expiry: None,
            timer: Timer::default(),
            outcomes: Vec::new(),
            outcomes_of: None,
            learned: Vec::new(),
            reported_names: ReportedNames::default(),
            handed_back: Vec::new(),
            unrecognized: Unrecognized::default(),
            ledger: FigureLedger::default(),
            draining: None,
            closed: false,
            idle_since: None,
            resting: false,
        }
    }

    /// Queues a new message.
    pub(super) fn push(&mut self, handed: HandedOver) {
        self.expect_expiry(handed.message.give_up_at);
        self.ledger.add(&handed.message);
        self.queue.push(handed.message, handed.place.is_some());
        self.reservations.extend(handed.place);
    }

    /// Returns the end of the longest pause of the number, its account or its app.
    pub(super) fn paused_until(&self, now: Timestamp) -> Option<Timestamp> {
        let pauses = [&*self.connected.app_pause, &*self.connected.account_pause, &self.pause];
        pauses.iter().filter_map(|pause| pause.until(now)).max()
    }

    /// Queues a message again at its old place, without a claim.
    pub(super) fn requeue(&mut self, mut attempt: SendAttempt) {
        self.release(&mut attempt);
        self.expect_expiry(attempt.message.give_up_at);
        self.queue.put_back(attempt);
    }

    /// Queues the messages that waited for this attempt, if it was their recipient's trial.
    pub(super) fn requeue_released_by(&mut self, attempt: &SendAttempt) {
        for released in self.recipients.settled(&attempt.message.to, attempt.sequence) {
            self.queue.put_back(released);
        }
    }

    /// Schedules a check of the waiting messages for expiry at this time.
    pub(super) fn expect_expiry(&mut self, at: Timestamp) {
        self.expiry = Some(self.expiry.map_or(at, |expiry| expiry.min(at)));
    }

    /// Returns the number of messages that are with the channel, or about to be.
    pub(super) fn in_flight_or_claiming(&self) -> usize {
        self.in_flight.len() + self.claim_queue.len()
    }

    /// Returns the number of messages without a final outcome.
    pub(super) fn unanswered(&self) -> usize {
        let waiting = self.queue.len() + self.delayed.len() + self.recipients.len();
        waiting + self.in_flight_or_claiming()
    }

    /// Returns whether a new actor would lose nothing. It would not if no message waits, is with
    /// the channel or has to be reported, and the number is not stopped.
    pub(super) fn has_nothing_to_do(&self) -> bool {
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

    /// Returns the origins of all its messages, and of its unacknowledged outcomes.
    pub(super) fn origins(&self) -> HashSet<Origin> {
        let waiting = self.waiting().chain(self.claim_queue.iter());
        let waiting = waiting.map(|attempt| attempt.message.origin);
        let unacked = self.unacked.origins();
        waiting.chain(self.in_flight.iter().copied()).chain(unacked).collect()
    }

    /// Returns the messages that are neither with the channel nor about to be.
    fn waiting(&self) -> impl Iterator<Item = &SendAttempt> {
        self.queue.iter().chain(self.delayed.values()).chain(self.recipients.iter())
    }

    /// Ends a message's claim. The channel certainly did not accept the message, so it can be sent
    /// again, after a crash too.
    pub(super) fn release(&mut self, attempt: &mut SendAttempt) {
        self.released.extend(attempt.release());
    }

    /// Ends the claims of messages that could not be sent at once. So after a crash they are sent
    /// and not reported as unknown.
    pub(super) fn release_waiting(&mut self) {
        self.released.extend(self.queue.claimed().filter_map(SendAttempt::release));
    }

    /// Repeats the release of the given messages that wait without a claim. The workspace treats
    /// them as claimed, so it has missed the release.
    pub(super) fn release_again(&mut self, claimed: &[Outbound]) {
        let claimed: HashSet<_> = claimed.iter().map(|message| message.origin).collect();
        let waiting = self.waiting().filter(|it| claimed.contains(&it.message.origin));
        let missed: Vec<_> = waiting.filter_map(SendAttempt::must_claim).collect();
        self.released.extend(missed);
    }

    /// Queues again all messages that were about to be sent.
    pub(super) fn requeue_claiming(&mut self) {
        for mut attempt in self.claim_queue.drain().collect::<Vec<_>>() {
            // A claim may have been requested, and granted meanwhile.
            attempt.claimed = true;
            self.cancel_trial(&mut attempt);
            self.requeue(attempt);
        }
    }

    /// Handles the workspace's answer to a request for claims.
    pub(super) fn granted(&mut self, granted: &Granted) {
        for mut dropped in self.claim_queue.granted(granted) {
            // A delivery report has settled the message.
            self.ledger.remove(&dropped.message);
            self.cancel_trial(&mut dropped);
            self.requeue_released_by(&dropped);
        }
    }

    /// Cancels the breaker's trial if this attempt is it: another message is tried.
    pub(super) fn cancel_trial(&mut self, attempt: &mut SendAttempt) {
        if std::mem::take(&mut attempt.trial) {
            self.breaker.undecided(true);
        }
    }

    /// Records whether the number sends.
    pub(super) fn note_state(&mut self, now: Timestamp) {
        let is = if self.breaker.open_until().is_some() {
            NumberState::Stopped
        } else if self.paused_until(now).is_some() {
            NumberState::Slow
        } else {
            NumberState::Open
        };
        self.ledger.set_state(is, now);
    }

    /// Returns the number's figures, without the values that only its slot has.
    pub(super) fn figures(&self, now: Timestamp) -> NumberFigures {
        NumberFigures {
            breaker_open: self.breaker.open_until().is_some(),
            is_account_stopped: self.breaker.trip() == Some(Trip::Stopped),
            failures: self.breaker.failures(),
            next_try_at: self.breaker.open_until().max(self.paused_until(now)),
            rate_set: self.connected.messages_per_second,
            in_flight: self.in_flight_or_claiming(),
            ..self.ledger.figures(now)
        }
    }
}

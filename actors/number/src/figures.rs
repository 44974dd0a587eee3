//! Pure: the figures of one number, and the counts of all numbers for the engine's metrics.
//!
//! Everything is counted as it happens, so that a report reads no queue.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use postrider_channel::number_facts::NumberFacts;
use postrider_channel::outcome::FinalOutcome;
use postrider_channel::{Failure, Origin, Outbound, Trouble};
use postrider_domain::Timestamp;
use postrider_domain::redact::redacted;

/// The number of kinds that are counted apart: codes, single messages, broadcasts.
pub const LANES: usize = 3;
/// The number of seconds over which the current rate is averaged.
const RATE_SECONDS: u64 = 10;
const MINUTE_SECONDS: usize = 60;

/// The state of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NumberState {
    /// It sends.
    #[default]
    Open,
    /// The provider asked for a pause.
    Slow,
    /// Its account cannot send, or its channel keeps failing.
    Stopped,
}

/// The messages of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneFigures {
    /// The number of messages without a final outcome.
    pub waiting: usize,
    /// The time at which the oldest of them was accepted, to the second.
    pub oldest: Option<Timestamp>,
}

/// The last error that a number met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberError {
    /// The provider's code, if it gave one.
    pub code: Option<u32>,
    /// The provider's message, with phones and tokens removed.
    pub message: String,
    /// The time of the error.
    pub at: Timestamp,
}

/// The figures of a number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NumberFigures {
    /// The state of the number: it sends, is paused or is stopped.
    pub state: NumberState,
    /// The start of this state; `None` if it is the first since the connection or the server's
    /// start.
    pub since: Option<Timestamp>,
    /// The reason for which it does not send, in the provider's words.
    pub reason: Option<String>,
    /// Set if calls are held back, because they kept failing.
    pub breaker_open: bool,
    /// Set if the account's inability to send is the reason.
    pub is_account_stopped: bool,
    /// The number of consecutive failures.
    pub failures: u32,
    /// The time of the next call.
    pub next_try_at: Option<Timestamp>,
    /// The maximum number of messages in a second; 0 for no limit.
    pub rate_set: u32,
    /// The recent rate of accepted messages in a second.
    pub rate_now: u32,
    /// The figures of codes, single messages and broadcasts.
    pub lanes: [LaneFigures; LANES],
    /// The number of messages that are with the channel, or about to be.
    pub in_flight: usize,
    /// The number of messages that were accepted in the last minute.
    pub sent_last_minute: u32,
    /// The last error.
    pub last_error: Option<NumberError>,
    /// The time of the provider's last callback.
    pub last_callback_at: Option<Timestamp>,
    /// The fields of callbacks since the start, each with the time of the last one.
    pub fields_seen: Vec<(&'static str, Timestamp)>,
    /// The provider's facts about the number.
    pub facts: NumberFacts,
}

/// The state of the numbers of one workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkspaceNumbers {
    /// The number of numbers with an open breaker, because their channel or account fails.
    pub stopped: usize,
    /// Messages that the channel accepted within the last hour, without codes, since the start.
    pub accepted_last_hour: u64,
}

/// Counts a number's messages by their state.
#[derive(Debug)]
pub(crate) struct FigureLedger {
    /// The number of waiting messages of each kind, by the second in which they were accepted.
    waiting: [BTreeMap<u64, usize>; LANES],
    counts: [usize; LANES],
    /// Seconds, and the number of messages sent in each.
    sent: [(u64, u32); MINUTE_SECONDS],
    state: NumberState,
    since: Option<Timestamp>,
}

impl Default for FigureLedger {
    fn default() -> Self {
        Self {
            waiting: Default::default(),
            counts: [0; LANES],
            sent: [(0, 0); MINUTE_SECONDS],
            state: NumberState::Open,
            since: None,
        }
    }
}

const fn lane(origin: Origin) -> usize {
    match origin {
        Origin::Otp { .. } => 0,
        Origin::Message(_) => 1,
        Origin::Broadcast { .. } => 2,
    }
}

fn second(at: Timestamp) -> u64 {
    at.as_millis() / 1000
}

impl FigureLedger {
    /// Counts a message that has arrived.
    pub(crate) fn add(&mut self, message: &Outbound) {
        let lane = lane(message.origin);
        let at = second(message.message_id.timestamp());
        *self.waiting[lane].entry(at).or_default() += 1;
        self.counts[lane] += 1;
    }

    /// Removes a message from the count: it has its outcome, or was returned.
    pub(crate) fn remove(&mut self, message: &Outbound) {
        let lane = lane(message.origin);
        let at = second(message.message_id.timestamp());
        if let Some(count) = self.waiting[lane].get_mut(&at) {
            *count -= 1;
            self.counts[lane] -= 1;
            if *count == 0 {
                self.waiting[lane].remove(&at);
            }
        }
    }

    /// Counts an accepted message.
    pub(crate) fn count_sent(&mut self, now: Timestamp) {
        let now = second(now);
        let place = &mut self.sent[(now % MINUTE_SECONDS as u64) as usize];
        *place = if place.0 == now { (now, place.1.saturating_add(1)) } else { (now, 1) };
    }

    /// Records the state of the number.
    pub(crate) fn set_state(&mut self, state: NumberState, now: Timestamp) {
        if state != self.state {
            (self.state, self.since) = (state, Some(now));
        }
    }

    /// Returns the counts and the state.
    pub(crate) fn figures(&self, now: Timestamp) -> NumberFigures {
        let oldest = |lane: usize| {
            let (at, _) = self.waiting[lane].first_key_value()?;
            Some(Timestamp::from_millis(at * 1000))
        };
        let of_lane = |lane| LaneFigures { waiting: self.counts[lane], oldest: oldest(lane) };
        NumberFigures {
            state: self.state,
            since: self.since,
            lanes: std::array::from_fn(of_lane),
            sent_last_minute: self.sent_within(MINUTE_SECONDS as u64, now),
            rate_now: self.sent_within(RATE_SECONDS, now).div_ceil(RATE_SECONDS as u32),
            ..NumberFigures::default()
        }
    }

    fn sent_within(&self, seconds: u64, now: Timestamp) -> u32 {
        let now = second(now);
        let recent = self.sent.iter().filter(|(at, _)| *at <= now && now - at < seconds);
        recent.map(|(_, count)| *count).sum()
    }
}

impl NumberError {
    pub(crate) fn of(failure: &Failure, at: Timestamp) -> Self {
        let message = Trouble::of(failure);
        let message = match &*failure.details {
            "" => message.cause.to_string(),
            details => redacted(details).to_string(),
        };
        Self { code: failure.code, message, at }
    }
}

/// The kinds of messages, in the order in which they are counted.
pub const KINDS: [&str; 3] = ["otp", "message", "broadcast"];
/// The final outcomes, in the order in which they are counted.
pub const OUTCOMES: [&str; 5] = ["sent", "failed", "unknown", "expired", "held"];

type OutcomeTable<T> = [[T; OUTCOMES.len()]; KINDS.len()];

/// The number of messages with each final outcome, by [`KINDS`] and [`OUTCOMES`].
#[derive(Debug, Default)]
pub struct OutcomeCounts(OutcomeTable<AtomicU64>);

impl OutcomeCounts {
    /// Counts these outcomes.
    pub fn count(&self, outcomes: &[(Origin, FinalOutcome)]) {
        let mut counts = OutcomeTable::<u64>::default();
        for (origin, settled) in outcomes {
            let kind = match origin {
                Origin::Otp { .. } => 0,
                Origin::Message(_) => 1,
                Origin::Broadcast { .. } => 2,
            };
            let outcome = match settled {
                FinalOutcome::Sent | FinalOutcome::SentAs(_) => 0,
                FinalOutcome::Failed(_) => 1,
                FinalOutcome::Unknown => 2,
                FinalOutcome::NotSentInTime => 3,
                FinalOutcome::Held(_) => 4,
            };
            counts[kind][outcome] += 1;
        }
        // Outcomes come many at once: one addition per kind and outcome keeps the counters, which
        // all numbers share, from being contended.
        for (all, new) in self.0.iter().flatten().zip(counts.into_iter().flatten()) {
            if new > 0 {
                all.fetch_add(new, Ordering::Relaxed);
            }
        }
    }

    /// Returns kind, outcome and count of each, in the order of [`KINDS`] and then [`OUTCOMES`].
    pub fn read(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let named =
            KINDS.iter().flat_map(|kind| OUTCOMES.iter().map(move |outcome| (kind, outcome)));
        let counts = self.0.iter().flatten().map(|count| count.load(Ordering::Relaxed));
        named.zip(counts).map(|((kind, outcome), count)| (*kind, *outcome, count))
    }
}

/// The lengths of all numbers' queues.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// The number of messages without a final outcome.
    pub messages: usize,
    /// The maximum that one number has.
    pub longest: usize,
    /// The number of numbers whose circuit breaker is open.
    pub down: usize,
}

#[cfg(test)]
mod tests {
    use postrider_channel::Failure;
    use postrider_domain::{BroadcastId, MessageId, RequestId};

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn what_waits_is_counted_by_kind_and_its_oldest_is_known() {
        let mut ledger = FigureLedger::default();
        let of = |origin, seconds| Outbound {
            origin,
            message_id: MessageId::from_parts(at(seconds), 1),
            ..crate::queue::tests::message(1, 100)
        };
        let otp = Origin::Otp { request_id: RequestId::from_parts(at(5), 1), number: 1 };
        let broadcast =
            Origin::Broadcast { broadcast: BroadcastId::from_parts(at(5), 1), index: 0 };
        let single = Origin::Message(MessageId::from_parts(at(5), 1));
        let messages = [of(otp, 5), of(otp, 7), of(broadcast, 6), of(single, 9)];
        messages.iter().for_each(|message| ledger.add(message));
        let lanes = ledger.figures(at(10)).lanes;
        let lane = |waiting, oldest| LaneFigures { waiting, oldest };
        assert_eq!(lanes, [lane(2, Some(at(5))), lane(1, Some(at(9))), lane(1, Some(at(6)))]);
        ledger.remove(&messages[0]);
        ledger.remove(&messages[2]);
        // A message that never arrived changes nothing.
        ledger.remove(&of(broadcast, 6));
        let lanes = ledger.figures(at(10)).lanes;
        assert_eq!(lanes, [lane(1, Some(at(7))), lane(1, Some(at(9))), lane(0, None)]);
    }

    #[test]
    fn what_was_sent_counts_for_a_minute() {
        let mut ledger = FigureLedger::default();
        for seconds in [100, 100, 101, 130, 159] {
            ledger.count_sent(at(seconds));
        }
        let sent = |seconds| ledger.figures(at(seconds)).sent_last_minute;
        assert_eq!((sent(159), sent(160), sent(161), sent(300)), (5, 3, 2, 0));
        assert_eq!(ledger.figures(at(130)).rate_now, 1);
        assert_eq!(ledger.figures(at(145)).rate_now, 0);
    }

    #[test]
    fn a_state_has_begun_when_it_was_first_seen() {
        let mut ledger = FigureLedger::default();
        ledger.set_state(NumberState::Open, at(1));
        assert_eq!(ledger.figures(at(2)).since, None);
        ledger.set_state(NumberState::Stopped, at(3));
        ledger.set_state(NumberState::Stopped, at(4));
        let figures = ledger.figures(at(5));
        assert_eq!((figures.state, figures.since), (NumberState::Stopped, Some(at(3))));
    }

    #[test]
    fn answers_are_counted_by_kind_and_outcome() {
        let otp = Origin::Otp { request_id: RequestId::from_bytes([0; 16]), number: 1 };
        let message = Origin::Message(MessageId::from_bytes([0; 16]));
        let broadcast = Origin::Broadcast { broadcast: BroadcastId::from_bytes([0; 16]), index: 0 };
        let failed = FinalOutcome::Failed(Failure::permanent(None));
        let outcomes = OutcomeCounts::default();
        outcomes.count(&[(otp, FinalOutcome::Sent), (otp, FinalOutcome::Sent), (message, failed)]);
        outcomes.count(&[(broadcast, FinalOutcome::Unknown), (otp, FinalOutcome::NotSentInTime)]);
        let counted: Vec<_> = outcomes.read().filter(|(.., count)| *count > 0).collect();
        let expected = [
            ("otp", "sent", 2),
            ("otp", "expired", 1),
            ("message", "failed", 1),
            ("broadcast", "unknown", 1),
        ];
        assert_eq!(counted, expected);
    }
}

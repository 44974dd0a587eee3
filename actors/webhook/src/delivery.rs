//! Pure: deliveries, their attempts and failures, the consequences of a failure, and retries.

use std::sync::Arc;
use std::time::Duration;

use postrider_domain::Timestamp;
use postrider_store::EventEntry;

use crate::queue::OrderingKey;
use crate::records::{OpenDelivery, WaitingDelivery};

/// One delivery: an event, or a batch of them. The sequence of the first event identifies it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Delivery {
    /// Sequence of the first event.
    pub(super) first: u64,
    /// Sequence of the last event.
    pub(super) last: u64,
    /// The events, if they are in memory; otherwise they are read again.
    pub(super) events: Option<Arc<[EventEntry]>>,
    /// The contact that the event is about, if the endpoint is ordered and this is no batch.
    pub(super) lane: Option<OrderingKey>,
    /// The events of a batch; `None` of a single event.
    pub(super) batch: Option<EventBatch>,
    /// Set if it is a replay. New events go before replays.
    pub(super) is_replay: bool,
}

impl Delivery {
    /// Returns the sequences of its first and last event that the log no longer has.
    ///
    /// `left` are the events that it still has.
    pub(super) fn forgotten(&self, left: &[EventEntry]) -> Option<(u64, u64)> {
        let first = self.batch.as_ref().and_then(EventBatch::first).unwrap_or(self.first);
        let last = left.first().map_or(self.last, |event| event.sequence - 1);
        (first <= last).then_some((first, last))
    }

    /// Returns its record while it waits for a retry or its turn.
    pub(super) fn waiting(&self, failures: u32, at: Option<Timestamp>) -> WaitingDelivery {
        let Self { last, lane, ref batch, is_replay, .. } = *self;
        WaitingDelivery { last, failures, at, lane, batch: batch.clone(), is_replay }
    }
}

/// The sequences of a batch's events, as runs: the first sequence and the length of each. A batch
/// stays the same if the endpoint's event types change after its first attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EventBatch(Vec<(u64, u64)>);

impl EventBatch {
    /// The batch of these sequences, which must ascend.
    pub(super) fn of(sequences: impl IntoIterator<Item = u64>) -> Self {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for sequence in sequences {
            match runs.last_mut() {
                Some((first, count)) if *first + *count == sequence => *count += 1,
                _ => runs.push((sequence, 1)),
            }
        }
        Self(runs)
    }

    /// The sequence of its first event.
    pub(super) fn first(&self) -> Option<u64> {
        self.0.first().map(|(first, _)| *first)
    }

    /// Returns its events after this sequence.
    pub(super) fn after(&self, sequence: u64) -> Self {
        let all = self.0.iter().flat_map(|(first, count)| *first..first + count);
        Self::of(all.filter(|it| *it > sequence))
    }

    /// Returns whether it contains the event of this sequence.
    pub(super) fn has(&self, sequence: u64) -> bool {
        self.0.iter().any(|(first, count)| (*first..first + count).contains(&sequence))
    }
}

/// An attempt at a delivery.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StartedAttempt {
    /// Identifies the attempt; unique while the actor runs.
    pub(super) serial: u64,
    /// The delivery.
    pub(super) delivery: Delivery,
    /// The number of earlier attempts that failed.
    pub(super) failures: u32,
    /// Set if the delivery has a waiting record.
    pub(super) stored: bool,
    /// When the endpoint was last enabled, as of the start of the attempt.
    pub(super) enabled_at: Timestamp,
}

/// The kind of an attempt's failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DeliveryFailure {
    /// There was no answer in time.
    pub(super) timed_out: bool,
    /// The endpoint answered 410: it is gone for good.
    pub(super) gone: bool,
    /// The endpoint asked for a pause.
    pub(super) slow_down: bool,
    /// The length of the pause, if it gave one.
    pub(super) retry_after: Option<Duration>,
}

/// The reason why an endpoint is disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DisabledReason {
    /// It answered 410.
    Gone,
    /// For five days no delivery succeeded.
    Failing,
    /// An administrator disabled it.
    Administrator,
}

impl DisabledReason {
    /// The reason's name: `gone`, `failing` or `administrator`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Failing => "failing",
            Self::Administrator => "administrator",
        }
    }
}

/// The consequences of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Aftermath {
    /// The time of the retry; `None` if the delivery is given up.
    pub(super) next_at: Option<Timestamp>,
    /// The reason why the endpoint must be disabled, if it must.
    pub(super) disable: Option<DisabledReason>,
}

/// The settings of an endpoint that its queue depends on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct QueueRules {
    pub(super) enabled: bool,
    pub(super) ordered: bool,
    pub(super) per_second: Option<std::num::NonZeroU32>,
    pub(super) enabled_at: Timestamp,
}

impl From<&StartedAttempt> for OpenDelivery {
    fn from(attempt: &StartedAttempt) -> Self {
        Self { failures: attempt.failures, ..Self::from(&attempt.delivery) }
    }
}

impl From<&Delivery> for OpenDelivery {
    fn from(delivery: &Delivery) -> Self {
        let Delivery { first, last, lane, ref batch, is_replay, .. } = *delivery;
        Self { first, last, failures: 0, lane, batch: batch.clone(), is_replay }
    }
}

const SECOND: u64 = 1;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// The seconds between the attempts of one delivery. Customers rely on this schedule.
const RETRIES: [u64; 9] = [
    5 * SECOND,
    5 * MINUTE,
    30 * MINUTE,
    2 * HOUR,
    5 * HOUR,
    10 * HOUR,
    14 * HOUR,
    20 * HOUR,
    24 * HOUR,
];
/// The time after which an endpoint with nothing but failures is disabled.
pub(super) const FAILING_MAX: Duration = Duration::from_secs(5 * 24 * HOUR);
/// The pause of an endpoint that asks for one without a length.
const PAUSE: Duration = Duration::from_secs(5);
/// The longest pause that an endpoint can ask for.
const PAUSE_MAX: Duration = Duration::from_secs(24 * HOUR);

/// Returns the wait of a delivery after a failure with `failures` before it.
///
/// `jitter`, a fraction from 0 to 1, varies it by up to a fifth. `None` if the delivery is given
/// up.
pub(super) fn retry_delay(failures: u32, jitter: f64) -> Option<Duration> {
    let seconds = RETRIES.get(usize::try_from(failures).ok()?)?;
    Some(Duration::from_secs(*seconds).mul_f64(0.8 + 0.4 * jitter))
}

/// Returns the pause of an endpoint that asks for one.
pub(super) fn pause_length(retry_after: Option<Duration>) -> Duration {
    retry_after.unwrap_or(PAUSE).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_knows_its_events() {
        let sequences = [3, 4, 5, 9, 11, 12];
        let batch = EventBatch::of(sequences);
        assert_eq!(batch.0, [(3, 3), (9, 1), (11, 2)]);
        for sequence in 0..20 {
            assert_eq!(batch.has(sequence), sequences.contains(&sequence), "{sequence}");
            let after = EventBatch::of(sequences.into_iter().filter(|it| *it > sequence));
            assert_eq!(batch.after(sequence), after, "{sequence}");
        }
        assert_eq!((batch.first(), batch.after(12).first()), (Some(3), None));
    }

    #[test]
    fn nine_more_tries_over_three_days() {
        let seconds = |jitter| {
            let delays = (0..).map_while(|failures| retry_delay(failures, jitter));
            delays.map(|delay| delay.as_millis()).collect::<Vec<_>>()
        };
        let minutes = |minutes: u128| minutes * 60_000;
        let hours = |hours: u128| minutes(hours * 60);
        let exact = vec![
            5_000,
            minutes(5),
            minutes(30),
            hours(2),
            hours(5),
            hours(10),
            hours(14),
            hours(20),
            hours(24),
        ];
        assert_eq!(seconds(0.5), exact);
        let least: Vec<_> = exact.iter().map(|millis| millis * 8 / 10).collect();
        let most: Vec<_> = exact.iter().map(|millis| millis * 12 / 10).collect();
        assert_eq!((seconds(0.0), seconds(1.0)), (least, most));
    }

    #[test]
    fn a_pause_is_as_long_as_asked_and_bounded() {
        for (asked, seconds) in [(None, 5), (Some(0), 0), (Some(90), 90), (Some(u64::MAX), 86_400)]
        {
            assert_eq!(pause_length(asked.map(Duration::from_secs)).as_secs(), seconds);
        }
    }
}

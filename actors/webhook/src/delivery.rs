//! Pure: deliveries, their attempts and failures, and the consequences of a failure.

use std::sync::Arc;
use std::time::Duration;

use postrider_domain::Timestamp;
use postrider_store::EventEntry;

use crate::queue::OrderingKey;
use crate::records::{OpenDelivery, WaitingDelivery};
use crate::retry_schedule::DisabledReason;

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
}

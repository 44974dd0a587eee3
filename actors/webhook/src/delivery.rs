//! Deliveries: what goes, how it went, and what follows.

use std::sync::Arc;
use std::time::Duration;

use postrider_domain::Timestamp;
use postrider_store::EventEntry;

use super::ordering::OrderingKey;
use super::records::{Open, Waiting};

/// One delivery: an event, or several in an array. It is named by the first's sequence.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parcel {
    /// Sequence of the first event.
    pub(super) first: u64,
    /// Sequence of the last event.
    pub(super) last: u64,
    /// The events, when they are at hand; otherwise they are read again.
    pub(super) events: Option<Arc<[EventEntry]>>,
    /// Whom the event is about, if the endpoint asks for order and this is no batch.
    pub(super) lane: Option<OrderingKey>,
    /// Which events these are, if they are delivered as an array.
    pub(super) batch: Option<Batch>,
    /// Somebody asked for it again: what is new goes first.
    pub(super) again: bool,
}

impl Parcel {
    /// From which event to which it is not there any more, when these are left of it.
    pub(super) fn forgotten(&self, left: &[EventEntry]) -> Option<(u64, u64)> {
        let first = self.batch.as_ref().and_then(Batch::first).unwrap_or(self.first);
        let last = left.first().map_or(self.last, |event| event.sequence - 1);
        (first <= last).then_some((first, last))
    }

    /// The record of it waiting for another try or its turn.
    pub(super) fn waiting(&self, failures: u32, at: Option<Timestamp>) -> Waiting {
        let Self { last, lane, ref batch, again, .. } = *self;
        Waiting { last, failures, at, lane, batch: batch.clone(), again }
    }
}

/// The sequences of a batch's events, as runs: the first of each, and how many there are. Whatever
/// types the endpoint is given after it was tried, it is the same batch.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Batch(Vec<(u64, u64)>);

impl Batch {
    /// The batch of these sequences, which ascend.
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

    /// What of it comes after this sequence.
    pub(super) fn after(&self, sequence: u64) -> Self {
        let all = self.0.iter().flat_map(|(first, count)| *first..first + count);
        Self::of(all.filter(|it| *it > sequence))
    }

    /// Whether the event of this sequence is one of it.
    pub(super) fn has(&self, sequence: u64) -> bool {
        self.0.iter().any(|(first, count)| (*first..first + count).contains(&sequence))
    }
}

/// A try of a delivery.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Attempt {
    /// Tells tries apart.
    pub(super) serial: u64,
    /// What is delivered.
    pub(super) parcel: Parcel,
    /// Tries that failed before.
    pub(super) failures: u32,
    /// Whether a record says that it waits.
    pub(super) stored: bool,
    /// When the endpoint was enabled that it goes to.
    pub(super) enabled_at: Timestamp,
}

/// How a try went wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Failure {
    /// There was no answer in time.
    pub(super) timed_out: bool,
    /// The endpoint says that it is gone for good.
    pub(super) gone: bool,
    /// The endpoint asks to be left alone.
    pub(super) slow_down: bool,
    /// For how long, if it said.
    pub(super) retry_after: Option<Duration>,
}

/// Why an endpoint must be disabled.
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

/// What follows from a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Aftermath {
    /// When the delivery is tried again; `None`: it is given up.
    pub(super) next_at: Option<Timestamp>,
    /// Whether the endpoint must be disabled.
    pub(super) disable: Option<DisabledReason>,
}

/// The settings of an endpoint that its line goes by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct QueueRules {
    pub(super) enabled: bool,
    pub(super) ordered: bool,
    pub(super) per_second: Option<std::num::NonZeroU32>,
    pub(super) enabled_at: Timestamp,
}

impl From<&Attempt> for Open {
    fn from(attempt: &Attempt) -> Self {
        Self { failures: attempt.failures, ..Self::from(&attempt.parcel) }
    }
}

impl From<&Parcel> for Open {
    fn from(parcel: &Parcel) -> Self {
        let Parcel { first, last, lane, ref batch, again, .. } = *parcel;
        Self { first, last, failures: 0, lane, batch: batch.clone(), again }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_knows_its_events() {
        let sequences = [3, 4, 5, 9, 11, 12];
        let batch = Batch::of(sequences);
        assert_eq!(batch.0, [(3, 3), (9, 1), (11, 2)]);
        for sequence in 0..20 {
            assert_eq!(batch.has(sequence), sequences.contains(&sequence), "{sequence}");
            let after = Batch::of(sequences.into_iter().filter(|it| *it > sequence));
            assert_eq!(batch.after(sequence), after, "{sequence}");
        }
        assert_eq!((batch.first(), batch.after(12).first()), (Some(3), None));
    }
}

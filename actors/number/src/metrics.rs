//! Pure: the figures of all numbers, for the engine's metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use postrider_channel::Origin;
use postrider_channel::outcome::FinalOutcome;

/// The kinds of messages, in the order in which they are counted.
pub const KINDS: [&str; 3] = ["otp", "message", "broadcast"];
/// The final outcomes, in the order in which they are counted.
pub const OUTCOMES: [&str; 5] = ["sent", "failed", "unknown", "expired", "held"];

type Counts<T> = [[T; OUTCOMES.len()]; KINDS.len()];

/// The number of messages with each final outcome, by [`KINDS`] and [`OUTCOMES`].
#[derive(Debug, Default)]
pub struct OutcomeCounts(Counts<AtomicU64>);

impl OutcomeCounts {
    /// Counts these outcomes.
    pub fn count(&self, outcomes: &[(Origin, FinalOutcome)]) {
        let mut counts = Counts::<u64>::default();
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
    use super::*;
    use postrider_channel::Failure;
    use postrider_domain::{BroadcastId, MessageId, RequestId};

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

//! What the numbers tell of themselves to whoever watches the engine.

use std::sync::atomic::{AtomicU64, Ordering};

use postrider_channel::Origin;
use postrider_channel::outcome::FinalOutcome;

use super::Numbers;

/// What a message is part of, in the order in which it is counted.
pub const KINDS: [&str; 3] = ["otp", "message", "broadcast"];
/// What became of it.
pub const OUTCOMES: [&str; 4] = ["sent", "failed", "unknown", "expired"];

type Counts<T> = [[T; OUTCOMES.len()]; KINDS.len()];

/// Final answers for messages, by [`KINDS`] and [`OUTCOMES`].
#[derive(Debug, Default)]
pub struct OutcomeCounts(Counts<AtomicU64>);

impl OutcomeCounts {
    /// Counts answers.
    pub fn count(&self, answers: &[(Origin, FinalOutcome)]) {
        let mut counts = Counts::<u64>::default();
        for (origin, settled) in answers {
            let kind = match origin {
                Origin::Otp { .. } => 0,
                Origin::Message(_) => 1,
                Origin::Broadcast { .. } => 2,
            };
            let outcome = match settled {
                FinalOutcome::Sent => 0,
                FinalOutcome::Failed(_) => 1,
                FinalOutcome::Unknown => 2,
                FinalOutcome::NotSentInTime => 3,
            };
            counts[kind][outcome] += 1;
        }
        // Many answers come at once: few of them touch what all numbers share.
        for (all, new) in self.0.iter().flatten().zip(counts.into_iter().flatten()) {
            if new > 0 {
                all.fetch_add(new, Ordering::Relaxed);
            }
        }
    }

    /// Kind, outcome, count.
    pub fn read(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let named =
            KINDS.iter().flat_map(|kind| OUTCOMES.iter().map(move |outcome| (kind, outcome)));
        let counts = self.0.iter().flatten().map(|count| count.load(Ordering::Relaxed));
        named.zip(counts).map(|((kind, outcome), count)| (*kind, *outcome, count))
    }
}

/// How the numbers are.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// Messages that they have and that are not answered for.
    pub messages: usize,
    /// The most that one has.
    pub longest: usize,
    /// Numbers whose breaker is open.
    pub down: usize,
}

impl Numbers {
    /// How the numbers are now.
    pub fn queues(&self) -> Queues {
        let mut queues = Queues::default();
        self.directory.for_each(|_, slot| {
            let queue = slot.queue.load(Ordering::Relaxed);
            queues.messages += queue;
            queues.longest = queues.longest.max(queue);
            queues.down += usize::from(slot.down_until_ms.load(Ordering::Relaxed) > 0);
        });
        queues
    }
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

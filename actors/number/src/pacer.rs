//! The pacer: so many messages in a second, with one second's worth at once. It delays and drops
//! nothing.
//!
//! What has time leaves a tenth of a second's worth, so that what goes first need not wait for the
//! next token while a broadcast uses up all of them. The rate of both together is the same.

use postrider_channel::Lane;
use postrider_domain::Timestamp;

const SECOND_NS: u64 = 1_000_000_000;
/// What the bulk lane leaves, in the time that it takes to fill.
const LEFT_NS: u64 = SECOND_NS / 10;

/// A token bucket, full at first, kept as GCRA keeps it: by the moment at which it is full again.
/// Pure: the caller tells the time.
#[derive(Debug)]
pub(super) struct Pacer {
    /// Time for one token.
    token_ns: u64,
    /// Nanoseconds since the epoch.
    full_at_ns: u64,
}

impl Pacer {
    /// One of this many messages in a second; `None` for 0, which is no limit.
    pub(super) fn new(messages_per_second: u32) -> Option<Self> {
        let token_ns = SECOND_NS.checked_div(u64::from(messages_per_second))?.max(1);
        Some(Self { token_ns, full_at_ns: 0 })
    }

    /// When the next message of a lane may go: `now` or before it if it may at once.
    pub(super) fn ready_at(&self, lane: Lane) -> Timestamp {
        let left_ns = match lane {
            Lane::First => 0,
            // No more than leaves room for one token.
            Lane::Bulk => LEFT_NS.min(SECOND_NS.saturating_sub(self.token_ns)),
        };
        let ready_ns = (self.full_at_ns + self.token_ns + left_ns).saturating_sub(SECOND_NS);
        Timestamp::from_millis(ready_ns.div_ceil(1_000_000))
    }

    /// How many messages of what goes first may go at once.
    pub(super) fn tokens(&self, now: Timestamp) -> usize {
        let now_ns = now.as_millis().saturating_mul(1_000_000);
        let taken_ns = self.full_at_ns.saturating_sub(now_ns);
        usize::try_from(SECOND_NS.saturating_sub(taken_ns) / self.token_ns).unwrap_or(usize::MAX)
    }

    /// Takes a token for a message that goes now.
    pub(super) fn take(&mut self, now: Timestamp) {
        let now_ns = now.as_millis().saturating_mul(1_000_000);
        self.full_at_ns = self.full_at_ns.max(now_ns).saturating_add(self.token_ns);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + ms)
    }

    /// Sends as fast as the lane may for this long; gives the moments.
    fn sent(lane: Lane, rate: u32, for_ms: u64) -> Vec<u64> {
        let mut pacer = Pacer::new(rate).unwrap();
        let mut sent = Vec::new();
        for ms in 0..for_ms {
            while pacer.ready_at(lane) <= at(ms) {
                pacer.take(at(ms));
                sent.push(ms);
            }
        }
        sent
    }

    #[test]
    fn a_seconds_worth_goes_at_once_and_then_one_by_one() {
        for rate in [1, 7, 80, 1000] {
            let mut pacer = Pacer::new(rate).unwrap();
            for left in (0..rate as usize).rev() {
                pacer.take(at(0));
                assert_eq!(pacer.tokens(at(0)), left);
            }
            assert_eq!(pacer.tokens(at(1000)), rate as usize);
            let sent = sent(Lane::First, rate, 10_000);
            let burst = sent.iter().filter(|ms| **ms == 0).count();
            assert_eq!(burst, rate as usize);
            // The tenth second ends just before its last token.
            assert_eq!(sent.len(), 11 * rate as usize - 1, "{rate}");
        }
        assert!(Pacer::new(0).is_none());
    }

    #[test]
    fn what_has_time_goes_at_the_same_rate_and_leaves_some_for_what_goes_first() {
        for (rate, left) in [(1, 0), (2, 0), (7, 0), (20, 2), (80, 8), (1000, 100)] {
            let sent = sent(Lane::Bulk, rate, 10_000);
            let burst = sent.iter().filter(|ms| **ms == 0).count();
            // Of a rate below ten less than a token is left, which the first message waits for.
            let burst_expected = if rate == 1 { 1 } else { rate - left - u32::from(left == 0) };
            assert_eq!(burst, burst_expected as usize, "{rate}");
            let later = sent.iter().filter(|ms| **ms >= 1000).count();
            assert!(later.abs_diff(9 * rate as usize) <= 1, "{rate}: {later}");
            let mut pacer = Pacer::new(rate).unwrap();
            while pacer.ready_at(Lane::Bulk) <= at(0) {
                pacer.take(at(0));
            }
            for _ in 0..left {
                assert!(pacer.ready_at(Lane::First) <= at(0), "{rate}");
                pacer.take(at(0));
            }
        }
    }

    #[test]
    fn a_pause_fills_it_up_to_one_second() {
        let mut pacer = Pacer::new(10).unwrap();
        for now in [0, 60_000, 3_600_000] {
            for _ in 0..10 {
                assert!(pacer.ready_at(Lane::First) <= at(now));
                pacer.take(at(now));
            }
            assert_eq!(pacer.ready_at(Lane::First), at(now + 100));
        }
    }

    proptest! {
        /// In no second more than twice the rate, in no longer time more than the rate and a burst.
        #[test]
        fn it_never_lets_more_through(rate in 1_u32..2000, gaps in prop::collection::vec((0_u64..400, any::<bool>()), 1..200)) {
            let mut pacer = Pacer::new(rate).unwrap();
            let (mut now, mut count) = (0, 0_u64);
            for (gap, bulk) in gaps {
                now += gap;
                let lane = if bulk { Lane::Bulk } else { Lane::First };
                while pacer.ready_at(lane) <= at(now) {
                    pacer.take(at(now));
                    count += 1;
                }
                prop_assert!(count <= u64::from(rate) + now * u64::from(rate) / 1000 + 1);
            }
        }
    }
}

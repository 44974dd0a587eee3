//! Pure: a token bucket with one owner, by GCRA. It delays calls and refuses none.
//!
//! GCRA, the generic cell rate algorithm, has one number: the moment at which the bucket is full
//! again if nothing more is taken. A deferrable call can leave a reserve in the bucket, so that an
//! urgent one need not wait for the next token. The rate of both together is the same.

use std::time::Duration;

use postrider_domain::Timestamp;

const SECOND_NS: u64 = 1_000_000_000;
const MICROSECOND_NS: u64 = 1_000;
const MILLISECOND_NS: u64 = 1_000_000;

/// The rate at which a bucket fills, and its capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rate {
    /// The time in which one token is added, in nanoseconds; 0 is no limit.
    token_ns: u64,
    /// The time in which an empty bucket fills, in nanoseconds; not less than one token's.
    capacity_ns: u64,
}

impl Rate {
    /// No limit: every call may start at once.
    pub const UNLIMITED: Self = Self { token_ns: 0, capacity_ns: 0 };

    /// Returns this many tokens in a second, with a burst of one second's worth; 0 is no limit.
    #[must_use]
    pub fn bursty(tokens_per_second: u32) -> Self {
        let token_ns = SECOND_NS.checked_div(u64::from(tokens_per_second));
        token_ns.map_or(Self::UNLIMITED, |token_ns| Self {
            // A token that takes no time would be no limit.
            token_ns: token_ns.max(1),
            capacity_ns: SECOND_NS,
        })
    }

    /// Returns this many tokens in a second, evenly spaced; 0 is no limit.
    ///
    /// The burst is a tenth of a second's worth. The time of one token is rounded up to a
    /// microsecond.
    #[must_use]
    pub const fn smooth(tokens_per_second: u32) -> Self {
        if tokens_per_second == 0 {
            return Self::UNLIMITED;
        }
        let token_us = (SECOND_NS / MICROSECOND_NS).div_ceil(tokens_per_second as u64);
        let token_ns = token_us * MICROSECOND_NS;
        // Less than one token would never let anything through.
        let tokens = if tokens_per_second < 20 { 1 } else { tokens_per_second as u64 / 10 };
        Self { token_ns, capacity_ns: token_ns * tokens }
    }

    const fn is_unlimited(self) -> bool {
        self.token_ns == 0
    }
}

/// A token bucket, full at first. By default it has no limit.
#[derive(Debug, Default)]
pub struct TokenBucket {
    rate: Rate,
    /// The time at which it is full, in nanoseconds since the epoch: enough until the year 2554.
    full_at_ns: u64,
}

impl TokenBucket {
    /// Creates a full bucket.
    #[must_use]
    pub const fn new(rate: Rate) -> Self {
        Self { rate, full_at_ns: 0 }
    }

    /// Applies a new rate. Tokens that were taken before stay taken.
    pub const fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
    }

    /// Returns the time of the next token; not after the present moment if one may be taken at
    /// once.
    #[must_use]
    pub fn ready_at(&self) -> Timestamp {
        self.ready_at_leaving(Duration::ZERO)
    }

    /// Returns the time at which a token is available that leaves a reserve.
    ///
    /// The reserve is as much as fills in the time `reserve`, but at most so much that one token
    /// fits beside it.
    #[must_use]
    pub fn ready_at_leaving(&self, reserve: Duration) -> Timestamp {
        if self.rate.is_unlimited() {
            return Timestamp::default();
        }
        let Rate { token_ns, capacity_ns } = self.rate;
        let reserve_ns = u64::try_from(reserve.as_nanos()).unwrap_or(u64::MAX);
        let reserve_ns = reserve_ns.min(capacity_ns.saturating_sub(token_ns));
        let full_ns = self.full_at_ns.saturating_add(token_ns).saturating_add(reserve_ns);
        Timestamp::from_millis(full_ns.saturating_sub(capacity_ns).div_ceil(MILLISECOND_NS))
    }

    /// Returns the number of tokens that may be taken at once, without a reserve.
    #[must_use]
    pub fn tokens(&self, now: Timestamp) -> usize {
        let taken_ns = self.full_at_ns.saturating_sub(nanos(now));
        let left_ns = self.rate.capacity_ns.saturating_sub(taken_ns);
        let tokens = left_ns.checked_div(self.rate.token_ns);
        tokens.and_then(|tokens| usize::try_from(tokens).ok()).unwrap_or(usize::MAX)
    }

    /// Takes a token. It never refuses: the caller must check [`ready_at`](Self::ready_at) first.
    pub fn take(&mut self, now: Timestamp) {
        if !self.rate.is_unlimited() {
            self.full_at_ns = self.full_at_ns.max(nanos(now)).saturating_add(self.rate.token_ns);
        }
    }
}

/// Returns the nanoseconds since the epoch.
const fn nanos(at: Timestamp) -> u64 {
    at.as_millis().saturating_mul(MILLISECOND_NS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The reserve that a number's bulk lane leaves.
    const RESERVE: Duration = Duration::from_millis(100);

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + ms)
    }

    /// Sends as fast as possible for `for_ms`, and returns the moments.
    fn sent(reserve: Duration, rate: u32, for_ms: u64) -> Vec<u64> {
        let mut bucket = TokenBucket::new(Rate::bursty(rate));
        let mut sent = Vec::new();
        for ms in 0..for_ms {
            while bucket.ready_at_leaving(reserve) <= at(ms) {
                bucket.take(at(ms));
                sent.push(ms);
            }
        }
        sent
    }

    #[test]
    fn a_seconds_worth_goes_at_once_and_then_one_by_one() {
        for rate in [1, 7, 80, 1000] {
            let mut bucket = TokenBucket::new(Rate::bursty(rate));
            for left in (0..rate as usize).rev() {
                bucket.take(at(0));
                assert_eq!(bucket.tokens(at(0)), left);
            }
            assert_eq!(bucket.tokens(at(1000)), rate as usize);
            let sent = sent(Duration::ZERO, rate, 10_000);
            let burst = sent.iter().filter(|ms| **ms == 0).count();
            assert_eq!(burst, rate as usize);
            // The tenth second ends just before its last token.
            assert_eq!(sent.len(), 11 * rate as usize - 1, "{rate}");
        }
    }

    #[test]
    fn what_has_time_goes_at_the_same_rate_and_leaves_some_for_what_goes_first() {
        for (rate, left) in [(1, 0), (2, 0), (7, 0), (20, 2), (80, 8), (1000, 100)] {
            let sent = sent(RESERVE, rate, 10_000);
            let burst = sent.iter().filter(|ms| **ms == 0).count();
            // At a rate below ten less than a token is left, for which the first message waits.
            let burst_expected = if rate == 1 { 1 } else { rate - left - u32::from(left == 0) };
            assert_eq!(burst, burst_expected as usize, "{rate}");
            let later = sent.iter().filter(|ms| **ms >= 1000).count();
            assert!(later.abs_diff(9 * rate as usize) <= 1, "{rate}: {later}");
            let mut bucket = TokenBucket::new(Rate::bursty(rate));
            while bucket.ready_at_leaving(RESERVE) <= at(0) {
                bucket.take(at(0));
            }
            for _ in 0..left {
                assert!(bucket.ready_at() <= at(0), "{rate}");
                bucket.take(at(0));
            }
        }
    }

    #[test]
    fn a_reserve_that_leaves_no_room_for_a_token_is_smaller() {
        for (rate, ready_ms) in [(1, 1000), (2, 600), (10, 200)] {
            let mut bucket = TokenBucket::new(Rate::bursty(rate));
            (0..rate).for_each(|_| bucket.take(at(0)));
            assert_eq!(bucket.ready_at_leaving(RESERVE), at(ready_ms), "{rate}");
        }
        let mut even = TokenBucket::new(Rate::smooth(10));
        even.take(at(0));
        assert_eq!(even.ready_at_leaving(RESERVE), even.ready_at());
    }

    #[test]
    fn a_pause_fills_it_up_to_one_second() {
        let mut bucket = TokenBucket::new(Rate::bursty(10));
        for now in [0, 60_000, 3_600_000] {
            for _ in 0..10 {
                assert!(bucket.ready_at() <= at(now));
                bucket.take(at(now));
            }
            assert_eq!(bucket.ready_at(), at(now + 100));
        }
    }

    #[test]
    fn a_smooth_rate_is_kept() {
        for (per_second, most) in [(1, 11), (7, 71), (100, 1010), (1000, 10_100)] {
            let mut bucket = TokenBucket::new(Rate::smooth(per_second));
            let mut sent = 0;
            for ms in 0..=10_000 {
                while bucket.ready_at() <= at(ms) {
                    bucket.take(at(ms));
                    sent += 1;
                }
            }
            assert!(sent <= most && sent >= per_second * 10, "{per_second}: {sent}");
        }
    }

    #[test]
    fn a_tenth_of_a_second_goes_at_once_and_at_least_one() {
        for (per_second, burst) in [(1, 1), (19, 1), (20, 2), (100, 10), (1000, 100)] {
            let bucket = TokenBucket::new(Rate::smooth(per_second));
            assert_eq!(bucket.tokens(at(0)), burst, "{per_second}");
        }
    }

    #[test]
    fn zero_is_no_limit() {
        let unlimited = [Rate::bursty(0), Rate::smooth(0), Rate::UNLIMITED];
        for mut bucket in unlimited.map(TokenBucket::new) {
            assert_eq!(bucket.tokens(at(0)), usize::MAX);
            (0..1000).for_each(|_| bucket.take(at(0)));
            assert_eq!(bucket.ready_at_leaving(RESERVE), Timestamp::default());
            assert_eq!(bucket.tokens(at(0)), usize::MAX);
        }
        assert_eq!(TokenBucket::default().ready_at(), Timestamp::default());
    }

    #[test]
    fn what_was_taken_stays_taken_when_the_rate_changes() {
        let mut bucket = TokenBucket::new(Rate::smooth(1));
        bucket.take(at(0));
        assert_eq!(bucket.ready_at(), at(1000));
        bucket.set_rate(Rate::smooth(10));
        assert_eq!(bucket.ready_at(), at(1000));
        bucket.set_rate(Rate::UNLIMITED);
        assert_eq!(bucket.ready_at(), Timestamp::default());
        bucket.take(at(0));
        bucket.set_rate(Rate::smooth(1));
        assert_eq!(bucket.ready_at(), at(1000));
    }

    #[test]
    fn a_burst_is_there_once_however_often_the_rate_changes() {
        let mut bucket = TokenBucket::new(Rate::bursty(20));
        (0..20).for_each(|_| bucket.take(at(0)));
        for rate in [1000, 20, 0, 20, 80] {
            bucket.set_rate(Rate::bursty(rate));
            let empty = if rate == 0 { usize::MAX } else { 0 };
            assert_eq!(bucket.tokens(at(0)), empty, "{rate}");
        }
        assert_eq!(bucket.tokens(at(1000)), 80);
        // Tokens taken without a limit are not counted: a limit starts with a full bucket.
        let mut bucket = TokenBucket::new(Rate::bursty(0));
        bucket.take(at(0));
        bucket.set_rate(Rate::bursty(20));
        assert_eq!(bucket.tokens(at(0)), 20);
    }

    #[test]
    fn the_largest_rate_is_a_limit_and_the_end_of_time_no_panic() {
        let end = Timestamp::from_millis(u64::MAX);
        for rate in [Rate::bursty(1), Rate::bursty(u32::MAX), Rate::smooth(u32::MAX)] {
            let mut bucket = TokenBucket::new(rate);
            assert!(bucket.tokens(at(0)) < usize::MAX);
            (0..3).for_each(|_| bucket.take(end));
            assert!(bucket.ready_at_leaving(Duration::MAX) <= end);
        }
    }

    proptest! {
        /// At most twice the rate passes in a second, and over longer times the rate and a burst.
        #[test]
        fn it_never_lets_more_through(rate in 1_u32..2000, gaps in prop::collection::vec((0_u64..400, any::<bool>()), 1..200)) {
            let mut bucket = TokenBucket::new(Rate::bursty(rate));
            let (mut now, mut count) = (0, 0_u64);
            for (gap, bulk) in gaps {
                now += gap;
                let reserve = if bulk { RESERVE } else { Duration::ZERO };
                while bucket.ready_at_leaving(reserve) <= at(now) {
                    bucket.take(at(now));
                    count += 1;
                }
                prop_assert!(count <= u64::from(rate) + now * u64::from(rate) / 1000 + 1);
            }
        }
    }
}

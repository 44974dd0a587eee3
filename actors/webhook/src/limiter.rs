//! How many deliveries an endpoint gets at once, and how often: learned from how it answers.

use std::num::NonZeroU32;
use std::time::Duration;

use postrider_domain::Timestamp;

/// Most deliveries to one endpoint at once.
const LIMIT_MAX: f64 = 64.0;
/// An answer that takes this long is as bad as a failure.
const SLOW: Duration = Duration::from_secs(5);
/// One that takes many times the usual is too, from here on.
const SLUGGISH: Duration = Duration::from_millis(500);
/// How many times the usual.
const SLUGGISH_TIMES: u32 = 4;

/// Deliveries at once: doubled with each round at first, then one more with each round, halved by
/// an answer that is late or a failure, and one after a timeout.
#[derive(Debug)]
pub(super) struct Limiter {
    limit: f64,
    /// Up to here it doubles.
    threshold: f64,
    /// What an answer usually takes.
    usual: Option<Duration>,
}

impl Default for Limiter {
    fn default() -> Self {
        Self { limit: 1.0, threshold: LIMIT_MAX, usual: None }
    }
}

impl Limiter {
    /// Deliveries that may be under way at once, 1 to 64.
    pub(super) fn limit(&self) -> usize {
        // From 1 to 64, so nothing is cut off but the fraction.
        self.limit as usize
    }

    /// The endpoint took a delivery.
    pub(super) fn succeeded(&mut self, latency: Duration) {
        let usual = self.usual.unwrap_or(latency);
        let sluggish = latency >= SLUGGISH && latency > usual * SLUGGISH_TIMES;
        self.usual = Some(usual.mul_f64(0.9) + latency.mul_f64(0.1));
        if latency >= SLOW || sluggish {
            self.failed();
        } else {
            let more = if self.limit < self.threshold { 1.0 } else { 1.0 / self.limit };
            self.limit = (self.limit + more).min(LIMIT_MAX);
        }
    }

    /// The endpoint refused one.
    pub(super) fn failed(&mut self) {
        self.limit = (self.limit / 2.0).max(1.0);
        self.threshold = self.limit;
    }

    /// The endpoint did not answer in time.
    pub(super) fn timed_out(&mut self) {
        self.failed();
        self.limit = 1.0;
    }
}

/// Deliveries in a second, evenly apart: one every `1/n` seconds, with up to a tenth of a second's
/// worth at once.
#[derive(Debug, Default)]
pub(super) struct Pace {
    per_second: Option<NonZeroU32>,
    /// When the next is due if none is early, in microseconds.
    next_us: u64,
}

impl Pace {
    pub(super) fn set(&mut self, per_second: Option<NonZeroU32>) {
        self.per_second = per_second;
    }

    /// When the next may go.
    pub(super) fn ready_at(&self) -> Timestamp {
        let Some(per_second) = self.per_second else { return Timestamp::default() };
        let early_us = u64::from(per_second.get() / 10).saturating_sub(1) * interval_us(per_second);
        Timestamp::from_millis(self.next_us.saturating_sub(early_us).div_ceil(1000))
    }

    /// One goes now.
    pub(super) fn take(&mut self, now: Timestamp) {
        let Some(per_second) = self.per_second else { return };
        let now_us = now.as_millis().saturating_mul(1000);
        self.next_us = self.next_us.max(now_us).saturating_add(interval_us(per_second));
    }
}

fn interval_us(per_second: NonZeroU32) -> u64 {
    1_000_000_u64.div_ceil(u64::from(per_second.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Duration = Duration::from_millis(20);

    #[test]
    fn it_grows_with_answers_and_shrinks_with_failures() {
        let mut limiter = Limiter::default();
        let mut limits = vec![limiter.limit()];
        for _ in 0..6 {
            for _ in 0..limiter.limit() {
                limiter.succeeded(FAST);
            }
            limits.push(limiter.limit());
        }
        assert_eq!(limits, [1, 2, 4, 8, 16, 32, 64]);
        limiter.succeeded(FAST);
        assert_eq!(limiter.limit(), 64, "no more than that");
        limiter.failed();
        assert_eq!(limiter.limit(), 32);
        for _ in 0..33 {
            limiter.succeeded(FAST);
        }
        assert_eq!(limiter.limit(), 33, "one more a round");
        limiter.timed_out();
        assert_eq!(limiter.limit(), 1);
        for _ in 0..3 {
            limiter.succeeded(FAST);
        }
        assert_eq!(limiter.limit(), 4, "then 1, 2, 4");
        for _ in 0..10 {
            limiter.failed();
        }
        assert_eq!(limiter.limit(), 1);
    }

    #[test]
    fn a_late_answer_counts_as_a_failure() {
        let grown = || {
            let mut limiter = Limiter::default();
            (0..15).for_each(|_| limiter.succeeded(FAST));
            limiter
        };
        for (millis, limit) in [(20, 17), (499, 17), (500, 8), (4999, 8), (5000, 8)] {
            let mut limiter = grown();
            assert_eq!(limiter.limit(), 16);
            limiter.succeeded(Duration::from_millis(millis));
            assert_eq!(limiter.limit(), limit, "{millis}");
        }
        let mut slow = Limiter::default();
        (0..20).for_each(|_| slow.succeeded(SLOW));
        assert_eq!(slow.limit(), 1, "one that is always slow too");
    }

    #[test]
    fn a_rate_is_kept() {
        for (per_second, most) in [(1, 11), (7, 71), (100, 1010), (1000, 10_100)] {
            let mut pace = Pace::default();
            pace.set(NonZeroU32::new(per_second));
            let mut sent = 0;
            for millis in 0..=10_000 {
                let now = Timestamp::from_millis(1_700_000_000_000 + millis);
                while pace.ready_at() <= now {
                    pace.take(now);
                    sent += 1;
                }
            }
            assert!(sent <= most && sent >= per_second * 10, "{per_second}: {sent}");
        }
        assert_eq!(Pace::default().ready_at(), Timestamp::default());
    }
}

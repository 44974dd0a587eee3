//! Pure: adaptive limits on calls in flight, which follow the answers to the calls.
//!
//! There are two algorithms, because each was measured with its kind of target. A messaging number
//! calls a provider that accepts many calls at once and whose latency shows its load:
//! [`GradientLimit`]. A webhook endpoint is a customer's server, which may accept one call at a
//! time or be down: [`AimdLimit`].

use std::time::Duration;

/// A limit that follows the gradient of latency.
///
/// It allows a few calls more while answers are as quick as usual. It allows fewer when they get
/// slower or the other side throttles.
///
/// It starts at 16 and grows with each answer. Once something has slowed it down, it grows by one
/// with each round. The caller measures latency.
#[derive(Debug)]
pub struct GradientLimit {
    limit: f64,
    /// Set during the slow start: nothing has shrunk the limit yet, and it grows with each answer.
    opening: bool,
    /// The recent average latency in milliseconds. The next field is the usual one.
    average_ms: f64,
    usual_ms: f64,
    /// The number of measured answers.
    measured: f64,
    /// The number of answers since the limit last fell.
    ///
    /// Calls that were in flight then carry no new information.
    answers: f64,
}

impl Default for GradientLimit {
    fn default() -> Self {
        Self {
            limit: Self::START,
            opening: true,
            average_ms: 0.0,
            usual_ms: 0.0,
            measured: 0.0,
            answers: Self::START,
        }
    }
}

impl GradientLimit {
    /// The first limit; slowness shrinks it no further than this.
    const START: f64 = 16.0;
    const MAX: f64 = 1000.0;
    /// The factor by which a throttle shrinks the limit.
    const THROTTLED: f64 = 0.5;
    /// The factor by which slowness shrinks the limit.
    const SLOW: f64 = 0.7;
    /// Answers are slow when they take more than twice as long as usual plus this.
    const SLACK_MS: f64 = 50.0;
    /// The weight of one answer in the average.
    ///
    /// It is small because the latencies of one channel vary widely, whatever its load.
    const WEIGHT: f64 = 0.01;
    /// The rates at which the usual latency follows the average, down and up.
    ///
    /// Lasting slowness becomes usual.
    const USUAL_DOWN: f64 = 0.01;
    const USUAL_UP: f64 = 0.001;

    /// Returns the maximum number of calls in flight: 1 to 1000.
    #[must_use]
    pub const fn limit(&self) -> usize {
        // The limit is from 1 to 1000, so that only the fraction is cut off.
        self.limit as usize
    }

    /// Records the latency of an answer, and how many calls were in flight, this one included.
    pub fn answered(&mut self, took: Duration, in_flight: usize) {
        self.measure(took.as_secs_f64() * 1000.0);
        self.answers += 1.0;
        // At a low limit the other side is slow for another reason than our calls.
        if self.limit > Self::START && self.average_ms > 2.0 * self.usual_ms + Self::SLACK_MS {
            self.shrink(Self::SLOW, Self::START);
        } else if in_flight * 2 >= self.limit() {
            // The limit grows only while at least half of it is used.
            let step = if self.opening { 1.0 } else { 1.0 / self.limit };
            self.limit = (self.limit + step).min(Self::MAX);
        }
    }

    fn measure(&mut self, took_ms: f64) {
        self.measured += 1.0;
        // The first answers have equal weight, so that no single one defines the usual latency.
        let weight = Self::WEIGHT.max(1.0 / self.measured);
        self.average_ms += (took_ms - self.average_ms) * weight;
        if weight > Self::WEIGHT {
            self.usual_ms = self.average_ms;
        } else {
            let falls = self.average_ms < self.usual_ms;
            let follow = if falls { Self::USUAL_DOWN } else { Self::USUAL_UP };
            self.usual_ms += (self.average_ms - self.usual_ms) * follow;
        }
    }

    /// Records a throttle: the other side asked for fewer calls, or did not answer.
    pub fn throttled(&mut self) {
        self.answers += 1.0;
        self.shrink(Self::THROTTLED, 1.0);
    }

    fn shrink(&mut self, to: f64, least: f64) {
        self.opening = false;
        if self.answers >= self.limit {
            self.limit = (self.limit * to).max(least);
            self.answers = 0.0;
        }
    }
}

/// Additive increase, multiplicative decrease, with a slow start.
///
/// It starts at 1, doubles with each round at first, then grows by one with each round. A failure
/// or a late answer halves it, and a timeout leaves 1.
#[derive(Debug)]
pub struct AimdLimit {
    limit: f64,
    /// The limit up to which it doubles.
    threshold: f64,
    /// The usual latency.
    usual: Option<Duration>,
}

impl Default for AimdLimit {
    fn default() -> Self {
        Self { limit: 1.0, threshold: Self::MAX, usual: None }
    }
}

impl AimdLimit {
    const MAX: f64 = 64.0;
    /// An answer that takes this long is as bad as a failure.
    const SLOW: Duration = Duration::from_secs(5);
    /// An answer that takes this long and several times the usual is as bad too.
    const SLUGGISH: Duration = Duration::from_millis(500);
    /// The multiple of the usual latency that counts as several times.
    const SLUGGISH_TIMES: u32 = 4;

    /// Returns the maximum number of calls in flight: 1 to 64.
    #[must_use]
    pub const fn limit(&self) -> usize {
        // The limit is from 1 to 64, so that only the fraction is cut off.
        self.limit as usize
    }

    /// Records a call that succeeded, and its latency.
    pub fn succeeded(&mut self, latency: Duration) {
        let usual = self.usual.unwrap_or(latency);
        let sluggish =
            latency >= Self::SLUGGISH && latency > usual.saturating_mul(Self::SLUGGISH_TIMES);
        self.usual = Some(usual.mul_f64(0.9) + latency.mul_f64(0.1));
        if latency >= Self::SLOW || sluggish {
            self.failed();
        } else {
            let more = if self.limit < self.threshold { 1.0 } else { 1.0 / self.limit };
            self.limit = (self.limit + more).min(Self::MAX);
        }
    }

    /// Records a call that was refused.
    pub const fn failed(&mut self) {
        self.limit = (self.limit / 2.0).max(1.0);
        self.threshold = self.limit;
    }

    /// Records a call that was not answered in time.
    pub const fn timed_out(&mut self) {
        self.failed();
        self.limit = 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    const QUICK: Duration = Duration::from_millis(100);

    /// Answers the maximum number of calls in flight.
    fn round(limiter: &mut GradientLimit, took: Duration) {
        let in_flight = limiter.limit();
        (0..in_flight).for_each(|_| limiter.answered(took, in_flight));
    }

    #[test]
    fn it_opens_fast_and_not_without_end() {
        let mut limiter = GradientLimit::default();
        round(&mut limiter, QUICK);
        assert_eq!(limiter.limit(), 32);
        (0..10).for_each(|_| round(&mut limiter, QUICK));
        assert_eq!(limiter.limit(), 1000);
    }

    #[test]
    fn it_does_not_grow_when_little_is_in_flight() {
        let mut limiter = GradientLimit::default();
        (0..1000).for_each(|_| limiter.answered(QUICK, 3));
        assert_eq!(limiter.limit(), 16);
    }

    #[test]
    fn a_throttle_halves_it_once_for_all_that_were_in_flight() {
        let mut limiter = GradientLimit::default();
        (0..3).for_each(|_| round(&mut limiter, QUICK));
        assert_eq!(limiter.limit(), 128);
        (0..64).for_each(|_| limiter.throttled());
        assert_eq!(limiter.limit(), 64);
        // From then on the limit grows by one for each round.
        round(&mut limiter, QUICK);
        assert_eq!(limiter.limit(), 64);
        round(&mut limiter, QUICK);
        assert_eq!(limiter.limit(), 65);
        (0..2000).for_each(|_| limiter.throttled());
        assert_eq!(limiter.limit(), 1);
    }

    #[test]
    fn slowness_makes_it_smaller_until_answers_are_quick_again() {
        let mut limiter = GradientLimit::default();
        (0..4).for_each(|_| round(&mut limiter, QUICK));
        let wide = limiter.limit();
        (0..4).for_each(|_| round(&mut limiter, Duration::from_secs(2)));
        let narrow = limiter.limit();
        assert!(narrow < wide / 2, "{narrow} of {wide}");
        (0..30).for_each(|_| round(&mut limiter, QUICK));
        assert!(limiter.limit() > narrow);
    }

    #[test]
    fn a_channel_that_is_always_slow_is_not_slowed_down() {
        let mut limiter = GradientLimit::default();
        (0..10).for_each(|_| round(&mut limiter, Duration::from_secs(5)));
        assert_eq!(limiter.limit(), 1000);
    }

    #[test]
    fn what_has_long_been_slow_is_usual() {
        let mut limiter = GradientLimit::default();
        (0..4).for_each(|_| round(&mut limiter, QUICK));
        (0..20).for_each(|_| round(&mut limiter, Duration::from_secs(2)));
        let narrow = limiter.limit();
        assert!((16..200).contains(&narrow), "{narrow}");
        (0..200).for_each(|_| round(&mut limiter, Duration::from_secs(2)));
        assert!(limiter.limit() > narrow + 100, "{} after {narrow}", limiter.limit());
    }

    /// Answers differ much, from one to the next, without a fault.
    #[test]
    fn answers_that_differ_do_not_make_it_smaller() {
        /// The duration of an answer, in milliseconds, by a fraction from 0 to 1.
        type TookMs = fn(f64) -> f64;
        let channels: [(&str, TookMs); 3] = [
            ("a long tail", |part| 80.0 - 220.0 * (1.0 - part).ln()),
            ("anything up to two seconds", |part| 2000.0 * part),
            ("one in twenty takes five seconds", |part| if part < 0.95 { 50.0 } else { 5000.0 }),
        ];
        for (name, took_ms) in channels {
            for throttled_first in [false, true] {
                let mut limiter = GradientLimit::default();
                if throttled_first {
                    (0..200).for_each(|_| limiter.throttled());
                    assert_eq!(limiter.limit(), 1);
                }
                let mut part = 0.5_f64;
                for _ in 0..20_000 {
                    // The golden ratio spreads the fractions evenly, in no order.
                    part = (part + 0.618_033_988_75).fract();
                    let took = Duration::from_secs_f64(took_ms(part) / 1000.0);
                    limiter.answered(took, limiter.limit());
                }
                assert!(limiter.limit() > 100, "{name}: {}", limiter.limit());
            }
        }
    }

    const FAST: Duration = Duration::from_millis(20);

    #[test]
    fn it_grows_with_answers_and_shrinks_with_failures() {
        let mut limiter = AimdLimit::default();
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
            let mut limiter = AimdLimit::default();
            (0..15).for_each(|_| limiter.succeeded(FAST));
            limiter
        };
        for (millis, limit) in [(20, 17), (499, 17), (500, 8), (4999, 8), (5000, 8)] {
            let mut limiter = grown();
            assert_eq!(limiter.limit(), 16);
            limiter.succeeded(Duration::from_millis(millis));
            assert_eq!(limiter.limit(), limit, "{millis}");
        }
        let mut slow = AimdLimit::default();
        (0..20).for_each(|_| slow.succeeded(AimdLimit::SLOW));
        assert_eq!(slow.limit(), 1, "one that is always slow too");
    }
}

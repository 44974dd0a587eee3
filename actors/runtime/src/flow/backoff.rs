//! Pure: exponential backoff with a bound, jitter, and the delay before a failed child restarts.

use std::time::Duration;

use postrider_domain::Timestamp;

/// The number of doublings after which a delay no longer grows, so that the factor fits a `u32`.
const DOUBLINGS_MAX: u32 = 31;
const _: () = assert!(DOUBLINGS_MAX < u32::BITS);
/// The delays before restarts. Recovery of a store is noticed within the longest one.
const RESTART_BACKOFF: Backoff =
    Backoff { min: Duration::from_millis(100), max: Duration::from_secs(5) };
/// Jitter of the delays, so that not all children restart at once.
const RESTART_JITTER: f64 = 0.25;
/// A child that ran this long counts as healthy: its next failure is a first one.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);

/// Exponential backoff: the first delay is `min`, each further one is twice as long, and none is
/// longer than `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The first delay.
    pub min: Duration,
    /// The longest delay.
    pub max: Duration,
}

impl Backoff {
    /// Returns the delay after `earlier` others in a row; 0 gives the first one.
    #[must_use]
    pub fn delay(self, earlier: u32) -> Duration {
        self.min.saturating_mul(1 << earlier.min(DOUBLINGS_MAX)).min(self.max)
    }
}

/// Spreads a delay evenly, from `1 - spread` to `1 + spread` times its length.
///
/// `spread` and `fraction` are from 0 to 1; the caller draws `fraction` at random, and 0.5 changes
/// nothing. A product that is not a duration leaves the delay as it is.
#[must_use]
pub fn jittered(delay: Duration, spread: f64, fraction: f64) -> Duration {
    let factor = 1.0 - spread + 2.0 * spread * fraction;
    Duration::try_from_secs_f64(delay.as_secs_f64() * factor).unwrap_or(delay)
}

/// The failures of one child in a row, and its next delay.
#[derive(Debug, Default)]
pub struct RestartPolicy {
    failures_in_a_row: u32,
    started_at: Option<Timestamp>,
}

impl RestartPolicy {
    /// Records a start.
    pub const fn started(&mut self, now: Timestamp) {
        self.started_at = Some(now);
    }

    /// Records a failure and returns the delay before the restart.
    ///
    /// The delay is exponential, varied by up to a quarter by `jitter`, a fraction from 0 to 1.
    pub fn failed(&mut self, now: Timestamp, jitter: f64) -> Duration {
        if self.started_at.take().is_some_and(|started| now.since(started) >= HEALTHY_AFTER) {
            self.failures_in_a_row = 0;
        }
        let delay = RESTART_BACKOFF.delay(self.failures_in_a_row);
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        jittered(delay, RESTART_JITTER, jitter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(min: u64, max: u64) -> Backoff {
        Backoff { min: Duration::from_secs(min), max: Duration::from_secs(max) }
    }

    /// Returns the first delays of a backoff, in milliseconds.
    fn delays(backoff: Backoff, count: u32) -> Vec<u128> {
        (0..count).map(|earlier| backoff.delay(earlier).as_millis()).collect()
    }

    #[test]
    fn delays_double_up_to_a_bound() {
        let restart = Backoff { min: Duration::from_millis(100), max: Duration::from_secs(5) };
        assert_eq!(delays(restart, 8), [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        let retry = seconds(1, 30);
        assert_eq!(delays(retry, 7), [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
        let mail = seconds(30, 3600);
        assert_eq!(mail.delay(6), Duration::from_secs(1920));
        assert_eq!(mail.delay(7), Duration::from_secs(3600));
    }

    #[test]
    fn no_count_is_too_large() {
        for backoff in [seconds(0, 60), seconds(1, 60), seconds(60, 60), seconds(60, 5)] {
            let longest = backoff.delay(63);
            for earlier in [64, 1000, u32::MAX] {
                assert_eq!(backoff.delay(earlier), longest);
            }
            assert!(longest <= backoff.max);
        }
        let unbounded = Backoff { min: Duration::from_secs(u64::MAX / 2), max: Duration::MAX };
        assert_eq!(unbounded.delay(u32::MAX), Duration::MAX);
    }

    #[test]
    fn jitter_stays_within_its_spread() {
        let delay = Duration::from_millis(100);
        for (fraction, millis) in [(0.0, 75), (0.5, 100), (1.0, 125)] {
            assert_eq!(jittered(delay, 0.25, fraction).as_millis(), millis);
        }
        for (fraction, millis) in [(0.0, 80), (0.5, 100), (1.0, 120)] {
            assert_eq!(jittered(delay, 0.2, fraction).as_millis(), millis);
        }
        assert_eq!(jittered(delay, 0.0, 0.9), delay);
        assert_eq!(jittered(Duration::ZERO, 0.25, 1.0), Duration::ZERO);
    }

    #[test]
    fn jitter_of_what_is_not_a_duration_changes_nothing() {
        let delay = Duration::from_secs(1);
        for (spread, fraction) in [(3.0, 0.0), (f64::NAN, 0.5), (f64::INFINITY, 1.0)] {
            assert_eq!(jittered(delay, spread, fraction), delay);
        }
        assert_eq!(jittered(Duration::MAX, 0.25, 1.0), Duration::MAX);
    }

    #[test]
    fn delays_double_up_to_a_bound_and_are_forgiven_after_a_minute() {
        let mut policy = RestartPolicy::default();
        let now = Timestamp::from_millis(1_000_000);
        let mut delays = Vec::new();
        for _ in 0..12 {
            policy.started(now);
            delays.push(policy.failed(now.plus(Duration::from_secs(59)), 0.5).as_millis());
        }
        assert_eq!(delays[..4], [100, 200, 400, 800]);
        assert_eq!(delays[11], 5_000);
        policy.started(now);
        assert_eq!(policy.failed(now.plus(Duration::from_secs(60)), 0.5), RESTART_BACKOFF.min);
    }

    #[test]
    fn jitter_stays_within_a_quarter() {
        for (jitter, millis) in [(0.0, 75), (0.5, 100), (1.0, 125)] {
            let delay = RestartPolicy::default().failed(Timestamp::default(), jitter);
            assert_eq!(delay.as_millis(), millis);
        }
    }
}

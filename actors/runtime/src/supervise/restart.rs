//! Pure: the delay before a failed child is restarted.

use std::time::Duration;

use postrider_domain::Timestamp;

use crate::flow::{Backoff, jittered};

/// The delays before restarts. Recovery of a store is noticed within the longest one.
const RESTART: Backoff = Backoff { min: Duration::from_millis(100), max: Duration::from_secs(5) };
/// Jitter of the delays, so that not all children restart at once.
const RESTART_SPREAD: f64 = 0.25;
/// A child that ran this long counts as healthy: its next failure is a first one.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);

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
        let delay = RESTART.delay(self.failures_in_a_row);
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        jittered(delay, RESTART_SPREAD, jitter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(policy.failed(now.plus(Duration::from_secs(60)), 0.5), RESTART.min);
    }

    #[test]
    fn jitter_stays_within_a_quarter() {
        for (jitter, millis) in [(0.0, 75), (0.5, 100), (1.0, 125)] {
            let delay = RestartPolicy::default().failed(Timestamp::default(), jitter);
            assert_eq!(delay.as_millis(), millis);
        }
    }
}

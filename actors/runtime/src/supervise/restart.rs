//! When a child that died is started again.

use std::time::Duration;

use postrider_domain::Timestamp;

use crate::flow::{Backoff, jittered};

/// How long a child that died waits. A store that works again is noticed within the longest delay.
const RESTART: Backoff = Backoff { min: Duration::from_millis(100), max: Duration::from_secs(5) };
/// The part by which that is more or less, so that not all come back at once.
const RESTART_SPREAD: f64 = 0.25;
/// A child that lived this long counts as healthy: its next death is a first one.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);

/// The deaths of one child.
#[derive(Debug, Default)]
pub struct RestartPolicy {
    deaths_in_a_row: u32,
    started_at: Option<Timestamp>,
}

impl RestartPolicy {
    /// Notes a start.
    pub const fn started(&mut self, now: Timestamp) {
        self.started_at = Some(now);
    }

    /// Notes a death and says how long to wait before the next start: exponential, with up to a
    /// quarter more or less by `jitter`, a fraction from 0 to 1.
    pub fn died(&mut self, now: Timestamp, jitter: f64) -> Duration {
        if self.started_at.take().is_some_and(|started| now.since(started) >= HEALTHY_AFTER) {
            self.deaths_in_a_row = 0;
        }
        let delay = RESTART.delay(self.deaths_in_a_row);
        self.deaths_in_a_row = self.deaths_in_a_row.saturating_add(1);
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
            delays.push(policy.died(now.plus(Duration::from_secs(59)), 0.5).as_millis());
        }
        assert_eq!(delays[..4], [100, 200, 400, 800]);
        assert_eq!(delays[11], 5_000);
        policy.started(now);
        assert_eq!(policy.died(now.plus(Duration::from_secs(60)), 0.5), RESTART.min);
    }

    #[test]
    fn jitter_stays_within_a_quarter() {
        for (jitter, millis) in [(0.0, 75), (0.5, 100), (1.0, 125)] {
            let delay = RestartPolicy::default().died(Timestamp::default(), jitter);
            assert_eq!(delay.as_millis(), millis);
        }
    }
}

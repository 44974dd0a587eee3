//! Pure: a pause that a provider asked for, which several numbers may share.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use postrider_domain::Timestamp;
use postrider_runtime::flow::Backoff;

/// The durations of consecutive pauses if the provider names none.
const PAUSE: Backoff = Backoff { min: Duration::from_secs(1), max: Duration::from_secs(60) };
/// The minimum pause, whatever the provider asks for.
const ASKED_MIN: Duration = Duration::from_millis(100);

/// The time until which nothing may be sent. Throttles of messages that were in flight when a pause
/// started do not prolong it.
#[derive(Debug, Default)]
pub struct Pause {
    until_ms: AtomicU64,
    /// The number of consecutive pauses.
    consecutive: AtomicU32,
}

impl Pause {
    /// Returns the end of the pause, if it is after `now`.
    pub(super) fn until(&self, now: Timestamp) -> Option<Timestamp> {
        let until = Timestamp::from_millis(self.until_ms.load(Ordering::Acquire));
        (until > now).then_some(until)
    }

    /// Starts a pause after a throttle, for `after` if the provider gave it.
    pub(super) fn throttled(&self, now: Timestamp, after: Option<Duration>) {
        if self.until(now).is_some() && after.is_none() {
            return;
        }
        let consecutive = self.consecutive.fetch_add(1, Ordering::AcqRel);
        let until = now.plus(after.unwrap_or(PAUSE.delay(consecutive)).max(ASKED_MIN)).as_millis();
        self.until_ms.fetch_max(until, Ordering::AcqRel);
    }

    /// Records that the provider accepted a message: the next pause is a first one.
    pub(super) fn accepted(&self) {
        // Most calls read 0: a read does not take the cache line from other threads.
        if self.consecutive.load(Ordering::Relaxed) > 0 {
            self.consecutive.store(0, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn consecutive_pauses_last_longer() {
        let pause = Pause::default();
        assert_eq!(pause.until(at(0)), None);
        let mut now = 0;
        for wait in [1, 2, 4, 8, 16, 32, 60, 60] {
            pause.throttled(at(now), None);
            // A message that was in flight is throttled too, and changes nothing.
            pause.throttled(at(now), None);
            assert_eq!(pause.until(at(now)), Some(at(now + wait)));
            now += wait;
            assert_eq!(pause.until(at(now)), None);
        }
        pause.accepted();
        pause.throttled(at(now), None);
        assert_eq!(pause.until(at(now)), Some(at(now + 1)));
        pause.throttled(at(now), Some(Duration::from_secs(300)));
        assert_eq!(pause.until(at(now)), Some(at(now + 300)));
        pause.throttled(at(now), Some(Duration::from_secs(7)));
        assert_eq!(pause.until(at(now)), Some(at(now + 300)), "it is not cut short");
    }
}

//! A pause that a provider asked for, and that may hold for several numbers.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use postrider_domain::Timestamp;
use postrider_runtime::flow::Backoff;

/// How long those last that come in a row, where the provider does not say.
const PAUSE: Backoff = Backoff { min: Duration::from_secs(1), max: Duration::from_secs(60) };
/// None is shorter, whatever the provider says.
const ASKED_MIN: Duration = Duration::from_millis(100);

/// Until when nothing may be sent. Throttles of messages that were under way when a pause began
/// belong to that pause.
#[derive(Debug, Default)]
pub struct Pause {
    until_ms: AtomicU64,
    /// How many came in a row.
    row: AtomicU32,
}

impl Pause {
    /// Until when it lasts, if that is after `now`.
    pub(super) fn until(&self, now: Timestamp) -> Option<Timestamp> {
        let until = Timestamp::from_millis(self.until_ms.load(Ordering::Acquire));
        (until > now).then_some(until)
    }

    /// The provider throttled something, and asked to wait for `after` if it said so.
    pub(super) fn throttled(&self, now: Timestamp, after: Option<Duration>) {
        if self.until(now).is_some() && after.is_none() {
            return;
        }
        let row = self.row.fetch_add(1, Ordering::AcqRel);
        let until = now.plus(after.unwrap_or(PAUSE.delay(row)).max(ASKED_MIN)).as_millis();
        self.until_ms.fetch_max(until, Ordering::AcqRel);
    }

    /// Something was taken: the next pause is a first one.
    pub(super) fn taken(&self) {
        // Most calls find that already: look before taking the cache line.
        if self.row.load(Ordering::Relaxed) > 0 {
            self.row.store(0, Ordering::Release);
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
    fn each_in_a_row_lasts_longer() {
        let pause = Pause::default();
        assert_eq!(pause.until(at(0)), None);
        let mut now = 0;
        for wait in [1, 2, 4, 8, 16, 32, 60, 60] {
            pause.throttled(at(now), None);
            // What was under way is throttled too, and changes nothing.
            pause.throttled(at(now), None);
            assert_eq!(pause.until(at(now)), Some(at(now + wait)));
            now += wait;
            assert_eq!(pause.until(at(now)), None);
        }
        pause.taken();
        pause.throttled(at(now), None);
        assert_eq!(pause.until(at(now)), Some(at(now + 1)));
        pause.throttled(at(now), Some(Duration::from_secs(300)));
        assert_eq!(pause.until(at(now)), Some(at(now + 300)));
        pause.throttled(at(now), Some(Duration::from_secs(7)));
        assert_eq!(pause.until(at(now)), Some(at(now + 300)), "it is not cut short");
    }
}

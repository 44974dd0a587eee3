//! Counts events within the last hour, by the minute.

use std::sync::atomic::{AtomicU64, Ordering};

use postrider_domain::Timestamp;

const MINUTES: u64 = 60;
const MINUTE_MS: u64 = 60_000;
/// The bits of a place that hold its count. The higher bits hold its minute since the epoch.
const COUNT_BITS: u32 = 32;

/// The counts of events in the last sixty minutes. One thread writes at a time.
#[derive(Debug)]
pub(crate) struct HourCounts([AtomicU64; MINUTES as usize]);

impl Default for HourCounts {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl HourCounts {
    /// Counts one event.
    pub(crate) fn note(&self, now: Timestamp) {
        let minute = now.as_millis() / MINUTE_MS;
        let place = &self.0[(minute % MINUTES) as usize];
        let before = place.load(Ordering::Relaxed);
        let is_this = before >> COUNT_BITS == minute;
        let count = if is_this { before as u32 } else { 0 };
        place.store(minute << COUNT_BITS | u64::from(count.saturating_add(1)), Ordering::Relaxed);
    }

    /// Returns the number of events in this minute and the 59 before it.
    pub(crate) fn sum(&self, now: Timestamp) -> u64 {
        let now = now.as_millis() / MINUTE_MS;
        let places = self.0.iter().map(|place| place.load(Ordering::Relaxed));
        let recent = places.filter(|place| {
            let minute = place >> COUNT_BITS;
            minute <= now && now - minute < MINUTES
        });
        recent.map(|place| u64::from(place as u32)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_counts_for_an_hour() {
        let counts = HourCounts::default();
        let at = |minute: u64| Timestamp::from_millis(28_000_000 * MINUTE_MS + minute * MINUTE_MS);
        for minute in [0, 0, 1, 30, 59] {
            counts.note(at(minute));
        }
        let sum = |minute| counts.sum(at(minute));
        assert_eq!((sum(59), sum(60), sum(61), sum(118), sum(119)), (5, 3, 2, 1, 0));
        // The place of the first minute is used again.
        counts.note(at(60));
        assert_eq!(sum(60), 4);
        assert_eq!(sum(29), 1, "what is ahead of the moment is not of the hour before it");
    }
}

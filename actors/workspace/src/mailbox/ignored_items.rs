//! Pure: the rate at which ignored items of a number's callbacks are reported.
//!
//! Strangers can make the channel send such items, so the event log gets at most one entry a minute
//! for each number, field and reason. The entry has the count since the last one. The counts are in
//! memory only: the metric counts every item.

use std::time::Duration;

use hashbrown::HashMap;

use postrider_channel::callback::{IgnoredItems, IgnoredReason};
use postrider_domain::{NumberId, Timestamp};

/// The time between two events of a number, field and reason.
const PAUSE: Duration = Duration::from_secs(60);
/// The maximum number of a workspace's counts; those of removed numbers make room.
const COUNTS_MAX: usize = 4096;

type IgnoredKey = (NumberId, &'static str, IgnoredReason);

#[derive(Debug, Clone, Copy)]
struct IgnoredCount {
    /// The time of the last report.
    reported_at: Timestamp,
    /// The number of items since then.
    unreported: u64,
}

/// The ignored items of a workspace's numbers.
#[derive(Debug, Default)]
pub(crate) struct IgnoredLog(HashMap<IgnoredKey, IgnoredCount>);

impl IgnoredLog {
    /// Counts items. Returns the number to report now, if any.
    pub(crate) fn note(
        &mut self,
        now: Timestamp,
        number: NumberId,
        items: &IgnoredItems,
    ) -> Option<u64> {
        let key = (number, items.field, items.reason);
        if self.0.len() >= COUNTS_MAX && !self.0.contains_key(&key) {
            self.0.retain(|_, count| now < count.reported_at.plus(PAUSE));
            if self.0.len() >= COUNTS_MAX {
                return None;
            }
        }
        let Some(count) = self.0.get_mut(&key) else {
            self.0.insert(key, IgnoredCount { reported_at: now, unreported: 0 });
            return Some(items.count);
        };
        count.unreported = count.unreported.saturating_add(items.count);
        if now < count.reported_at.plus(PAUSE) {
            return None;
        }
        count.reported_at = now;
        Some(std::mem::take(&mut count.unreported))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use postrider_domain::golden::{AT, UNIQUE};

    #[test]
    fn one_is_reported_a_minute_with_what_came_since() {
        let mut log = IgnoredLog::default();
        let [number, other] = [0, 1].map(|at| NumberId::from_parts(AT, UNIQUE + at));
        let items = |reason, count| IgnoredItems { field: "messages", reason, count };
        let second = |second| AT.plus(Duration::from_secs(second));
        let mut note = |at, number, reason, count| log.note(at, number, &items(reason, count));
        use IgnoredReason::{NoSender, Unreadable};
        assert_eq!(note(second(0), number, NoSender, 2), Some(2));
        assert_eq!(note(second(1), number, NoSender, 3), None);
        assert_eq!(note(second(59), number, NoSender, 1), None);
        assert_eq!(note(second(1), other, NoSender, 1), Some(1));
        assert_eq!(note(second(1), number, Unreadable, 1), Some(1));
        assert_eq!(note(second(60), number, NoSender, 1), Some(5));
        assert_eq!(note(second(61), number, NoSender, 7), None);
        assert_eq!(note(second(500), number, NoSender, 1), Some(8));
    }

    #[test]
    fn its_memory_is_bounded() {
        let mut log = IgnoredLog::default();
        let items = IgnoredItems { field: "other", reason: IgnoredReason::UnknownField, count: 1 };
        let number = |at| NumberId::from_parts(AT, at);
        for at in 0..COUNTS_MAX as u128 {
            assert_eq!(log.note(AT, number(at), &items), Some(1));
        }
        assert_eq!(log.note(AT, number(u128::MAX), &items), None);
        assert_eq!(log.note(AT.plus(PAUSE), number(u128::MAX), &items), Some(1));
        assert_eq!(log.0.len(), 1);
    }
}

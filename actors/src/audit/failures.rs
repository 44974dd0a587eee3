//! Counts refused authentications by source and minute, so that a flood makes few records.

use std::net::IpAddr;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;

use postrider_domain::{KeyId, Timestamp, WorkspaceId};

/// The time in which the failures of a source are counted together.
pub(super) const MINUTE: Duration = Duration::from_secs(60);
/// The maximum number of sources that are counted separately at once, each with records of its own.
/// The others are counted together.
const SOURCES_MAX: usize = 60;

/// The source of failures. The default is many sources together.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct FailureSource {
    pub(super) address: Option<IpAddr>,
    /// The key that was used, and its workspace.
    pub(super) key: Option<(KeyId, WorkspaceId)>,
}

/// The failures of one kind, in the minutes that have not ended.
pub(super) struct Failures {
    /// The action of their records in the audit log.
    pub(super) action: &'static str,
    minutes: Mutex<HashMap<FailureSource, CountedMinute>>,
}

struct CountedMinute {
    began: Timestamp,
    /// The failures without a record: after the first one, which has a record of its own.
    more: u64,
}

/// Failures to be recorded together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FailureCount {
    pub(super) source: FailureSource,
    pub(super) count: u64,
}

/// The records to write for one failure.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotedFailure {
    /// The source by which it is counted.
    pub(super) source: FailureSource,
    /// Set if it is the first one of its minute.
    pub(super) is_first: bool,
    /// The unrecorded failures of the minute before.
    pub(super) ended: Option<FailureCount>,
}

impl Failures {
    pub(super) fn of(action: &'static str) -> Self {
        Self { action, minutes: Mutex::default() }
    }

    pub(super) fn note(&self, source: FailureSource, now: Timestamp) -> NotedFailure {
        let mut minutes = self.minutes.lock();
        let source = counted_by(&minutes, source);
        let mut ended = None;
        if let Some(minute) = minutes.get_mut(&source) {
            if now.since(minute.began) < MINUTE {
                minute.more += 1;
                return NotedFailure { source, is_first: false, ended };
            }
            let count = minute.more;
            ended = (count > 0).then(|| FailureCount { source: source.clone(), count });
        }
        minutes.insert(source.clone(), CountedMinute { began: now, more: 0 });
        NotedFailure { source, is_first: true, ended }
    }

    /// Counts failures again whose record was not written. They are recorded with the minute.
    pub(super) fn put_back(&self, counted: Vec<FailureCount>, now: Timestamp) {
        let mut minutes = self.minutes.lock();
        for FailureCount { source, count } in counted {
            let source = counted_by(&minutes, source);
            let minute = minutes.entry(source).or_insert(CountedMinute { began: now, more: 0 });
            minute.more += count;
        }
    }

    /// Removes the minutes that started at `moment` or before. Returns their unrecorded failures.
    pub(super) fn ended(&self, moment: Timestamp) -> Vec<FailureCount> {
        let mut minutes = self.minutes.lock();
        let over = minutes.extract_if(|_, minute| minute.began <= moment);
        let counted = over.filter(|(_, minute)| minute.more > 0);
        counted.map(|(source, minute)| FailureCount { source, count: minute.more }).collect()
    }
}

/// Returns the source itself, or the default if too many others are counted.
fn counted_by(
    minutes: &HashMap<FailureSource, CountedMinute>,
    source: FailureSource,
) -> FailureSource {
    let is_full = minutes.len() >= SOURCES_MAX && !minutes.contains_key(&source);
    if is_full { FailureSource::default() } else { source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u16) -> FailureSource {
        let [high, low] = last.to_be_bytes();
        FailureSource { address: Some(IpAddr::from([192, 0, high, low])), key: None }
    }

    fn failures() -> Failures {
        Failures::of("authentication.fail")
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + 1000 * seconds)
    }

    #[test]
    fn the_first_of_a_minute_stands_alone_and_the_others_are_counted() {
        let failures = failures();
        let one = || address(1);
        let first = || NotedFailure { source: one(), is_first: true, ended: None };
        let counted = || NotedFailure { is_first: false, ..first() };
        assert_eq!(failures.note(one(), at(0)), first());
        assert_eq!(failures.note(one(), at(1)), counted());
        assert_eq!(failures.note(one(), at(59)), counted());
        let ended = FailureCount { source: one(), count: 2 };
        assert_eq!(failures.note(one(), at(60)), NotedFailure { ended: Some(ended), ..first() });
        assert_eq!(failures.ended(at(59)), []);
        assert_eq!(failures.ended(at(60)), [], "nothing but the first, which is recorded");
        failures.note(one(), at(70));
        failures.note(one(), at(71));
        assert_eq!(failures.ended(at(70)), [FailureCount { source: one(), count: 1 }]);
    }

    #[test]
    fn a_flood_of_addresses_is_counted_together() {
        let failures = failures();
        let noted: Vec<_> = (0..2_000).map(|it| failures.note(address(it), at(0))).collect();
        let own = noted.iter().filter(|it| it.is_first && it.source != FailureSource::default());
        assert_eq!(own.count(), 60);
        assert_eq!(noted.iter().filter(|it| it.is_first).count(), 61, "one is of many");
        assert!(!failures.note(address(7), at(2)).is_first);
        let ended = failures.ended(at(2));
        let count = |source| ended.iter().find(|it| it.source == source).map(|it| it.count);
        assert_eq!(ended.len(), 2);
        assert_eq!(count(FailureSource::default()), Some(2_000 - 61));
        assert_eq!(count(address(7)), Some(1));
    }

    #[test]
    fn what_was_not_written_is_counted_again() {
        let failures = failures();
        failures.note(address(1), at(0));
        failures.note(address(1), at(1));
        failures.put_back(vec![FailureCount { source: address(1), count: 1 }], at(2));
        let both = [FailureCount { source: address(1), count: 2 }];
        assert_eq!(failures.ended(at(0)), both, "with the first");
        failures.put_back(both.to_vec(), at(60));
        assert!(!failures.note(address(1), at(61)).is_first);
        assert_eq!(failures.ended(at(60)), [FailureCount { source: address(1), count: 3 }]);
    }
}

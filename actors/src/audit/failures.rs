//! Counts failed authentications by address and minute, so that a flood makes few records.

use std::net::IpAddr;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;

use postrider_domain::Timestamp;

/// How long the failures of an address are counted together.
pub(super) const MINUTE: Duration = Duration::from_secs(60);
/// Addresses that are counted by themselves at once. The others are counted together.
const ADDRESSES_MAX: usize = 1_000;

/// The failures of the minutes that have not ended. Those of `None` are of many addresses.
#[derive(Default)]
pub(super) struct Failures(Mutex<HashMap<Option<IpAddr>, CountedMinute>>);

struct CountedMinute {
    began: Timestamp,
    /// Failures after the first one, which has a record of its own.
    more: u64,
}

/// The failures of a minute that are not recorded yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EndedMinute {
    pub(super) address: Option<IpAddr>,
    pub(super) count: u64,
}

/// What is to be recorded of one failure.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotedFailure {
    /// The address that it is counted by.
    pub(super) address: Option<IpAddr>,
    /// Whether it is the first one of its minute.
    pub(super) is_first: bool,
    /// What is left of the minute before.
    pub(super) ended: Option<EndedMinute>,
}

impl Failures {
    pub(super) fn note(&self, address: IpAddr, now: Timestamp) -> NotedFailure {
        let mut minutes = self.0.lock();
        let is_full = minutes.len() >= ADDRESSES_MAX;
        let address = Some(address).filter(|it| !is_full || minutes.contains_key(&Some(*it)));
        let mut ended = None;
        if let Some(minute) = minutes.get_mut(&address) {
            if now.since(minute.began) < MINUTE {
                minute.more += 1;
                return NotedFailure { address, is_first: false, ended };
            }
            let count = minute.more;
            ended = (count > 0).then_some(EndedMinute { address, count });
        }
        minutes.insert(address, CountedMinute { began: now, more: 0 });
        NotedFailure { address, is_first: true, ended }
    }

    /// Forgets the minutes that began at `moment` or before. Returns what is not recorded of them.
    pub(super) fn ended(&self, moment: Timestamp) -> Vec<EndedMinute> {
        let mut minutes = self.0.lock();
        let over = minutes.extract_if(|_, minute| minute.began <= moment);
        let counted = over.filter(|(_, minute)| minute.more > 0);
        counted.map(|(address, minute)| EndedMinute { address, count: minute.more }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u16) -> IpAddr {
        let [high, low] = last.to_be_bytes();
        IpAddr::from([192, 0, high, low])
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + 1000 * seconds)
    }

    #[test]
    fn the_first_of_a_minute_stands_alone_and_the_others_are_counted() {
        let failures = Failures::default();
        let one = address(1);
        let first = NotedFailure { address: Some(one), is_first: true, ended: None };
        let counted = NotedFailure { is_first: false, address: Some(one), ended: None };
        assert_eq!(failures.note(one, at(0)), first);
        assert_eq!(failures.note(one, at(1)), counted);
        assert_eq!(failures.note(one, at(59)), counted);
        let ended = EndedMinute { address: Some(one), count: 2 };
        assert_eq!(failures.note(one, at(60)), NotedFailure { ended: Some(ended), ..first });
        assert_eq!(failures.ended(at(59)), []);
        assert_eq!(failures.ended(at(60)), [], "nothing but the first, which is recorded");
        failures.note(one, at(70));
        failures.note(one, at(71));
        assert_eq!(failures.ended(at(70)), [EndedMinute { address: Some(one), count: 1 }]);
    }

    #[test]
    fn a_flood_of_addresses_is_counted_together() {
        let failures = Failures::default();
        for last in 0..ADDRESSES_MAX as u16 {
            assert!(failures.note(address(last), at(0)).is_first);
        }
        let first = failures.note(address(5000), at(1));
        assert_eq!((first.address, first.is_first), (None, true));
        let second = failures.note(address(5001), at(2));
        assert_eq!((second.address, second.is_first), (None, false));
        assert!(!failures.note(address(7), at(2)).is_first);
        let mut ended: Vec<_> = failures.ended(at(2)).into_iter().map(|it| it.address).collect();
        ended.sort();
        assert_eq!(ended, [None, Some(address(7))]);
    }
}

//! Tests of ledgers and their rows together, with lost commits and restarts.

use std::collections::BTreeMap;

use postrider_domain::{MasterKeys, Timestamp, WorkspaceId};
use postrider_store::{Change, Group, MemoryStore, Store, Table};
use proptest::prelude::*;

use super::{MessageMark, Portfolios, RowChange};

const DAY: u64 = 24 * 3600;
const MARK: MessageMark = MessageMark::of(&[7; 16]);

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + seconds * 1000)
}

struct Rig {
    store: MemoryStore,
    workspace: WorkspaceId,
    portfolios: Portfolios,
}

impl Rig {
    fn new() -> Self {
        let workspace = "acme".parse().unwrap();
        Self { store: MemoryStore::new(), workspace, portfolios: Self::start() }
    }

    fn start() -> Portfolios {
        Portfolios::new(&MasterKeys::single([7; 32]))
    }

    fn commit(&self, rows: Vec<RowChange>) {
        let change = |(key, value)| match value {
            Some(value) => Change::put(Table::Portfolios, key, value),
            None => Change::delete(Table::Portfolios, key),
        };
        let changes: Vec<_> = rows.into_iter().map(change).collect();
        self.store.commit(Group::new(None, &changes)).unwrap();
    }

    fn count(&self, who: u64, now: u64) -> Vec<RowChange> {
        let place = (&self.workspace, "107");
        let count = |ledger: &mut super::Ledger| ledger.count(&[(who, MARK)], at(now));
        self.portfolios.with(&self.store, place, at(now), count).unwrap()
    }

    fn give_back(&self, who: u64, now: u64) -> Vec<RowChange> {
        let place = (&self.workspace, "107");
        let give_back = |ledger: &mut super::Ledger| ledger.give_back(&[(who, MARK)], at(now));
        self.portfolios.with(&self.store, place, at(now), give_back).unwrap()
    }

    fn counted(&self, now: u64) -> Vec<u64> {
        let place = (&self.workspace, "107");
        let of = |ledger: &mut super::Ledger| {
            let all = (0..20).filter(|who| ledger.recipients.is_counted(*who));
            let all: Vec<_> = all.collect();
            assert_eq!(ledger.recipients.used() as usize, all.len());
            all
        };
        self.portfolios.with(&self.store, place, at(now), of).unwrap()
    }
}

#[test]
fn whoever_a_clock_counted_that_was_ahead_counts_since_it_was_rebased() {
    let mut rig = Rig::new();
    let (to, ahead, last) = (3600, 3 * DAY, 6 * DAY);
    rig.commit(rig.count(1, 0));
    rig.commit(rig.count(2, to));
    rig.commit(rig.count(3, to));
    // A start forgets all of the day before, so its sequences repeat those before it.
    for (who, now) in [(4, ahead), (5, ahead + DAY + 60), (6, last)] {
        rig.portfolios = Rig::start();
        rig.commit(rig.count(who, now));
    }
    rig.commit(rig.give_back(6, last));
    rig.commit(rig.count(7, last));
    rig.commit(rig.count(6, last + 60));
    rig.commit(rig.give_back(6, last + 60));
    rig.commit(vec![(super::reported_key(&rig.workspace, "107"), Some(vec![1]))]);
    assert_eq!(super::rebased(&rig.store, at(last + 60)).unwrap(), []);
    rig.commit(super::rebased(&rig.store, at(to)).unwrap());
    assert_eq!(super::rebased(&rig.store, at(to)).unwrap(), [], "it is the same twice");
    for (now, counted) in [
        (to, &[1, 2, 3, 4, 5, 7][..]),
        (to + DAY - 4, &[2, 3, 4, 5, 7]),
        (to + DAY, &[]),
        (2 * DAY, &[]),
    ] {
        rig.portfolios = Rig::start();
        assert_eq!(rig.counted(now), counted, "{now}");
    }
}

#[test]
fn a_limit_is_known_until_something_of_its_workspace_changes() {
    let rig = Rig::new();
    let (place, other) = ((&rig.workspace, "107"), "other".parse().unwrap());
    let limit = super::PortfolioLimit {
        daily_recipients: Some(7),
        source: super::LimitSource::Setting,
        reserve_percent: 10,
    };
    rig.portfolios.note_limit(place, limit);
    assert_eq!(rig.portfolios.limit(place), None, "nothing is kept of one that is not in use");
    rig.commit(rig.count(1, 0));
    rig.portfolios.note_limit(place, limit);
    rig.portfolios.look_again(&other);
    assert_eq!(rig.portfolios.limit(place), Some(limit));
    assert_eq!(rig.portfolios.limit((&other, "107")), None);
    rig.portfolios.look_again(&rig.workspace);
    assert_eq!(rig.portfolios.limit(place), None);
}

#[test]
fn limits_that_were_reached_before_a_start_are_looked_at_after_it() {
    let mut rig = Rig::new();
    rig.commit(rig.count(1, 0));
    rig.portfolios = Rig::start();
    assert!(rig.portfolios.begins() && !rig.portfolios.begins());
    let look = |rig: &Rig| {
        rig.portfolios.read_reported(&rig.store, &rig.workspace, at(60)).unwrap();
        rig.portfolios.to_look_at(at(60))
    };
    assert_eq!(look(&rig), []);
    rig.commit(vec![(super::reported_key(&rig.workspace, "107"), Some(vec![1]))]);
    assert_eq!(look(&rig), [(rig.workspace.clone(), "107".into())]);
}

#[test]
fn rows_that_cannot_be_read_are_passed_over() {
    let mut rig = Rig::new();
    rig.commit(rig.count(1, 0));
    let damaged = [&b"acme\0c107\0"[..], &u32::MAX.to_be_bytes(), &9_u64.to_be_bytes()].concat();
    rig.commit(vec![(damaged, Some(vec![9, 9]))]);
    rig.commit(vec![(b"acme\0g107\0\xff\xff".to_vec(), Some(vec![1]))]);
    rig.portfolios = Rig::start();
    assert_eq!(rig.counted(60), [1]);
}

proptest! {
    #[test]
    fn whatever_commits_are_lost_whoever_a_durable_one_counts_does_so_after_a_start(
        steps in prop::collection::vec((0_u8..5, 0_u64..12, 0_u64..20_000, any::<bool>()), 1..150),
    ) {
        let mut rig = Rig::new();
        // The time since which each counts, and whether several messages rely on it: now, and
        // restored.
        let (mut live, mut durable) = (BTreeMap::<u64, (u64, bool)>::new(), BTreeMap::new());
        let mut now = 0;
        for (kind, who, passes, is_durable) in steps {
            now += passes / 4 * 4;
            live.retain(|_, (since, _)| *since + DAY > now);
            durable.retain(|_, since| *since + DAY > now);
            match kind {
                0..3 => {
                    let rows = rig.count(who, now);
                    live.entry(who).and_modify(|(_, kept)| *kept = true).or_insert((now, false));
                    if is_durable {
                        rig.commit(rows);
                        durable.insert(who, live[&who].0);
                    }
                }
                3 => {
                    let rows = rig.give_back(who, now);
                    let is_given = live.get(&who).is_some_and(|(_, kept)| !kept);
                    prop_assert_eq!(!rows.is_empty(), is_given);
                    if is_given {
                        live.remove(&who);
                        if is_durable {
                            rig.commit(rows);
                            durable.remove(&who);
                        }
                    }
                }
                _ => {
                    rig.portfolios = Rig::start();
                    live = durable.iter().map(|(who, since)| (*who, (*since, true))).collect();
                }
            }
            prop_assert_eq!(rig.counted(now), live.keys().copied().collect::<Vec<_>>());
        }
    }
}

//! The contract of every [`View`] and of every [`MarkedView`], as suites that each of them runs.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use postrider_log::{EntryHash, LogId, Mark};
use proptest::prelude::*;

use crate::conformance::Subject;
use crate::{Change, Direction, Group, MarkedView, Position, Store, Table, View, ViewSnapshot};

pub(crate) fn keys(
    store: &dyn View,
    prefix: &[u8],
    from: Option<&[u8]>,
    direction: Direction,
) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    store
        .scan(Table::Keys, prefix, from, direction, &mut |key, value| {
            assert_eq!(store.get(Table::Keys, key).unwrap().as_deref(), Some(value));
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
    keys
}

pub(crate) fn scans_go_both_ways(subject: &impl Subject) {
    let store = subject.open();
    let all: [&[u8]; 7] = [b"a", b"b", b"b\0", b"b1", b"b3", b"b3x", b"c"];
    store.commit(Group::new(None, &all.map(|key| Change::put(Table::Keys, key, *b"v")))).unwrap();
    store.commit(Group::new(None, &[Change::put(Table::Meta, *b"b2", *b"another table")])).unwrap();
    let forward = |prefix: &[u8], from| keys(&store, prefix, from, Direction::Forward);
    let backward = |prefix: &[u8], from| keys(&store, prefix, from, Direction::Backward);
    assert_eq!(forward(b"", None), all);
    assert_eq!(forward(b"b", None), all[1..6]);
    assert_eq!(forward(b"b", Some(b"b3")), all[4..6]);
    assert_eq!(forward(b"b", Some(b"b2")), all[4..6]);
    assert_eq!(forward(b"b", Some(b"a")), all[1..6]);
    assert_eq!(forward(b"b", Some(b"c")), all[..0]);
    let reversed = |range: std::ops::Range<usize>| {
        all[range].iter().rev().map(|key| key.to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(backward(b"", None), reversed(0..7));
    assert_eq!(backward(b"b", None), reversed(1..6));
    assert_eq!(backward(b"b", Some(b"b3")), reversed(1..5));
    assert_eq!(backward(b"b", Some(b"b2")), reversed(1..4));
    assert_eq!(backward(b"b", Some(b"c")), reversed(1..6));
    assert_eq!(backward(b"b", Some(b"a")), reversed(0..0));
}

pub(crate) fn scans_of_awkward_keys(subject: &impl Subject) {
    let store = subject.open();
    let all: [&[u8]; 5] = [&[0], &[0xfe, 0xff], &[0xff], &[0xff, 0xff], &[0xff, 0xff, 1]];
    store.commit(Group::new(None, &all.map(|key| Change::put(Table::Keys, key, *b"v")))).unwrap();
    assert_eq!(keys(&store, &[0xff], None, Direction::Forward), all[2..]);
    assert_eq!(keys(&store, &[0xff, 0xff], None, Direction::Backward), [all[4], all[3]]);
    assert_eq!(keys(&store, &[0xfe, 0xff], None, Direction::Backward), [all[1]]);
    assert_eq!(keys(&store, &[0], Some(&[0xff]), Direction::Backward), [all[0]]);
    let long = vec![7; 1024];
    store.commit(Group::new(None, &[Change::put(Table::Keys, long.clone(), *b"v")])).unwrap();
    assert_eq!(keys(&store, &[7], None, Direction::Forward), [long]);
}

pub(crate) fn a_scan_can_stop_and_may_use_the_store(subject: &impl Subject) {
    let store = subject.open();
    let put = |n: u16| Change::put(Table::Keys, n.to_be_bytes(), *b"v");
    store.commit(Group::new(None, &(0..500).map(put).collect::<Vec<_>>())).unwrap();
    for direction in [Direction::Forward, Direction::Backward] {
        assert_eq!(keys(&store, b"", None, direction).len(), 500);
        let mut left = 150;
        store
            .scan(Table::Keys, b"", None, direction, &mut |key, _| {
                store
                    .commit(Group::new(None, &[Change::put(Table::Buckets, key, *b"seen")]))
                    .unwrap();
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .unwrap();
        assert_eq!(left, 0);
    }
}

pub(crate) fn empty_and_large_values(subject: &impl Subject) {
    let large: Vec<u8> = (0..3_000_000u32).map(|n| (n ^ (n >> 8)) as u8).collect();
    let store = subject.open();
    let changes = [
        Change::put(Table::Keys, *b"empty", *b""),
        Change::put(Table::Keys, *b"large", large.clone()),
    ];
    store.commit(Group::new(None, &changes)).unwrap();
    drop(store);
    let store = subject.open();
    assert_eq!(store.get(Table::Keys, b"empty"), Ok(Some(Vec::new())));
    assert_eq!(store.get(Table::Keys, b"large"), Ok(Some(large)));
    assert_eq!(keys(&store, b"", None, Direction::Forward).len(), 2);
}

pub(crate) const LOG: LogId = LogId([9; 16]);

/// A view under test, and a way to open its data again.
pub(crate) trait ViewSubject {
    type View: MarkedView;

    /// Opens the data that earlier views of this subject wrote. The earlier ones are dropped.
    fn open(&self) -> Self::View;
}

/// Runs the suite in a module of this name.
macro_rules! view_contract {
    ($name:ident, $subject:expr) => {
        mod $name {
            #[allow(unused_imports, reason = "the subject may need nothing of it")]
            use super::*;
            use crate::view::conformance as suite;

            #[test]
            fn a_new_view_has_no_mark() {
                suite::a_new_view_has_no_mark(&$subject);
            }

            #[test]
            fn changes_and_their_mark_are_one() {
                suite::changes_and_their_mark_are_one(&$subject);
            }

            #[test]
            fn only_a_sync_moves_the_synced_mark() {
                suite::only_a_sync_moves_the_synced_mark(&$subject);
            }

            #[test]
            fn reopening_a_view_that_works_changes_nothing() {
                suite::reopening_a_view_that_works_changes_nothing(&$subject);
            }

            #[test]
            fn a_snapshot_stays_at_its_mark() {
                suite::a_snapshot_stays_at_its_mark(&$subject);
            }

            #[test]
            fn applying_again_from_an_earlier_mark_gives_the_same() {
                suite::applying_again_from_an_earlier_mark_gives_the_same(|| $subject);
            }
        }
    };
}
pub(crate) use view_contract;

pub(crate) fn mark(position: u64) -> Mark {
    Mark { position: Position(position), epoch: 1, hash: EntryHash([position as u8; 16]) }
}

pub(crate) fn put(key: u8, value: u64) -> Change {
    Change::put(Table::Keys, [key], value.to_be_bytes())
}

pub(crate) fn a_new_view_has_no_mark(subject: &impl ViewSubject) {
    let view = subject.open();
    assert_eq!((view.log(), view.applied()), (Ok(None), Ok(Mark::default())));
    assert_eq!(view.synced(), Ok(Position::START));
    view.begin(LOG, &mark(7)).unwrap();
    drop(view);
    let view = subject.open();
    assert_eq!((view.log(), view.applied()), (Ok(Some(LOG)), Ok(mark(7))));
    assert_eq!(view.synced(), Ok(Position(7)));
}

pub(crate) fn changes_and_their_mark_are_one(subject: &impl ViewSubject) {
    let view = subject.open();
    view.begin(LOG, &Mark::default()).unwrap();
    view.apply(&mark(1), &[put(1, 1), put(2, 1)]).unwrap();
    view.apply(&mark(2), &[]).unwrap();
    view.apply(&mark(4), &[put(1, 4), Change::delete(Table::Keys, [2])]).unwrap();
    assert_eq!(view.applied(), Ok(mark(4)));
    drop(view);
    let view = subject.open();
    assert_eq!(view.applied(), Ok(mark(4)));
    assert_eq!(view.get(Table::Keys, &[1]), Ok(Some(4_u64.to_be_bytes().to_vec())));
    assert_eq!(view.get(Table::Keys, &[2]), Ok(None));
}

pub(crate) fn only_a_sync_moves_the_synced_mark(subject: &impl ViewSubject) {
    let view = subject.open();
    view.begin(LOG, &Mark::default()).unwrap();
    view.apply(&mark(1), &[put(1, 1)]).unwrap();
    assert_eq!(view.synced(), Ok(Position::START));
    assert_eq!(view.sync(), Ok(Position(1)));
    view.apply(&mark(2), &[put(1, 2)]).unwrap();
    assert_eq!(view.synced(), Ok(Position(1)));
    drop(view);
    // The process ended, and the machine did not.
    let view = subject.open();
    assert_eq!((view.applied(), view.synced()), (Ok(mark(2)), Ok(Position(1))));
    assert_eq!(view.get(Table::Keys, &[1]), Ok(Some(2_u64.to_be_bytes().to_vec())));
}

pub(crate) fn reopening_a_view_that_works_changes_nothing(subject: &impl ViewSubject) {
    let view = subject.open();
    view.begin(LOG, &Mark::default()).unwrap();
    view.apply(&mark(1), &[put(1, 1)]).unwrap();
    view.reopen().unwrap();
    assert_eq!((view.applied(), view.synced()), (Ok(mark(1)), Ok(Position::START)));
    assert_eq!(view.get(Table::Keys, &[1]), Ok(Some(1_u64.to_be_bytes().to_vec())));
}

fn content(view: &dyn MarkedView) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found = BTreeMap::new();
    let visit = &mut |key: &[u8], value: &[u8]| {
        found.insert(key.to_vec(), value.to_vec());
        ControlFlow::Continue(())
    };
    view.scan(Table::Keys, &[], None, Direction::Forward, visit).unwrap();
    found
}

pub(crate) fn a_snapshot_stays_at_its_mark(subject: &impl ViewSubject) {
    let view = subject.open();
    view.begin(LOG, &Mark::default()).unwrap();
    // This is more than a page, in two tables.
    let large = |at: u64| -> Vec<Change> {
        let record = |table, key: u8| Change::put(table, [key], vec![at as u8; 200_000]);
        (0..8).flat_map(|key| [record(Table::Keys, key), record(Table::Otps, key)]).collect()
    };
    view.apply(&mark(1), &large(1)).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut at = 2;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) && at < 20 {
                view.apply(&mark(at), &large(at)).unwrap();
                at += 1;
            }
        });
        for _ in 0..5 {
            let snapshot = view.snapshot().unwrap();
            let at = snapshot.mark().position.0;
            for table in [Table::Keys, Table::Otps] {
                let found = pages(&*snapshot, table);
                assert_eq!(found.len(), 8);
                assert!(found.iter().all(|(_, value)| value == &vec![at as u8; 200_000]), "{at}");
            }
            assert!(pages(&*snapshot, Table::Mails).is_empty());
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        writer.join().unwrap();
    });
}

/// Returns all records of a table in a snapshot.
fn pages(snapshot: &dyn ViewSnapshot, table: Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    loop {
        let after = all.last().map(|(key, _)| key.clone());
        let page = snapshot.page(table, after.as_deref()).unwrap();
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

pub(crate) fn applying_again_from_an_earlier_mark_gives_the_same<S: ViewSubject>(
    subject: impl Fn() -> S,
) {
    let change = (0..6_u8, any::<bool>());
    let commits = prop::collection::vec(prop::collection::vec(change, 0..4), 1..20);
    let config = ProptestConfig { cases: 8, failure_persistence: None, ..Default::default() };
    proptest!(config, |(commits in commits, share in 0..100_usize)| {
        let subject = subject();
        let view = subject.open();
        view.begin(LOG, &Mark::default()).unwrap();
        let apply = |at: usize| {
            let changes: BTreeMap<_, _> = commits[at].iter().copied().collect();
            let changes = changes.into_iter().map(|(key, puts)| match puts {
                true => put(key, at as u64),
                false => Change::delete(Table::Keys, [key]),
            });
            view.apply(&mark(at as u64 + 1), &changes.collect::<Vec<_>>()).unwrap();
        };
        (0..commits.len()).for_each(apply);
        let expected = content(&view);
        (commits.len() * share / 100..commits.len()).for_each(apply);
        prop_assert_eq!(content(&view), expected);
        prop_assert_eq!(view.applied(), Ok(mark(commits.len() as u64)));
    });
}

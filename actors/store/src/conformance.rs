//! The contract of every [`Store`], as one suite that each implementation runs.

use crate::log::Log;
use crate::view::View;
use std::ops::ControlFlow;

use crate::log::replay;
use crate::{Change, Direction, Frame, Group, Position, Section, Store, StoreError, Table};

/// A store under test, and the way to open what it wrote once more.
pub(super) trait Subject {
    type Store: Store;

    /// Opens what earlier stores of this subject wrote. The earlier ones are dropped.
    fn open(&self) -> Self::Store;
}

/// Runs the suite: `store_contract!(name, subject)` makes a module of tests.
macro_rules! store_contract {
    ($name:ident, $subject:expr) => {
        mod $name {
            #[allow(unused_imports, reason = "the subject may need nothing of it")]
            use super::*;
            use crate::conformance as suite;

            $crate::conformance::store_contract!(@tests $subject;
                a_commit_shows_as_a_whole
                a_commit_survives_opening_again
                scans_go_both_ways
                scans_of_awkward_keys
                a_scan_can_stop_and_may_use_the_store
                empty_and_large_values
                the_journal_shows_what_follows_a_position
                a_frame_out_of_order_is_refused
                numbers_continue_after_opening_again
                trimming_forgets_frames_but_not_the_last_number
                a_replay_fails_without_the_frames_that_were_trimmed
                trimming_beyond_the_end_keeps_the_next_number
                reopening_a_store_that_works_changes_nothing
                many_commits_and_trims
            );
        }
    };
    (@tests $subject:expr; $($test:ident)*) => {
        $(#[test] fn $test() { suite::$test(&$subject); })*
    };
}
pub(super) use store_contract;

pub(super) fn frame(number: u64, events: &[u8]) -> Frame {
    let section = |id: &str| Section { workspace: id.parse().unwrap(), events: events.to_vec() };
    Frame { epoch: 1, number: Position(number), sections: vec![section("acme"), section("b")] }
}

pub(super) fn numbers(store: &dyn Store, after: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    store
        .read(Position(after), &mut |frame| {
            numbers.push(frame.number.0);
            ControlFlow::Continue(())
        })
        .unwrap();
    numbers
}

fn keys(
    store: &dyn Store,
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

pub(super) fn a_commit_shows_as_a_whole(subject: &impl Subject) {
    let store = subject.open();
    assert_eq!(store.get(Table::Keys, b"k"), Ok(None));
    assert_eq!(store.last_position(), Ok(Position::START));
    assert_eq!(store.bytes_after(Position::START), Ok(0));
    let changes = [Change::put(Table::Keys, *b"k", *b"1"), Change::put(Table::Meta, *b"k", *b"2")];
    store.commit(Group::new(Some(&frame(1, b"one")), &changes)).unwrap();
    assert_eq!(store.get(Table::Keys, b"k"), Ok(Some(b"1".to_vec())));
    assert_eq!(store.get(Table::Meta, b"k"), Ok(Some(b"2".to_vec())));
    assert_eq!(store.get(Table::Events, b"k"), Ok(None));
    assert_eq!(numbers(&store, 0), [1]);
    let changes = [Change::delete(Table::Keys, *b"k"), Change::delete(Table::Keys, *b"absent")];
    store.commit(Group::new(None, &changes)).unwrap();
    assert_eq!(store.get(Table::Keys, b"k"), Ok(None));
    assert_eq!(keys(&store, b"", None, Direction::Forward), <[Vec<u8>; 0]>::default());
    assert_eq!(store.last_position(), Ok(Position(1)));
}

pub(super) fn a_commit_survives_opening_again(subject: &impl Subject) {
    let store = subject.open();
    store
        .commit(Group::new(Some(&frame(1, b"one")), &[Change::put(Table::Keys, *b"k", *b"1")]))
        .unwrap();
    store
        .commit(Group::new(Some(&frame(2, b"two")), &[Change::put(Table::Keys, *b"k", *b"2")]))
        .unwrap();
    store.commit(Group::new(None, &[Change::put(Table::Keys, *b"x", *b"3")])).unwrap();
    store.commit(Group::new(None, &[Change::delete(Table::Keys, *b"x")])).unwrap();
    drop(store);
    let store = subject.open();
    assert_eq!(store.get(Table::Keys, b"k"), Ok(Some(b"2".to_vec())));
    assert_eq!(store.get(Table::Keys, b"x"), Ok(None));
    let mut frames = Vec::new();
    let mut visit = |frame| {
        frames.push(frame);
        ControlFlow::Continue(())
    };
    store.read(Position::START, &mut visit).unwrap();
    assert_eq!(frames, [frame(1, b"one"), frame(2, b"two")]);
    assert_eq!(store.last_position(), Ok(Position(2)));
}

pub(super) fn scans_go_both_ways(subject: &impl Subject) {
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

pub(super) fn scans_of_awkward_keys(subject: &impl Subject) {
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

pub(super) fn a_scan_can_stop_and_may_use_the_store(subject: &impl Subject) {
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
    store.commit(Group::new(Some(&frame(1, b"a")), &[])).unwrap();
    store.commit(Group::new(Some(&frame(2, b"b")), &[])).unwrap();
    let mut seen = 0;
    let mut visit = |_| {
        seen += 1;
        ControlFlow::Break(())
    };
    store.read(Position::START, &mut visit).unwrap();
    assert_eq!(seen, 1);
}

pub(super) fn empty_and_large_values(subject: &impl Subject) {
    let large: Vec<u8> = (0..3_000_000u32).map(|n| (n ^ (n >> 8)) as u8).collect();
    let store = subject.open();
    let changes = [
        Change::put(Table::Keys, *b"empty", *b""),
        Change::put(Table::Keys, *b"large", large.clone()),
    ];
    store.commit(Group::new(None, &changes)).unwrap();
    let events = vec![9; crate::log::frame::FRAME_BYTES_MAX / 2 - 100];
    store.commit(Group::new(Some(&frame(1, &events)), &[])).unwrap();
    drop(store);
    let store = subject.open();
    assert_eq!(store.get(Table::Keys, b"empty"), Ok(Some(Vec::new())));
    assert_eq!(store.get(Table::Keys, b"large"), Ok(Some(large)));
    assert_eq!(keys(&store, b"", None, Direction::Forward).len(), 2);
    assert_eq!(numbers(&store, 0), [1]);
}

pub(super) fn the_journal_shows_what_follows_a_position(subject: &impl Subject) {
    let store = subject.open();
    for number in 1..=300 {
        store.commit(Group::new(Some(&frame(number, b"events")), &[])).unwrap();
    }
    assert_eq!(numbers(&store, 0), (1..=300).collect::<Vec<_>>());
    assert_eq!(numbers(&store, 255), (256..=300).collect::<Vec<_>>());
    assert_eq!(numbers(&store, 299), [300]);
    assert!(numbers(&store, 300).is_empty());
    assert!(numbers(&store, 1000).is_empty());
    let [all, half, none] = [0, 150, 300].map(|at| store.bytes_after(Position(at)).unwrap());
    assert_eq!(none, 0);
    assert!(half * 3 > all && half * 3 < all * 2, "{half} of {all}");
}

pub(super) fn a_frame_out_of_order_is_refused(subject: &impl Subject) {
    for wrong in [0, 1, 3] {
        let store = subject.open();
        let next = store.last_position().unwrap().next();
        if next == Position(1) {
            store.commit(Group::new(Some(&frame(1, b"one")), &[])).unwrap();
        }
        let change = Change::put(Table::Keys, *b"k", *b"with it");
        let refused = store.commit(Group::new(Some(&frame(wrong, b"wrong")), &[change]));
        assert!(matches!(refused, Err(StoreError::Failed(_))), "{wrong}: {refused:?}");
        store.reopen().unwrap();
        assert_eq!(store.get(Table::Keys, b"k"), Ok(None));
        assert_eq!(numbers(&store, 0), [1]);
    }
}

pub(super) fn numbers_continue_after_opening_again(subject: &impl Subject) {
    for round in 0..3 {
        let store = subject.open();
        assert_eq!(store.last_position(), Ok(Position(round * 10)));
        for number in round * 10 + 1..=round * 10 + 10 {
            store.commit(Group::new(Some(&frame(number, b"events")), &[])).unwrap();
        }
    }
    assert_eq!(numbers(&subject.open(), 0), (1..=30).collect::<Vec<_>>());
}

pub(super) fn trimming_forgets_frames_but_not_the_last_number(subject: &impl Subject) {
    let store = subject.open();
    for number in 1..=20 {
        store.commit(Group::new(Some(&frame(number, b"events")), &[])).unwrap();
    }
    store.trim(Position(5)).unwrap();
    assert_eq!(numbers(&store, 0), (6..=20).collect::<Vec<_>>());
    store.trim(Position(3)).unwrap();
    assert_eq!(numbers(&store, 0), (6..=20).collect::<Vec<_>>());
    store.trim(Position(20)).unwrap();
    assert!(numbers(&store, 0).is_empty());
    assert_eq!(store.bytes_after(Position::START), Ok(0));
    assert_eq!(store.last_position(), Ok(Position(20)));
    drop(store);
    let store = subject.open();
    assert_eq!(store.last_position(), Ok(Position(20)));
    store.commit(Group::new(Some(&frame(21, b"events")), &[])).unwrap();
    assert_eq!(numbers(&store, 20), [21]);
}

pub(super) fn a_replay_fails_without_the_frames_that_were_trimmed(subject: &impl Subject) {
    let store = subject.open();
    let replay = |after| {
        let mut frames = 0;
        let mut visit = |_| {
            frames += 1;
            ControlFlow::Continue(())
        };
        replay(&store, Position(after), &mut visit).map(|()| frames)
    };
    let is_damage = |replayed| matches!(replayed, Err(StoreError::Damaged(_)));
    assert_eq!(replay(0), Ok(0));
    for number in 1..=5 {
        store.commit(Group::new(Some(&frame(number, b"events")), &[])).unwrap();
    }
    assert_eq!((replay(0), replay(5)), (Ok(5), Ok(0)));
    assert!(is_damage(replay(6)));
    store.trim(Position(3)).unwrap();
    assert_eq!((replay(3), replay(4)), (Ok(2), Ok(1)));
    assert!(is_damage(replay(2)));
    store.trim(Position(5)).unwrap();
    assert_eq!(replay(5), Ok(0));
    assert!(is_damage(replay(4)));
}

pub(super) fn trimming_beyond_the_end_keeps_the_next_number(subject: &impl Subject) {
    let store = subject.open();
    store.trim(Position(7)).unwrap();
    assert_eq!(store.last_position(), Ok(Position::START));
    store.commit(Group::new(Some(&frame(1, b"events")), &[])).unwrap();
    assert_eq!(numbers(&store, 0), [1]);
    store.trim(Position(u64::MAX - 1)).unwrap();
    assert!(numbers(&store, 0).is_empty());
    store.commit(Group::new(Some(&frame(2, b"events")), &[])).unwrap();
    assert_eq!(numbers(&store, 0), [2]);
}

pub(super) fn reopening_a_store_that_works_changes_nothing(subject: &impl Subject) {
    let store = subject.open();
    let put = Change::put(Table::Keys, *b"k", *b"v");
    store.commit(Group::new(Some(&frame(1, b"events")), std::slice::from_ref(&put))).unwrap();
    store.reopen().unwrap();
    assert_eq!(store.get(Table::Keys, b"k"), Ok(Some(b"v".to_vec())));
    store.commit(Group::new(Some(&frame(2, b"events")), &[put])).unwrap();
    assert_eq!(numbers(&store, 0), [1, 2]);
}

pub(super) fn many_commits_and_trims(subject: &impl Subject) {
    let mut store = subject.open();
    for number in 1..=200u64 {
        let put = Change::put(Table::Keys, (number % 7).to_be_bytes(), number.to_be_bytes());
        store.commit(Group::new(Some(&frame(number, &number.to_be_bytes())), &[put])).unwrap();
        if number % 50 == 0 {
            store.trim(Position(number - 20)).unwrap();
            assert_eq!(numbers(&store, 0), (number - 19..=number).collect::<Vec<_>>());
        }
        if number % 80 == 0 {
            drop(store);
            store = subject.open();
            assert_eq!(store.last_position(), Ok(Position(number)));
        }
    }
    let sum: u64 = (0..7u64)
        .map(|at| store.get(Table::Keys, &at.to_be_bytes()).unwrap().unwrap())
        .map(|value| u64::from_be_bytes(value.try_into().unwrap()))
        .sum();
    assert_eq!(sum, (194..=200).sum::<u64>());
}

//! The contract of every [`Store`]: the suites of its two ports, and a commit's effect on both.

use std::ops::ControlFlow;

use crate::log::conformance::{frame, numbers};
use crate::view::conformance::keys;
use crate::{Change, Direction, Group, Log, Position, Store, Table, View};

/// A store under test, and a way to open its data again.
pub(crate) trait Subject {
    type Store: Store;

    /// Opens the data that earlier stores of this subject wrote. The earlier ones are dropped.
    fn open(&self) -> Self::Store;
}

/// Runs the suites: `store_contract!(name, subject)` creates a module of tests for each.
macro_rules! store_contract {
    ($name:ident, $subject:expr) => {
        mod $name {
            $crate::conformance::store_contract!(@suite log, crate::log::conformance, $subject;
                the_journal_shows_what_follows_a_position
                a_read_can_stop
                large_frames
                a_frame_out_of_order_is_refused
                numbers_continue_after_opening_again
                trimming_forgets_frames_but_not_the_last_number
                a_replay_fails_without_the_frames_that_were_trimmed
                trimming_beyond_the_end_keeps_the_next_number
            );
            $crate::conformance::store_contract!(@suite view, crate::view::conformance, $subject;
                scans_go_both_ways
                scans_of_awkward_keys
                a_scan_can_stop_and_may_use_the_store
                empty_and_large_values
            );
            $crate::conformance::store_contract!(@suite both, crate::conformance, $subject;
                a_commit_shows_as_a_whole
                a_commit_survives_opening_again
                reopening_a_store_that_works_changes_nothing
                many_commits_and_trims
            );
        }
    };
    (@suite $port:ident, $($suite:ident)::+, $subject:expr; $($test:ident)*) => {
        mod $port {
            #[allow(unused_imports, reason = "the subject may need nothing of it")]
            use super::super::*;
            use $($suite)::+ as suite;

            $(#[test] fn $test() { suite::$test(&$subject); })*
        }
    };
}
pub(crate) use store_contract;

pub(crate) fn a_commit_shows_as_a_whole(subject: &impl Subject) {
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

pub(crate) fn a_commit_survives_opening_again(subject: &impl Subject) {
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

pub(crate) fn reopening_a_store_that_works_changes_nothing(subject: &impl Subject) {
    let store = subject.open();
    let put = Change::put(Table::Keys, *b"k", *b"v");
    store.commit(Group::new(Some(&frame(1, b"events")), std::slice::from_ref(&put))).unwrap();
    store.reopen().unwrap();
    assert_eq!(store.get(Table::Keys, b"k"), Ok(Some(b"v".to_vec())));
    store.commit(Group::new(Some(&frame(2, b"events")), &[put])).unwrap();
    assert_eq!(numbers(&store, 0), [1, 2]);
}

pub(crate) fn many_commits_and_trims(subject: &impl Subject) {
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

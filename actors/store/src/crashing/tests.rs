//! Tests of the crashing store against the contract, and of its crashes.

use parking_lot::Mutex;

use super::*;
use crate::conformance::Subject;
use crate::log::conformance::{frame, numbers};
use crate::{Change, Group, view};

impl Subject for CrashingStore {
    type Store = Self;

    fn open(&self) -> Self {
        self.clone()
    }
}

/// Each opening finds the state after a crash that kept nothing unsynced.
struct CrashEachTime(Mutex<CrashingStore>);

impl Subject for CrashEachTime {
    type Store = CrashingStore;

    fn open(&self) -> CrashingStore {
        let mut store = self.0.lock();
        *store = store.crash(Keep::Nothing);
        store.clone()
    }
}

#[test]
fn its_view_keeps_the_contract() {
    view::conformance::scans_go_both_ways(&CrashingStore::new());
    view::conformance::scans_of_awkward_keys(&CrashingStore::new());
    view::conformance::a_scan_can_stop_and_may_use_the_store(&CrashingStore::new());
    view::conformance::empty_and_large_values(&CrashEachTime(Mutex::default()));
}

fn put(value: &str) -> Change {
    Change::put(Table::Keys, *b"k", value)
}

/// Commits a frame and a record.
fn commit(store: &CrashingStore, value: &str) -> Result<Position, StoreError> {
    let number = store.last_position()?.next();
    store.commit(Group::new(Some(&frame(number.0, value.as_bytes())), &[put(value)]))
}

#[test]
fn what_was_acknowledged_survives_crashes() {
    let mut store = CrashingStore::new();
    let mut committed = Vec::new();
    for round in 0..30 {
        committed.push(commit(&store, &round.to_string()).unwrap().0);
        if round == 20 {
            store.trim(Position(committed[10])).unwrap();
            committed.drain(..=10);
        }
        // The trim is durable with the next commit.
        if round != 20 {
            store = store.crash([Keep::Nothing, Keep::Everything][round % 2]);
        }
        assert_eq!(numbers(&store, 0), committed);
        assert_eq!(store.get(Table::Keys, b"k"), Ok(Some(round.to_string().into_bytes())));
    }
}

fn two_commits_the_second_fails(outcome: CrashOutcome) -> CrashingStore {
    let store = CrashingStore::new();
    store.fail_after(1, outcome);
    commit(&store, "1").unwrap();
    commit(&store, "2").unwrap_err();
    assert!(store.get(Table::Keys, b"k").is_err());
    assert!(store.commit(Group::new(None, &[])).is_err());
    store
}

/// Returns the number of frames, and the record.
fn contents(store: &CrashingStore) -> (u64, String) {
    let value = store.get(Table::Keys, b"k").unwrap().unwrap();
    (numbers(store, 0).len() as u64, String::from_utf8(value).unwrap())
}

#[test]
fn a_failed_commit_has_the_scripted_outcome() {
    let (one, two) = ((1, "1".to_owned()), (2, "2".to_owned()));
    for (outcome, expected) in
        [(CrashOutcome::Lost, &one), (CrashOutcome::Kept, &two), (CrashOutcome::Unsynced, &two)]
    {
        let store = two_commits_the_second_fails(outcome);
        store.fail_next_reopens(2);
        assert!(store.reopen().is_err() && store.reopen().is_err());
        store.reopen().unwrap();
        assert_eq!(contents(&store), *expected, "{outcome:?}");
        assert_eq!(contents(&store.crash(Keep::Nothing)), *expected, "{outcome:?}");
        assert!(store.reopen().is_err() && store.get(Table::Keys, b"k").is_err());
    }
}

#[test]
fn a_torn_commit_is_lost_as_a_whole() {
    let store = two_commits_the_second_fails(CrashOutcome::Unsynced);
    let bytes = store.unsynced_bytes();
    assert!(bytes > 0);
    for kept in 0..bytes {
        assert_eq!(contents(&store.crash(Keep::Bytes(kept))).0, 1, "{kept} of {bytes}");
    }
    assert_eq!(contents(&store.crash(Keep::Bytes(bytes))).0, 2);
    assert_eq!(contents(&store.crash(Keep::Everything)).1, "2");
    assert_eq!(contents(&store.crash(Keep::Nothing)).1, "1");
}

#[test]
fn a_trim_may_be_undone_by_a_crash() {
    let store = CrashingStore::new();
    let [first, second] = ["1", "2"].map(|value| commit(&store, value).unwrap());
    store.trim(first).unwrap();
    assert_eq!(numbers(&store, 0), [second.0]);
    assert_eq!(numbers(&store.crash(Keep::Nothing), 0), [first.0, second.0]);
    assert_eq!(numbers(&store.crash(Keep::Everything), 0), [second.0]);
}

//! Tests of the crashing store against the contract, and of its crashes.

use super::*;
use crate::conformance::{Subject, store_contract};
use crate::log::conformance::{frame, numbers};
use crate::{conformance, log, view};

impl Subject for CrashingStore {
    type Store = Self;

    fn open(&self) -> Self {
        self.clone()
    }
}

/// Every opening finds what a crash left that kept nothing unsynced.
struct CrashEachTime(Mutex<CrashingStore>);

impl Subject for CrashEachTime {
    type Store = CrashingStore;

    fn open(&self) -> CrashingStore {
        let mut store = self.0.lock();
        *store = store.crash(Keep::Nothing);
        store.clone()
    }
}

store_contract!(contract, CrashingStore::new());

#[test]
fn what_was_acknowledged_survives_crashes() {
    let subject = || CrashEachTime(Mutex::default());
    conformance::a_commit_survives_opening_again(&subject());
    log::conformance::numbers_continue_after_opening_again(&subject());
    log::conformance::large_frames(&subject());
    log::conformance::trimming_forgets_frames_but_not_the_last_number(&subject());
    view::conformance::empty_and_large_values(&subject());
}

fn put(value: &str) -> Change {
    Change::put(Table::Keys, *b"k", value)
}

fn two_commits_the_second_fails(outcome: CrashOutcome) -> CrashingStore {
    let store = CrashingStore::new();
    store.fail_after(1, outcome);
    store.commit(Group::new(Some(&frame(1, b"one")), &[put("1")])).unwrap();
    store.commit(Group::new(Some(&frame(2, b"two")), &[put("2")])).unwrap_err();
    assert!(store.get(Table::Keys, b"k").is_err());
    assert!(store.commit(Group::new(None, &[])).is_err());
    store
}

fn contents(store: &CrashingStore) -> (u64, String) {
    let value = store.get(Table::Keys, b"k").unwrap().unwrap();
    assert_eq!(numbers(store, 0).last().copied(), Some(store.last_position().unwrap().0));
    (store.last_position().unwrap().0, String::from_utf8(value).unwrap())
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
fn a_torn_commit_is_gone_as_a_whole() {
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
    store.commit(Group::new(Some(&frame(1, b"one")), &[])).unwrap();
    store.trim(Position(1)).unwrap();
    assert!(numbers(&store, 0).is_empty());
    assert_eq!(numbers(&store.crash(Keep::Nothing), 0), [1]);
    assert!(numbers(&store.crash(Keep::Everything), 0).is_empty());
}

//! Tests of the store over a log, through failures, crashes and power cuts.
//!
//! Acknowledged commits survive all of them, and the view always matches the log.

mod histories;
mod notes;
mod on_disk;

use std::ops::ControlFlow;
use std::sync::Arc;

use postrider_log::{CrashingLog, Fault, FileOptions, Keep, LogId, MemoryFault, MemoryLog, Start};

use super::*;
use crate::memory::Failing;
use crate::{Change, MemoryView, Section};

const ID: LogId = LogId([3; 16]);

/// A store on a disk in memory.
struct Rig {
    log: Arc<CrashingLog>,
    view: MemoryView,
    store: LogStore,
}

impl Rig {
    fn new() -> Self {
        let log = CrashingLog::with_options(Start::new(ID), options()).unwrap();
        Self::open(log, MemoryView::new()).unwrap()
    }

    fn open(log: CrashingLog, view: MemoryView) -> Result<Self, StoreError> {
        let log = Arc::new(log);
        let store = LogStore::open(log.clone(), Arc::new(view.clone()), Writes::default())?;
        store.begin_epoch()?;
        Ok(Self { log, view, store })
    }

    /// Returns the store that the next process opens after a power cut.
    fn after_power_cut(&self, keep: Keep) -> Result<Self, StoreError> {
        Self::open(self.log.crash(keep)?, self.view.after_power_cut())
    }

    /// Returns the store that the next process opens after this one was killed.
    fn after_kill(&self) -> Result<Self, StoreError> {
        Self::open(self.log.crash(Keep::Cache)?, self.view.after_end())
    }

    fn commit(&self, number: u64) -> Result<Position, StoreError> {
        commit(&self.store, number)
    }

    fn reopen(&self) {
        self.store.reopen().unwrap();
        self.store.begin_epoch().unwrap();
    }
}

/// Returns options with small entries and segments.
///
/// So some commits have several entries, and trims remove some segments.
fn options() -> FileOptions {
    FileOptions { segment_bytes: 8 * 1024, entry_bytes_max: 400, ..FileOptions::default() }
}

/// Commits a frame with this number as its events, and the number as one of seven records.
///
/// Every third commit needs several entries.
fn commit(store: &dyn Store, number: u64) -> Result<Position, StoreError> {
    let events = number.to_be_bytes().to_vec();
    let sections = vec![Section { workspace: "acme".parse().unwrap(), events }];
    let frame = Frame { epoch: 0, number: store.last_position()?.next(), sections };
    let mut value = number.to_be_bytes().to_vec();
    value.resize(if number.is_multiple_of(3) { 1_000 } else { 8 }, 0);
    let change = Change::put(Table::Keys, [(number % 7) as u8], value);
    store.commit(Group::new(Some(&frame), &[change]))
}

/// Returns the numbers in the frames that the log still has.
fn frames(store: &dyn Log) -> Vec<u64> {
    let mut found = Vec::new();
    let visit = &mut |frame: Frame| {
        let [section] = <[Section; 1]>::try_from(frame.sections).unwrap();
        found.push(u64::from_be_bytes(section.events.try_into().unwrap()));
        ControlFlow::Continue(())
    };
    store.read(Position::START, visit).unwrap();
    found
}

/// Returns the newest number of each record.
fn records(store: &dyn View) -> [Option<u64>; 7] {
    [0, 1, 2, 3, 4, 5, 6].map(|key| {
        let value = store.get(Table::Keys, &[key]).unwrap()?;
        Some(u64::from_be_bytes(*value.first_chunk().unwrap()))
    })
}

/// Returns the records after these commits.
fn folded(commits: &[u64]) -> [Option<u64>; 7] {
    let mut records = [None; 7];
    commits.iter().for_each(|number| records[(number % 7) as usize] = Some(*number));
    records
}

#[test]
fn positions_have_no_gaps_and_a_frame_has_that_of_its_last_entry() {
    let rig = Rig::new();
    assert_eq!(rig.store.last_position(), Ok(Position(1)), "the claim");
    assert_eq!(rig.commit(1), Ok(Position(2)));
    assert_eq!(rig.commit(2), Ok(Position(3)));
    // They are 1,000 bytes in entries of 400, of which 88 are not for the body.
    assert_eq!(rig.commit(3), Ok(Position(7)));
    let only_records = Group::new(None, &[]);
    assert_eq!(rig.store.commit(only_records), Ok(Position(8)));
    let mut numbers = Vec::new();
    let visit = &mut |frame: Frame| {
        numbers.push((frame.number.0, frame.epoch));
        ControlFlow::Continue(())
    };
    assert_eq!(rig.store.read(Position::START, visit), Ok(Position(8)));
    assert_eq!(numbers, [(2, 1), (3, 1), (7, 1)]);
    assert_eq!(rig.view.applied().unwrap().position, Position(8));
    let mut after = Vec::new();
    let visit = &mut |frame: Frame| {
        after.push(frame.number.0);
        ControlFlow::Break(())
    };
    assert_eq!(crate::log::replay(&rig.store, Position(3), visit), Ok(Position(7)));
    assert_eq!(after, [7]);
    let visit = &mut |_| ControlFlow::Continue(());
    assert!(crate::log::replay(&rig.store, Position(9), visit).is_err());
}

#[test]
fn a_frame_with_another_number_is_refused() {
    let rig = Rig::new();
    let frame = Frame { epoch: 1, number: Position(1), sections: Vec::new() };
    let refused = rig.store.commit(Group::new(Some(&frame), &[]));
    assert!(matches!(refused, Err(StoreError::Failed(_))), "{refused:?}");
    rig.reopen();
    rig.commit(1).unwrap();
    assert_eq!(frames(&rig.store), [1]);
}

#[test]
fn readers_go_on_while_the_log_fails() {
    let rig = Rig::new();
    rig.commit(1).unwrap();
    rig.log.fail_next_append(Fault::FailedSync);
    rig.commit(2).unwrap_err();
    assert_eq!(records(&rig.store), folded(&[1]));
    assert!(rig.commit(3).is_err() && rig.store.begin_epoch().is_err());
    let frames_fail = rig.store.read(Position::START, &mut |_| ControlFlow::Continue(()));
    assert!(frames_fail.is_err(), "what the log has of the failed commit is not known yet");
    rig.reopen();
    assert_eq!((frames(&rig.store), records(&rig.store)), (vec![1], folded(&[1])));
    rig.commit(4).unwrap();
    let rig = rig.after_power_cut(Keep::Nothing).unwrap();
    assert_eq!((frames(&rig.store), records(&rig.store)), (vec![1, 4], folded(&[1, 4])));
}

#[test]
fn an_unknown_commit_that_is_in_the_log_is_applied_when_it_is_open_again() {
    let (log, view) = (Arc::new(MemoryLog::new(&Start::new(ID))), MemoryView::new());
    let store = LogStore::open(log.clone(), Arc::new(view), Writes::default()).unwrap();
    store.begin_epoch().unwrap();
    commit(&store, 1).unwrap();
    for (number, fault) in [(2, MemoryFault::Kept), (3, MemoryFault::Lost)] {
        log.fail_next_append(fault);
        commit(&store, number).unwrap_err();
        store.reopen().unwrap();
        store.begin_epoch().unwrap();
        assert_eq!((frames(&store), records(&store)), (vec![1, 2], folded(&[1, 2])));
    }
}

#[test]
fn a_view_that_fails_is_hidden_until_it_has_caught_up() {
    for failing in [Failing::Apply, Failing::WriteOut, Failing::Sync] {
        let rig = Rig::new();
        rig.commit(1).unwrap();
        rig.view.sync().unwrap();
        rig.commit(2).unwrap();
        rig.view.fail_next(failing);
        match failing {
            Failing::Apply => drop(rig.commit(3).unwrap_err()),
            Failing::WriteOut => rig.store.inner.write_out(),
            Failing::Sync => rig.store.inner.sync_or_reopen_view(),
        }
        assert!(rig.store.get(Table::Keys, &[1]).is_err());
        rig.commit(4).unwrap_err();
        // The sync thread opens it again, even without a write.
        rig.store.inner.sync_or_reopen_view();
        let expected: &[u64] = if failing == Failing::Apply { &[1, 2, 3] } else { &[1, 2] };
        assert_eq!((frames(&rig.store), records(&rig.store)), (expected.into(), folded(expected)));
        rig.commit(5).unwrap();
        rig.store.inner.sync_or_reopen_view();
        assert_eq!(rig.view.synced(), rig.store.last_position());
    }
}

#[test]
fn a_log_that_ends_before_the_view_is_lost() {
    let rig = Rig::new();
    rig.commit(1).unwrap();
    rig.log.fail_next_append(Fault::Lying);
    rig.commit(2).unwrap();
    let log = rig.log.crash(Keep::Nothing).unwrap();
    let opened = Rig::open(log, rig.view.after_end()).err();
    let (last, applied) = (Position(2), Position(3));
    assert_eq!(opened, Some(StoreError::Lost { last, applied }));
}

#[test]
fn a_view_of_another_log_or_history_is_damage() {
    let rig = Rig::new();
    rig.commit(1).unwrap();
    let is_damage = |start: Start, commits: &[u64]| {
        let log = Arc::new(MemoryLog::new(&start));
        let store = LogStore::open(log.clone(), Arc::new(MemoryView::new()), Writes::default());
        let store = store.unwrap();
        store.begin_epoch().unwrap();
        for number in commits {
            commit(&store, *number).unwrap();
        }
        let opened = LogStore::open(log, Arc::new(rig.view.clone()), Writes::default());
        matches!(opened.err(), Some(StoreError::Damaged(_)))
    };
    assert!(is_damage(Start::new(LogId([4; 16])), &[1]));
    assert!(is_damage(Start::new(ID), &[2]));
    assert!(is_damage(Start::new(ID), &[2, 3]));
    assert!(!is_damage(Start::new(ID), &[1]));
}

#[test]
fn a_trim_keeps_what_the_view_would_lose() {
    let rig = Rig::new();
    for number in 1..=100 {
        rig.commit(number).unwrap();
    }
    rig.view.fail_next(Failing::Sync);
    rig.store.trim(Position(90)).unwrap_err();
    assert_eq!(rig.store.begins_after(), Ok(Position::START));
    rig.reopen();
    rig.store.trim(Position(90)).unwrap();
    let begins_after = rig.store.begins_after().unwrap();
    assert!(Position(40) < begins_after && begins_after <= Position(90), "{begins_after}");
    let trimmed = crate::log::replay(&rig.store, Position(1), &mut |_| ControlFlow::Continue(()));
    assert!(matches!(trimmed, Err(StoreError::Damaged(_))), "{trimmed:?}");
    let rig = rig.after_power_cut(Keep::Nothing).unwrap();
    assert_eq!(records(&rig.store), folded(&(1..=100).collect::<Vec<_>>()));
    // A missing view cannot be built from the rest.
    let log = rig.log.crash(Keep::Nothing).unwrap();
    let opened = Rig::open(log, MemoryView::new()).err();
    assert!(matches!(opened, Some(StoreError::Damaged(_))), "{opened:?}");
}

#[test]
fn a_view_that_is_missing_is_made_anew_of_a_whole_log() {
    let rig = Rig::new();
    for number in 1..=20 {
        rig.commit(number).unwrap();
    }
    let rig = Rig::open(rig.log.crash(Keep::Nothing).unwrap(), MemoryView::new()).unwrap();
    assert_eq!(records(&rig.store), folded(&(1..=20).collect::<Vec<_>>()));
}

#[test]
fn a_clean_stop_leaves_a_synced_view_and_takes_nothing_more() {
    let rig = Rig::new();
    rig.commit(1).unwrap();
    rig.store.close().unwrap();
    assert_eq!(rig.view.synced(), rig.store.last_position());
    rig.commit(2).unwrap_err();
    let rig = rig.after_power_cut(Keep::Nothing).unwrap();
    assert_eq!((frames(&rig.store), records(&rig.store)), (vec![1], folded(&[1])));
}

/// Returns the engine time of every entry, in milliseconds.
fn times(log: &CrashingLog) -> Vec<u64> {
    let (mut times, first) = (Vec::new(), log::Log::tail(log).unwrap().first);
    log::Log::read(log, first, &mut |entry| {
        times.push(entry.header.time_ms);
        ControlFlow::Continue(())
    })
    .unwrap();
    times
}

#[test]
fn no_entry_is_dated_before_the_one_behind_it_or_at_no_time() {
    let log = Arc::new(CrashingLog::with_options(Start::new(ID), options()).unwrap());
    let view = MemoryView::new();
    let open = |millis: u64| {
        let begun_at = Timestamp::from_millis(millis);
        let writes = Writes { begun_at, ..Writes::default() };
        let store = LogStore::open(log.clone(), Arc::new(view.clone()), writes).unwrap();
        store.begin_epoch().unwrap();
        store
    };
    let change = [Change::put(Table::Keys, *b"k", *b"v")];
    let store = open(1_000);
    store.commit(Group::new(None, &change)).unwrap();
    store.commit(Group { time_ms: 3_000, ..Group::new(None, &change) }).unwrap();
    store.commit(Group { time_ms: 2_000, ..Group::new(None, &change) }).unwrap();
    store.commit(Group::new(None, &change)).unwrap();
    assert_eq!(times(&log), [1_000, 1_000, 3_000, 3_000, 3_000]);
    drop(store);
    // The next process, first with a clock that is behind.
    drop(open(500));
    let store = open(4_000);
    store.commit(Group::new(None, &change)).unwrap();
    assert_eq!(times(&log)[5..], [3_000, 4_000, 4_000]);
}

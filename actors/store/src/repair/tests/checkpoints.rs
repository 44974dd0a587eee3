//! Tests that a trimmed log is repaired from checkpoints.

use std::ops::ControlFlow;

use super::*;
use crate::checkpoints::tests::{rewrite, write_of};
use crate::directory::checkpoints;

const LAST: Position = Position(COMMITS as u64 + 1);

/// Returns data with two checkpoints, a log that starts behind the first commits, and no snapshot.
fn trimmed() -> Data {
    let data = Data(tempfile::tempdir().unwrap());
    let (store, _) = open(data.path(), &options([7; 16])).unwrap();
    store.begin_epoch().unwrap();
    let dir = checkpoints(data.path());
    for index in 0..COMMITS {
        store.commit(Group::new(None, &[change(index)])).unwrap();
        if index == 14 || index == 27 {
            let made = dir.write(|out| write_of(&store, out)).unwrap();
            store.keep_for_checkpoints(made.log_needed_after).unwrap();
            store.trim(made.header.at.position).unwrap();
        }
    }
    store.close().unwrap();
    let first = store.begins_after().unwrap();
    assert!(first > Position(5) && first <= Position(16), "{first}");
    drop(store);
    data.wait();
    data
}

/// The snapshots of these tests keep the entries of their base, and count the frames behind it.
fn fold_on(dir: &SnapshotDir, store: &dyn Store) -> Result<(), DirectoryError> {
    let base = dir.load()?;
    let last = crate::log::replay(store, base.position, &mut |_| ControlFlow::Continue(()))?;
    assert_eq!(last, store.last_position()?);
    dir.write(last, base.entries.into_iter())?;
    Ok(())
}

impl Data {
    fn positions(&self) -> Vec<Position> {
        checkpoints(self.path()).all().unwrap().iter().map(|it| it.position).collect()
    }

    fn damage_checkpoint(&self, index: usize) {
        let path = checkpoints(self.path()).all().unwrap()[index].path.clone();
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        fs::write(path, bytes).unwrap();
    }

    fn remove_view(&self) {
        fs::remove_dir_all(self.path().join("view")).unwrap();
    }

    /// Plans and repairs, and checks that only the planned parts are removed.
    fn is_repaired(&self, from: Option<Position>, last: Position) {
        let planned = plan(self.path()).unwrap();
        let given_up = (last < LAST).then(|| (last.next(), LAST));
        let found = (planned.from_checkpoint, planned.last, planned.given_up);
        assert_eq!(found, (from, last, given_up), "{planned:?}");
        self.repair_folding(&planned, &fold_on);
        let loaded = directory::snapshots(self.path()).unwrap().load().unwrap();
        assert_eq!(loaded.position, last);
        assert_eq!(loaded.entries, [("acme".parse().unwrap(), b"hot".to_vec())]);
        assert!(self.positions().is_empty() && self.path().join("checkpoints.damaged").exists());
        self.goes_on(last);
    }

    /// Flips a bit of the entry at a position.
    fn flip_entry(&self, position: Position) {
        let mut place = None;
        let log = postrider_log::StoppedLog::open(&self.path().join("log")).unwrap();
        let mut visit = |entry: &postrider_log::Entry, file: &str, offset: u64| {
            if entry.header.position == position {
                place = Some((self.path().join("log").join(file), offset as usize));
            }
        };
        log.inspect(&mut visit).unwrap();
        let (path, offset) = place.unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes[offset + 90] ^= 4;
        fs::write(path, bytes).unwrap();
    }

    /// Returns the last position that is whole before a byte of a segment.
    fn whole_before(&self, segment: usize, at: u64) -> Position {
        let mut last = Position::START;
        let segment = self.segments()[segment].file_name().unwrap().to_owned();
        let log = postrider_log::StoppedLog::open(&self.path().join("log")).unwrap();
        let mut visit = |entry: &postrider_log::Entry, file: &str, offset: u64| {
            let ends = offset + entry.bytes.len() as u64;
            if file < segment.to_str().unwrap() || *file == *segment && ends <= at {
                last = entry.header.position;
            }
        };
        log.inspect(&mut visit).unwrap();
        last
    }
}

#[test]
fn a_missing_view_is_built_of_the_newest_checkpoint_up_to_the_damage() {
    let data = trimmed();
    let (newest, at) = (data.segments().len() - 1, 7_000);
    let last = data.whole_before(newest, at);
    let from = data.positions()[0];
    assert!(from < last && last < LAST, "{from} {last}");
    data.remove_view();
    data.flip(newest, at as usize);
    data.is_repaired(Some(from), last);
}

#[test]
fn damage_before_the_newest_checkpoint_costs_nothing() {
    for without_view in [false, true] {
        let data = trimmed();
        let newest = data.positions()[0];
        data.flip(0, 6_000);
        assert!(data.whole_before(1, 0) < newest);
        if without_view {
            data.remove_view();
        }
        data.is_repaired(without_view.then_some(newest), LAST);
    }
}

#[test]
fn the_older_checkpoint_leads_to_the_damage_where_the_newest_is_damaged() {
    let data = trimmed();
    let last = data.whole_before(1, 8_000);
    let older = data.positions()[1];
    assert!(older < last);
    data.remove_view();
    data.flip(1, 8_000);
    data.damage_checkpoint(0);
    data.is_repaired(Some(older), last);
}

#[test]
fn missing_segments_cost_what_no_checkpoint_has() {
    let data = trimmed();
    let newest = data.positions()[0];
    let segments = data.segments();
    // If one in the middle is missing, the part before it or the newest checkpoint is kept.
    let before = data.whole_before(segments.len() - 2, 0);
    fs::remove_file(&segments[segments.len() - 2]).unwrap();
    data.remove_view();
    data.is_repaired(Some(newest), before.max(newest));
    // If all are missing, the checkpoint is all there is.
    let data = trimmed();
    data.segments().iter().for_each(|segment| fs::remove_file(segment).unwrap());
    let planned = plan(data.path()).unwrap();
    assert_eq!(planned.last, data.positions()[0]);
    assert_eq!(planned.given_up, Some((planned.last.next(), LAST)));
    data.wait();
    data.is_repaired(Some(newest), newest);
}

#[test]
fn without_a_whole_checkpoint_a_trimmed_log_leads_nowhere() {
    let data = trimmed();
    data.remove_view();
    (0..2).for_each(|index| data.damage_checkpoint(index));
    let refused = data.plan().unwrap_err();
    assert!(matches!(refused, RepairError::NotPossible(_)), "{refused}");
    let message = refused.to_string();
    assert!(
        message.contains("no checkpoint is whole") && message.contains("restore a backup"),
        "{message}"
    );
}

#[test]
fn a_checkpoint_of_another_history_is_not_used() {
    let data = trimmed();
    let newest = checkpoints(data.path()).all().unwrap().remove(0);
    rewrite(&newest, |header, _| header.at.hash.0[0] ^= 1);
    data.remove_view();
    let planned = plan(data.path()).unwrap();
    assert_eq!(planned.from_checkpoint, Some(data.positions()[1]));
    assert!(planned.problems.iter().any(|it| it.contains("another entry at its position")));
    data.is_repaired(Some(data.positions()[1]), LAST);
}

/// The log's own entry at the checkpoint is missing too, and the readable entries behind are not
/// used.
#[test]
fn nothing_is_taken_from_behind_a_damage_that_the_checkpoint_stands_in() {
    let data = trimmed();
    data.remove_view();
    let newest = data.positions()[0];
    // The later one comes first: entries behind damage in the midst of a segment are found again.
    for position in [newest.next(), newest] {
        data.flip_entry(position);
    }
    data.is_repaired(Some(newest), newest);
}

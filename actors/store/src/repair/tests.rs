//! Tests that damaged directories are repaired, and that everything up to a position is kept.

mod checkpoints;

use std::path::PathBuf;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::check::check;
use crate::directory::{DirectoryOptions, open};
use crate::{Change, Group, Store, Table, View, Writes};

const SEGMENT_BYTES: u64 = 16 * 1024;
const COMMITS: u8 = 40;

fn options(log_id: [u8; 16]) -> DirectoryOptions {
    DirectoryOptions {
        writes: Writes::default(),
        log_id,
        segment_bytes: SEGMENT_BYTES,
        view: FjallOptions::default(),
    }
}

/// The snapshots of these tests have no content but their position.
fn fold(dir: &SnapshotDir, store: &dyn Store) -> Result<(), DirectoryError> {
    let last = store.last_position()?;
    dir.write(last, std::iter::empty())?;
    Ok(())
}

fn change(index: u8) -> Change {
    Change::put(Table::Contacts, [b'k', index % 20], vec![index; 1_500])
}

struct Data(TempDir);

impl Data {
    fn new() -> Self {
        let data = Self(tempfile::tempdir().unwrap());
        let (store, _) = open(data.path(), &options([7; 16])).unwrap();
        store.begin_epoch().unwrap();
        for index in 0..COMMITS {
            store.commit(Group::new(None, &[change(index)])).unwrap();
        }
        store.close().unwrap();
        drop(store);
        data.wait();
        data
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn wait(&self) {
        FjallView::wait_until_closed(&self.path().join("view")).unwrap();
    }

    fn segments(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path().join("log")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let mut found: Vec<_> =
            paths.filter(|path| path.extension().is_some_and(|it| it == "log")).collect();
        found.sort();
        found
    }

    fn flip(&self, segment: usize, at: usize) {
        let path = &self.segments()[segment];
        let mut bytes = fs::read(path).unwrap();
        bytes[at] ^= 4;
        fs::write(path, bytes).unwrap();
    }

    fn plan(&self) -> Result<Plan, RepairError> {
        let planned = plan(self.path());
        self.wait();
        planned
    }

    fn repair(&self, plan: &Plan) -> Repaired {
        self.repair_folding(plan, &fold)
    }

    fn repair_folding(&self, plan: &Plan, fold: Fold<'_>) -> Repaired {
        let repaired = carry_out(self.path(), plan, [9; 16], fold).unwrap();
        assert_eq!(repaired, Repaired { last: plan.last, log: LogId([9; 16]) });
        repaired
    }

    /// Checks that a server starts on it and works, with the records of the first commits up to
    /// `last`.
    fn goes_on(&self, last: Position) {
        let checked = check(self.path(), false).unwrap();
        assert!(checked.problems.is_empty(), "{checked:?}");
        self.wait();
        let (store, _) = open(self.path(), &options([1; 16])).unwrap();
        // The first position is the claim of the first start.
        let kept = last.0.saturating_sub(1) as u8;
        for key in 0..20_u8 {
            let newest = (0..kept).rev().find(|index| index % 20 == key);
            let expected = newest.map(|index| vec![index; 1_500]);
            assert_eq!(store.get(Table::Contacts, &[b'k', key]).unwrap(), expected, "{key}");
        }
        let (epoch, at) = store.begin_epoch().unwrap();
        assert_eq!((epoch, at), (2, last.next()));
        store.commit(Group::new(None, &[Change::put(Table::Contacts, *b"new", *b"x")])).unwrap();
        store.close().unwrap();
        drop(store);
        self.wait();
        let checked = check(self.path(), true).unwrap();
        assert!(checked.problems.is_empty(), "{checked:?}");
        self.wait();
    }
}

#[test]
fn what_is_whole_is_not_repaired() {
    let data = Data::new();
    assert!(matches!(data.plan(), Err(RepairError::NotNeeded)));
}

#[test]
fn everything_before_the_damage_is_kept() {
    let data = Data::new();
    data.flip(1, 9_000);
    let plan = data.plan().unwrap();
    assert!(plan.rebuilds_view);
    let (from, to) = plan.given_up.unwrap();
    assert_eq!((from, to), (plan.last.next(), Position(u64::from(COMMITS) + 1)));
    assert!(plan.last > Position(8) && plan.last < Position(30), "{plan:?}");
    data.repair(&plan);
    assert!(data.path().join("log.damaged").exists() && data.path().join("view.damaged").exists());
    data.goes_on(plan.last);
}

#[test]
fn a_lost_end_gives_up_what_was_acknowledged_behind_it() {
    let data = Data::new();
    let newest = data.segments().len() - 1;
    let bytes = fs::read(&data.segments()[newest]).unwrap();
    let end = bytes.iter().rposition(|&byte| byte != 0).unwrap();
    data.flip(newest, end - 30);
    let plan = data.plan().unwrap();
    let last = Position(u64::from(COMMITS) + 1);
    assert_eq!((plan.last, plan.given_up), (last.previous(), Some((last, last))));
    data.repair(&plan);
    data.goes_on(plan.last);
}

#[test]
fn nothing_is_given_up_that_view_and_snapshot_have() {
    let data = Data::new();
    let last = Position(u64::from(COMMITS) + 1);
    let snapshots = SnapshotDir::open(data.path().join("snapshots")).unwrap();
    snapshots.write(last, std::iter::empty()).unwrap();
    for (segment, at) in [(0, 4_300), (data.segments().len() - 1, 4_300)] {
        data.flip(segment, at);
    }
    let plan = data.plan().unwrap();
    assert_eq!((plan.last, plan.given_up, plan.rebuilds_view), (last, None, false));
    data.repair(&plan);
    data.goes_on(last);
}

#[test]
fn what_no_view_leads_to_is_refused() {
    let data = Data::new();
    let snapshots = SnapshotDir::open(data.path().join("snapshots")).unwrap();
    snapshots.write(Position(20), std::iter::empty()).unwrap();
    fs::remove_file(&data.segments()[0]).unwrap();
    let newest = data.segments().len() - 1;
    data.flip(newest, 4_300);
    let refused = data.plan().unwrap_err();
    assert!(matches!(refused, RepairError::NotPossible(_)), "{refused}");
    assert!(refused.to_string().contains("restore a backup"), "{refused}");
}

#[test]
fn a_damaged_view_is_built_anew() {
    let data = Data::new();
    for file in fs::read_dir(data.path().join("view")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|it| it == "jnl") {
            let mut bytes = fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(&path, bytes).unwrap();
        }
    }
    let plan = data.plan().unwrap();
    let last = Position(u64::from(COMMITS) + 1);
    assert_eq!((plan.last, plan.given_up, plan.rebuilds_view), (last, None, true));
    data.repair(&plan);
    data.goes_on(last);
}

/// A snapshot from behind the damage includes positions that are given up. A damaged one is
/// useless.
#[test]
fn only_a_whole_snapshot_from_before_the_damage_is_used() {
    let data = Data::new();
    let snapshots = SnapshotDir::open(data.path().join("snapshots")).unwrap();
    for position in [5, u64::from(COMMITS) + 1] {
        snapshots.write(Position(position), std::iter::empty()).unwrap();
    }
    fs::remove_dir_all(data.path().join("view")).unwrap();
    data.flip(1, 9_000);
    let checked = check(data.path(), false).unwrap();
    let older = checked.snapshots.iter().find(|it| it.position == Position(5)).unwrap();
    let before = plan(data.path()).unwrap();
    assert!(before.last < Position(30) && before.rebuilds_view, "{before:?}");
    assert_eq!(before.states, plan::StateSource::Snapshot(older.name.clone()));
    fs::write(data.path().join("snapshots").join(&older.name).join("manifest"), "?").unwrap();
    let without = plan(data.path()).unwrap();
    assert_eq!((without.last, without.states), (before.last, plan::StateSource::None));
}

#[test]
fn a_repair_that_is_ended_while_names_are_exchanged_is_taken_up_again() {
    let data = Data::new();
    data.flip(1, 9_000);
    let plan = data.plan().unwrap();
    let backup = tempfile::tempdir().unwrap();
    copy_dir(data.path(), &backup.path().join("all")).unwrap();
    data.repair(&plan);
    // The loop covers the steps of the exchanges in their order: each state in which it may end.
    for steps in 0..6 {
        let dir = tempfile::tempdir().unwrap();
        let broken = Data(dir);
        copy_dir(&backup.path().join("all"), broken.path()).unwrap();
        for name in ["snapshots", "view", "log"] {
            let made = broken.path().join(format!("{name}.repair"));
            copy_dir(&data.path().join(name), &made).unwrap();
        }
        let begins = NewLogStart { after: plan.last, epoch: 1, log: LogId([9; 16]) };
        directory::put(broken.path(), REPAIR, &begins.line()).unwrap();
        let renames = ["snapshots", "view", "log"].into_iter().flat_map(|name| {
            [(name.to_owned(), format!("{name}.damaged")), (format!("{name}.repair"), name.into())]
        });
        for (from, to) in renames.take(steps) {
            if broken.path().join(&from).exists() {
                fs::rename(broken.path().join(from), broken.path().join(to)).unwrap();
            }
        }
        let refused = open(broken.path(), &options([1; 16])).map(|_| ());
        assert!(refused.unwrap_err().to_string().contains("postrider repair"), "{steps}");
        let repaired = go_on(broken.path()).unwrap().unwrap();
        assert_eq!(repaired.last, plan.last);
        assert!(go_on(broken.path()).unwrap().is_none());
        broken.goes_on(plan.last);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn wherever_a_bit_flips_what_is_before_is_kept(
        segment in any::<prop::sample::Index>(),
        at in 0_usize..16_384,
    ) {
        let data = Data::new();
        data.flip(segment.index(data.segments().len()), at);
        match data.plan() {
            Ok(plan) => {
                data.repair(&plan);
                data.goes_on(plan.last);
            }
            Err(RepairError::NotNeeded) => {}
            Err(error) => panic!("{segment:?} {at}: {error}"),
        }
    }
}

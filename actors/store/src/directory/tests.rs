//! Tests of the directory: its formats, and a conversion that ends at any step.

use std::ops::ControlFlow;

use tempfile::TempDir;

use super::convert::{STEPS, end_at};
use super::*;
use crate::log::conformance::frame;
use crate::{Change, Group, Log as _, Position, Table, View};

fn options() -> DirectoryOptions {
    DirectoryOptions {
        writes: Writes::default(),
        log_id: [5; 16],
        segment_bytes: 1 << 20,
        view: FjallOptions::default(),
    }
}

/// A snapshot of all events there are.
fn fold(snapshots: &SnapshotDir, journal: &dyn Store) -> Result<(), DirectoryError> {
    let loaded = snapshots.load()?;
    let mut events = match loaded.entries.first() {
        Some((_, events)) => events.clone(),
        None => Vec::new(),
    };
    let last = crate::log::replay(journal, loaded.position, &mut |frame| {
        frame.sections.iter().take(1).for_each(|section| events.extend(&section.events));
        ControlFlow::Continue(())
    })?;
    snapshots.write(last, [("acme".parse().unwrap(), events)].into_iter())?;
    Ok(())
}

fn open_in(dir: &TempDir) -> Result<(LogStore, SnapshotDir), DirectoryError> {
    open(dir.path(), &options(), &fold)
}

fn put(value: u64) -> Change {
    Change::put(Table::Keys, *b"k", value.to_be_bytes())
}

/// A directory of format 1 with five frames and three epochs, of which a snapshot has the first
/// two.
fn earlier() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for epoch in 1..=3 {
        let store = FjallStore::open(&dir.path().join(STORE), FjallOptions::default()).unwrap();
        assert_eq!(store.begin_epoch().unwrap().0, epoch);
        for number in 1..=if epoch == 3 { 5 } else { 0 } {
            store
                .commit(Group::new(Some(&frame(number, &[number as u8])), &[put(number)]))
                .unwrap();
        }
        if epoch == 3 {
            let snapshots = SnapshotDir::open(dir.path().join(SNAPSHOTS)).unwrap();
            let entries = [("acme".parse().unwrap(), vec![1, 2])];
            snapshots.write(Position(2), entries.into_iter()).unwrap();
            store.trim(Position(2)).unwrap();
        }
    }
    dir
}

fn value(store: &dyn View) -> Option<Vec<u8>> {
    store.get(Table::Keys, b"k").unwrap()
}

fn names(dir: &TempDir) -> Vec<String> {
    let names = fs::read_dir(dir.path()).unwrap();
    let mut names: Vec<_> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn is_converted(dir: &TempDir) {
    let (store, snapshots) = open_in(dir).unwrap();
    assert_eq!(value(&store), Some(5_u64.to_be_bytes().to_vec()));
    let loaded = snapshots.load().unwrap();
    assert_eq!(
        (loaded.position, loaded.entries[0].1.as_slice()),
        (Position(5), &[1, 2, 3, 4, 5][..])
    );
    assert_eq!(store.begins_after(), Ok(Position(5)));
    assert_eq!(store.begin_epoch(), Ok((4, Position(6))), "the epoch goes on");
    store.commit(Group::new(Some(&frame(7, b"more")), &[put(7)])).unwrap();
    drop(store);
    assert_eq!(names(dir), ["format", "log", "snapshots", "store", "view"]);
    assert_eq!(fs::read_to_string(dir.path().join(FORMAT_FILE)).unwrap(), "3\n");
    // A version of before fails, and starts with nothing.
    let before = FjallStore::open(&dir.path().join(STORE), FjallOptions::default());
    assert!(matches!(before.err(), Some(StoreError::Failed(_))));
    let (store, _) = open_in(dir).unwrap();
    assert_eq!(value(&store), Some(7_u64.to_be_bytes().to_vec()));
    assert_eq!(store.last_position(), Ok(Position(7)));
}

#[test]
fn format_1_is_converted() {
    is_converted(&earlier());
}

#[test]
fn a_conversion_that_ends_anywhere_is_made_again() {
    for step in STEPS {
        let dir = earlier();
        end_at(Some(step));
        let ended = open_in(&dir).err().expect("it ended");
        assert!(ended.to_string().contains(step), "{ended}");
        end_at(None);
        if step != "renamed" {
            // A version of before goes on with it.
            let store = FjallStore::open(&dir.path().join(STORE), FjallOptions::default()).unwrap();
            assert_eq!(store.last_position(), Ok(Position(5)));
            assert_eq!(value(&store), Some(5_u64.to_be_bytes().to_vec()));
        }
        is_converted(&dir);
    }
}

#[test]
fn what_is_missing_at_the_very_end_is_made() {
    for missing in [FORMAT_FILE, STORE] {
        let dir = earlier();
        drop(open_in(&dir).unwrap());
        fs::remove_file(dir.path().join(missing)).unwrap();
        is_converted(&dir);
    }
}

#[test]
fn an_empty_store_is_converted_too() {
    let dir = tempfile::tempdir().unwrap();
    drop(FjallStore::open(&dir.path().join(STORE), FjallOptions::default()).unwrap());
    let (store, snapshots) = open_in(&dir).unwrap();
    assert_eq!(store.begin_epoch(), Ok((1, Position(1))));
    assert_eq!(snapshots.load().unwrap().position, Position::START);
}

#[test]
fn a_new_directory_is_of_this_format() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("a/b");
    drop(open(&dir, &options(), &fold).unwrap());
    assert_eq!(fs::read_to_string(dir.join(FORMAT_FILE)).unwrap(), "3\n");
    assert!(dir.join(STORE).is_file());
    drop(open(&dir, &options(), &fold).unwrap());
}

/// Its records are read as they are; what is committed from now on keeps older versions out.
#[test]
fn a_start_makes_format_2_format_3_once_it_is_open() {
    let dir = earlier();
    is_converted(&dir);
    let format = dir.path().join(FORMAT_FILE);
    fs::write(&format, "2\n").unwrap();
    assert_eq!(super::format(dir.path()).unwrap(), Some(2));
    let seven = Some(7_u64.to_be_bytes().to_vec());
    assert_eq!(value(open_stopped(dir.path()).unwrap().as_ref()), seven);
    assert_eq!(fs::read_to_string(&format).unwrap(), "2\n", "it was only read");
    let view = dir.path().join(VIEW);
    fs::rename(&view, dir.path().join("away")).unwrap();
    assert!(open_in(&dir).is_err());
    assert_eq!(fs::read_to_string(&format).unwrap(), "2\n", "it could not be opened");
    fs::rename(dir.path().join("away"), &view).unwrap();
    let (store, _) = open_in(&dir).unwrap();
    assert_eq!(fs::read_to_string(&format).unwrap(), "3\n", "before the first commit");
    assert_eq!(value(&store), seven);
    assert_eq!(super::format(dir.path()).unwrap(), Some(3));
}

#[test]
fn a_newer_format_and_what_is_unclear_are_refused() {
    let dir = earlier();
    fs::create_dir(dir.path().join(VIEW)).unwrap();
    assert!(matches!(open_in(&dir).err(), Some(DirectoryError::Unclear(_))));
    fs::remove_dir(dir.path().join(VIEW)).unwrap();
    drop(open_in(&dir).unwrap());
    let format = dir.path().join(FORMAT_FILE);
    for (text, newer) in [("4\n", true), ("two\n", false), ("1\n", false), ("", false)] {
        fs::write(&format, text).unwrap();
        for refused in [open_in(&dir).err().unwrap(), open_stopped(dir.path()).err().unwrap()] {
            let expected = "the data directory has format 4; this version knows formats up to 3";
            assert!((refused.to_string() == expected) == newer, "{refused}");
        }
    }
}

#[test]
fn without_space_nothing_is_converted() {
    let dir = earlier();
    let options = DirectoryOptions { segment_bytes: u64::MAX / 4, ..options() };
    let refused = open(dir.path(), &options, &fold).err().unwrap();
    assert!(matches!(refused, DirectoryError::NoSpace { .. }), "{refused}");
    assert_eq!(names(&dir), ["snapshots", "store"]);
}

#[test]
fn what_is_only_read_keeps_its_format() {
    let dir = earlier();
    assert_eq!(
        value(open_stopped(dir.path()).unwrap().as_ref()),
        Some(vec![0, 0, 0, 0, 0, 0, 0, 5])
    );
    assert_eq!(names(&dir), ["snapshots", "store"]);
    drop(open_in(&dir).unwrap());
    assert_eq!(
        value(open_stopped(dir.path()).unwrap().as_ref()),
        Some(vec![0, 0, 0, 0, 0, 0, 0, 5])
    );
    let none = tempfile::tempdir().unwrap();
    let refused = open_stopped(none.path()).err().unwrap();
    assert!(refused.to_string().contains("there is no store"), "{refused}");
    assert_eq!(names(&none), [""; 0]);
}

/// A missing view or log is not created again.
#[test]
fn a_lost_part_is_not_taken_for_a_new_one() {
    for part in [LOG, VIEW] {
        let dir = earlier();
        is_converted(&dir);
        fs::remove_dir_all(dir.path().join(part)).unwrap();
        let refused = open_in(&dir).err().unwrap();
        let is_said = match part {
            LOG => matches!(refused, DirectoryError::Store(StoreError::Lost { .. })),
            _ => matches!(refused, DirectoryError::Store(StoreError::Damaged(_))),
        };
        assert!(is_said, "{part}: {refused}");
    }
}

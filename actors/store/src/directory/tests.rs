//! Tests of the directory and its format.

use tempfile::TempDir;

use super::*;
use crate::log::conformance::frame;
use crate::{Change, Group, Position, Store as _, Table, View};

fn options() -> DirectoryOptions {
    DirectoryOptions {
        writes: Writes::default(),
        log_id: [5; 16],
        segment_bytes: 1 << 20,
        view: FjallOptions::default(),
    }
}

fn open_in(dir: &TempDir) -> Result<(LogStore, SnapshotDir), DirectoryError> {
    open(dir.path(), &options())
}

/// A closed directory with two commits.
fn with_data() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open_in(&dir).unwrap();
    assert_eq!(store.begin_epoch(), Ok((1, Position(1))));
    for number in 2..=3_u64 {
        let put = Change::put(Table::Keys, *b"k", number.to_be_bytes());
        store.commit(Group::new(Some(&frame(number, b"events")), &[put])).unwrap();
    }
    drop(store);
    wait(dir.path());
    dir
}

/// Waits until a store that was dropped is closed.
fn wait(dir: &Path) {
    FjallView::wait_until_closed(&dir.join(VIEW)).unwrap();
}

fn value(store: &dyn View) -> Option<Vec<u8>> {
    store.get(Table::Keys, b"k").unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_new_directory_is_of_this_format() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("a/b");
    drop(open(&dir, &options()).unwrap());
    assert_eq!(fs::read_to_string(dir.join(FORMAT_FILE)).unwrap(), "1\n");
    assert_eq!(names(&dir), ["format", "log", "snapshots", "view"]);
    wait(&dir);
    drop(open(&dir, &options()).unwrap());
}

#[test]
fn a_format_that_is_missing_is_said_again() {
    let dir = with_data();
    fs::remove_file(dir.path().join(FORMAT_FILE)).unwrap();
    let (store, _) = open_in(&dir).unwrap();
    assert_eq!(value(&store), Some(3_u64.to_be_bytes().to_vec()));
    assert_eq!(fs::read_to_string(dir.path().join(FORMAT_FILE)).unwrap(), "1\n");
}

#[test]
fn a_newer_format_and_what_is_unclear_are_refused() {
    let dir = with_data();
    let format = dir.path().join(FORMAT_FILE);
    for (text, newer) in [("2\n", true), ("two\n", false), ("0\n", false), ("", false)] {
        fs::write(&format, text).unwrap();
        for refused in [open_in(&dir).err().unwrap(), open_stopped(dir.path()).err().unwrap()] {
            let expected = "the data directory has format 2; this version knows format 1";
            assert!((refused.to_string() == expected) == newer, "{refused}");
        }
    }
}

#[test]
fn a_stopped_directory_is_read_and_one_without_data_is_left_as_it_is() {
    let dir = with_data();
    let three = Some(3_u64.to_be_bytes().to_vec());
    assert_eq!(value(&open_stopped(dir.path()).unwrap()), three);
    wait(dir.path());
    assert_eq!(value(&open_in(&dir).unwrap().0), three);
    let none = tempfile::tempdir().unwrap();
    let refused = open_stopped(none.path()).err().unwrap();
    assert!(refused.to_string().contains("there is no data"), "{refused}");
    assert_eq!(names(none.path()), [""; 0]);
}

/// A log that is missing is not begun anew.
#[test]
fn a_lost_log_is_not_taken_for_a_new_one() {
    let dir = with_data();
    fs::remove_dir_all(dir.path().join(LOG)).unwrap();
    let refused = open_in(&dir).err().unwrap();
    let is_lost = matches!(refused, DirectoryError::Store(StoreError::Lost { .. }));
    assert!(is_lost, "{refused}");
}

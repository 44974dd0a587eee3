//! Tests of snapshots on disk, whole and damaged.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;

fn entries(seed: u8) -> Vec<(WorkspaceId, Vec<u8>)> {
    let state = |length: usize| (0..length).map(|at| (at * 7) as u8 ^ seed).collect();
    let entry = |(id, length): (&str, usize)| (id.parse().unwrap(), state(length));
    [("acme", 200_000), ("empty", 0), ("b", 1), ("acme-2", 32 * 1024)].map(entry).to_vec()
}

/// A directory with generations 10 (of seed 1) and 20 (of seed 2).
fn two_generations() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let snapshots = SnapshotDir::open(dir.path()).unwrap();
    let trim = snapshots.write(Position(10), entries(1).into_iter()).unwrap();
    assert_eq!(trim, Position::START);
    let trim = snapshots.write(Position(20), entries(2).into_iter()).unwrap();
    assert_eq!(trim, Position(10));
    dir
}

fn generation(dir: &TempDir, position: u64) -> PathBuf {
    dir.path().join(format!("gen-{position:016x}"))
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn names(dir: &TempDir) -> Vec<String> {
    let names = fs::read_dir(dir.path()).unwrap();
    let mut names: Vec<_> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn assert_loads(dir: &TempDir, position: u64, seed: u8, warnings: usize) {
    let loaded = SnapshotDir::open(dir.path()).unwrap().load().unwrap();
    assert_eq!((loaded.position.0, loaded.warnings.len()), (position, warnings), "{loaded:?}");
    let expected = if position == 0 { Vec::new() } else { entries(seed) };
    assert!(loaded.entries == expected);
}

#[test]
fn loads_the_newest_again_and_again() {
    let dir = two_generations();
    for _ in 0..3 {
        assert_loads(&dir, 20, 2, 0);
    }
    assert_eq!(names(&dir), ["gen-000000000000000a", "gen-0000000000000014"]);
}

#[test]
fn nothing_there_is_a_start_from_the_beginning() {
    let dir = tempfile::tempdir().unwrap();
    assert_loads(&dir, 0, 0, 0);
}

#[test]
fn an_empty_snapshot_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let snapshots = SnapshotDir::open(dir.path()).unwrap();
    snapshots.write(Position(5), std::iter::empty()).unwrap();
    let loaded = snapshots.load().unwrap();
    assert_eq!((loaded.position, loaded.entries.len()), (Position(5), 0));
}

#[test]
fn keeps_the_last_two() {
    let dir = two_generations();
    let snapshots = SnapshotDir::open(dir.path()).unwrap();
    assert_eq!(snapshots.write(Position(30), entries(3).into_iter()).unwrap(), Position(20));
    assert_eq!(names(&dir), ["gen-0000000000000014", "gen-000000000000001e"]);
    assert_loads(&dir, 30, 3, 0);
}

#[test]
fn writing_the_same_position_again_replaces_it() {
    let dir = two_generations();
    let snapshots = SnapshotDir::open(dir.path()).unwrap();
    assert_eq!(snapshots.write(Position(20), entries(3).into_iter()).unwrap(), Position(10));
    assert_loads(&dir, 20, 3, 0);
}

#[test]
fn a_flipped_byte_in_any_file_leaves_the_older_one() {
    let dir = two_generations();
    for file in files(&generation(&dir, 20)) {
        let whole = fs::read(&file).unwrap();
        for at in [0, whole.len() / 2, whole.len().saturating_sub(1)] {
            let mut bad = whole.clone();
            match bad.get_mut(at) {
                Some(byte) => *byte ^= 0x10,
                None => bad.push(1),
            }
            fs::write(&file, &bad).unwrap();
            assert_loads(&dir, 10, 1, 1);
        }
        fs::write(&file, whole).unwrap();
    }
    assert_loads(&dir, 20, 2, 0);
}

#[test]
fn a_truncated_or_missing_file_leaves_the_older_one() {
    let dir = two_generations();
    for file in files(&generation(&dir, 20)) {
        let whole = fs::read(&file).unwrap();
        if !whole.is_empty() {
            fs::write(&file, &whole[..whole.len() / 2]).unwrap();
            assert_loads(&dir, 10, 1, 1);
        }
        fs::remove_file(&file).unwrap();
        assert_loads(&dir, 10, 1, 1);
        fs::write(&file, whole).unwrap();
    }
    assert_loads(&dir, 20, 2, 0);
}

#[test]
fn two_damaged_ones_are_a_start_from_the_beginning() {
    let dir = two_generations();
    fs::remove_file(generation(&dir, 20).join("manifest")).unwrap();
    fs::remove_dir_all(generation(&dir, 10)).unwrap();
    fs::create_dir(generation(&dir, 10)).unwrap();
    assert_loads(&dir, 0, 0, 2);
}

#[test]
fn a_damaged_older_one_is_no_reason_to_trim() {
    let dir = two_generations();
    fs::remove_file(generation(&dir, 20).join("manifest")).unwrap();
    let snapshots = SnapshotDir::open(dir.path()).unwrap();
    assert_eq!(snapshots.write(Position(30), entries(3).into_iter()).unwrap(), Position(10));
    assert_eq!(names(&dir), ["gen-000000000000000a", "gen-000000000000001e"]);
    fs::remove_file(generation(&dir, 10).join("manifest")).unwrap();
    fs::remove_file(generation(&dir, 30).join("manifest")).unwrap();
    let trim = snapshots.write(Position(40), entries(4).into_iter()).unwrap();
    assert_eq!(trim, Position::START);
    assert_loads(&dir, 40, 4, 0);
}

#[test]
fn what_was_left_unfinished_is_removed() {
    let dir = two_generations();
    let left = dir.path().join("gen-00000000000000ff.tmp");
    fs::create_dir_all(left.join("sled")).unwrap();
    fs::write(left.join("sled/snap.0000000000000001.generating"), b"half").unwrap();
    fs::create_dir_all(dir.path().join("read.tmp")).unwrap();
    // sled would not open a database with this; it is not in the manifest, so it is not copied.
    fs::write(generation(&dir, 20).join("sled/snap.00000000000000FF.generating"), b"half").unwrap();
    assert_loads(&dir, 20, 2, 0);
    assert_eq!(names(&dir), ["gen-000000000000000a", "gen-0000000000000014"]);
}

#[test]
fn content_that_is_whole_but_wrong_is_noticed() {
    // The damage is as if sled itself had lost or changed a record before the files were listed.
    for damage in [0, 1, 2] {
        let dir = two_generations();
        let path = generation(&dir, 20);
        let database = path.join(generation::DATABASE);
        let db = generation::open_database(&database).unwrap();
        match damage {
            0 => drop(db.remove([0, 0, 0, 0, 0, 0, 0, 2]).unwrap().unwrap()),
            1 => drop(db.insert([0, 0, 0, 2, 0, 0, 0, 1], b"x").unwrap().unwrap()),
            _ => drop(db.remove([0xff; 9]).unwrap().unwrap()),
        }
        db.flush().unwrap();
        drop(db);
        generation::wait_until_closed(&database).unwrap();
        generation::seal(&path).unwrap();
        assert_loads(&dir, 10, 1, 1);
    }
}

#[test]
fn what_sled_left_unfinished_is_no_part_of_a_generation() {
    let dir = two_generations();
    let path = generation(&dir, 20);
    let unfinished = path.join("sled/snap.00000000000000FF.generating");
    fs::write(&unfinished, b"half").unwrap();
    generation::seal(&path).unwrap();
    assert!(!unfinished.exists());
    assert_loads(&dir, 20, 2, 0);
}

//! Tests that a directory made from copies has their data, and that half of one is not used.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use postrider_log::{LogId, Mark, MemoryLog, Start};

use super::*;
use crate::archive::{ArchiveHeader, ArchiveWriter};
use crate::directory::{self, DirectoryOptions};
use crate::log::conformance::frame;
use crate::{
    Change, FjallOptions, Group, Log as _, LogStore, MemoryView, Position, Store, Table, View,
    Writes,
};

const LOG: LogId = LogId([3; 16]);

fn put(value: u64) -> Change {
    Change::put(Table::Keys, *b"k", value.to_be_bytes())
}

/// Returns a store with two commits of frames behind its claim.
fn store() -> LogStore {
    let log = Arc::new(MemoryLog::new(&Start::new(LOG)));
    let store = LogStore::open(log, Arc::new(MemoryView::new()), Writes::default()).unwrap();
    store.begin_epoch().unwrap();
    for number in 2..=3 {
        store.commit(Group::new(Some(&frame(number, b"e")), &[put(number)])).unwrap();
    }
    store
}

fn write_archive(store: &LogStore, out: &mut dyn std::io::Write) -> Result<(), CopyError> {
    let view = store.snapshot()?;
    let (at, log) = (view.mark(), store.log_id());
    let header =
        ArchiveHeader { log, shard: 0, at, time_ms: 1, keys: Vec::new(), program: "t".into() };
    let failed = |error| CopyError::archive(Path::new("a"), &error);
    let mut writer = ArchiveWriter::new(out, &header).map_err(failed)?;
    for (key, value) in view.page(Table::Keys, None)? {
        writer.record(Table::Keys, &key, &value).map_err(failed)?;
    }
    writer.state("acme", b"hot").map_err(failed)?;
    writer.finish().map(drop).map_err(failed)
}

fn add_piece(backup: &mut BackupDir, store: &LogStore) -> Result<(), CopyError> {
    let (_, end) = backup.end().unwrap();
    backup.add_piece(|out| Ok(store.write_piece(end.position, out).map(drop)?))
}

/// Writes a backup of a store at 3, and of commits up to 5 in two pieces.
fn backup(dir: &Path) -> LogStore {
    let store = store();
    let mut backup = BackupDir::open(dir).unwrap();
    assert_eq!(backup.end(), None);
    backup.add_archive(|out| write_archive(&store, out)).unwrap();
    for number in 4..=5 {
        store.commit(Group::new(Some(&frame(number, b"e")), &[put(number)])).unwrap();
        add_piece(&mut backup, &store).unwrap();
        // There are no further commits.
        add_piece(&mut backup, &store).unwrap();
    }
    assert_eq!(backup.files(), 3);
    let (log, end) = backup.end().unwrap();
    assert_eq!((log, end.position), (LOG, Position(5)));
    store
}

/// Does the same as a restore, except for the states.
fn restore(from: &Path, to: &Path, position: u64) -> Result<Mark, CopyError> {
    let plan = RestorePlan::new(from, Some(Position(position)))?;
    let import = Import::begin(to)?;
    let loaded = import.load(&plan.archive())?;
    plan.check_archive(&loaded.header, &loaded.written)?;
    let at = plan.commits(loaded.header.at, &mut |commit| import.apply(&commit))?;
    import.finish(&at, loaded.states, LogId([4; 16]), 1 << 20, false)?;
    Ok(at)
}

fn open(dir: &Path) -> Result<LogStore, directory::DirectoryError> {
    let options = DirectoryOptions {
        writes: Writes::default(),
        log_id: [9; 16],
        segment_bytes: 1 << 20,
        view: FjallOptions::default(),
    };
    Ok(directory::open(dir, &options)?.0)
}

fn made() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("backup"), dir.path().join("data"));
    std::fs::create_dir(&to).unwrap();
    (dir, from, to)
}

#[test]
fn a_restore_stands_where_it_was_asked_to() {
    for position in 3..=5 {
        let (_dir, from, to) = made();
        backup(&from);
        assert_eq!(restore(&from, &to, position).unwrap().position, Position(position));
        let store = open(&to).unwrap();
        let value = Some(position.to_be_bytes().to_vec());
        assert_eq!(store.get(Table::Keys, b"k").unwrap(), value);
        assert_eq!(store.log_id(), LogId([4; 16]), "its history is its own");
        assert_eq!(store.begins_after(), Ok(Position(position)));
        assert_eq!(store.begin_epoch(), Ok((2, Position(position + 1))), "the epoch rises");
        let loaded = directory::snapshots(&to).unwrap().load().unwrap();
        assert_eq!(loaded.position, Position(position));
        assert_eq!(loaded.entries, [("acme".parse().unwrap(), b"hot".to_vec())]);
        let left = Import::must_be_free(&to).unwrap_err();
        assert!(matches!(left, CopyError::NotEmpty(_)), "{left}");
    }
    let (_dir, from, to) = made();
    backup(&from);
    for position in [0, 2, 6] {
        let none = restore(&from, &to, position).unwrap_err();
        assert!(matches!(none, CopyError::NoSuchPosition(_)), "{none}");
    }
}

/// A piece that a run adds has as many commits as were made since.
#[test]
fn a_restore_ends_in_the_midst_of_a_piece_and_is_held_if_it_was_asked_to() {
    let (_dir, from, to) = made();
    let store = backup(&from);
    for number in 6..=8 {
        store.commit(Group::new(Some(&frame(number, b"e")), &[put(number)])).unwrap();
    }
    add_piece(&mut BackupDir::open(&from).unwrap(), &store).unwrap();
    let plan = RestorePlan::new(&from, Some(Position(7))).unwrap();
    let import = Import::begin(&to).unwrap();
    let loaded = import.load(&plan.archive()).unwrap();
    let at = plan.commits(loaded.header.at, &mut |commit| import.apply(&commit)).unwrap();
    assert_eq!(at.position, Position(7));
    import.finish(&at, loaded.states, LogId([4; 16]), 1 << 20, true).unwrap();
    assert!(directory::asks_to_hold(&to).unwrap());
    let store = open(&to).unwrap();
    assert_eq!(store.get(Table::Keys, b"k").unwrap(), Some(7_u64.to_be_bytes().to_vec()));
}

#[test]
fn an_import_that_ends_early_leaves_nothing_or_what_is_refused() {
    let (_dir, from, to) = made();
    backup(&from);
    drop(Import::begin(&to).unwrap());
    assert_eq!(std::fs::read_dir(&to).unwrap().count(), 0);
    // The process ended.
    std::mem::forget(Import::begin(&to).unwrap());
    for moved in ["log", "snapshots", "held"] {
        std::fs::create_dir(to.join(moved)).unwrap();
    }
    let refused = open(&to).err().unwrap().to_string();
    assert!(refused.contains("did not come to its end"), "{refused}");
    // Its view is still open in this process, so its removal is simulated by another name.
    std::fs::rename(to.join("import.tmp/view"), to.join("import.tmp/other")).unwrap();
    restore(&from, &to, 4).unwrap();
    assert!(!to.join("held").exists() && !to.join("import.tmp").exists());
    assert_eq!(open(&to).unwrap().last_position(), Ok(Position(4)));
}

#[test]
fn a_backup_takes_only_what_follows_it() {
    let (dir, from, _) = made();
    let store = backup(&from);
    let mut again = BackupDir::open(&from).unwrap();
    let in_use = BackupDir::open(&from).err().unwrap();
    assert!(matches!(in_use, CopyError::InUse(_)), "{in_use}");
    let wrong = again.add_piece(|out| Ok(store.write_piece(Position(4), out).map(drop)?));
    assert!(matches!(wrong, Err(CopyError::Damaged(_))), "{wrong:?}");
    let other = MemoryLog::new(&Start::new(LogId([8; 16])));
    let other =
        LogStore::open(Arc::new(other), Arc::new(MemoryView::new()), Writes::default()).unwrap();
    other.begin_epoch().unwrap();
    let wrong = again.add_archive(|out| write_archive(&other, out));
    assert!(matches!(wrong, Err(CopyError::NotEmpty(_))), "{wrong:?}");
    let failed = again.add_archive(|_| Err(CopyError::Io("x".into())));
    assert_eq!(failed, Err(CopyError::Io("x".into())));
    let names = || -> Vec<_> {
        let names = std::fs::read_dir(&from).unwrap().map(|it| it.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().contains("new")).collect()
    };
    assert!(names().is_empty(), "{:?}", names());
    drop(again);
    std::fs::write(dir.path().join("a.txt"), "x").unwrap();
    let not_empty = BackupDir::open(dir.path()).err().unwrap();
    assert!(matches!(not_empty, CopyError::NotEmpty(_)), "{not_empty}");
}

/// Reads all of a backup.
fn read(from: &Path) -> Result<Mark, CopyError> {
    let plan = RestorePlan::new(from, Some(Position(5)))?;
    let (header, _, written) = read_archive(&plan.archive(), |_, _| Ok(()))?;
    plan.check_archive(&header, &written)?;
    plan.commits(header.at, &mut |_| Ok(()))
}

#[test]
fn any_damage_of_a_backup_is_found() {
    let (_dir, from, _) = made();
    backup(&from);
    read(&from).unwrap();
    let files = std::fs::read_dir(&from).unwrap().map(|file| file.unwrap().path());
    for file in files {
        let whole = std::fs::read(&file).unwrap();
        // Zeros of a header are checked as one.
        let some = |at: &usize| at.is_multiple_of(11) && (*at < 1000 || *at > 4080);
        for at in (0..whole.len()).filter(some) {
            for bit in [1, 0x20] {
                let mut bad = whole.clone();
                bad[at] ^= bit;
                std::fs::write(&file, &bad).unwrap();
                let Err(error) = read(&from) else {
                    // Spaces between values have no meaning.
                    let is_space = file.ends_with("manifest.json") && bad[at].is_ascii_whitespace();
                    assert!(is_space, "{} at {at}", file.display());
                    continue;
                };
                let (error, named) = (error.to_string(), file.display().to_string());
                let is_list = named.ends_with("manifest.json");
                assert!(is_list || error.contains(&named), "{named} at {at}: {error}");
            }
        }
        std::fs::write(&file, &whole).unwrap();
    }
    read(&from).unwrap();
}

#[test]
fn what_the_list_does_not_name_goes_once_a_new_list_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let store = backup(dir.path());
    let left = ["new.archive.part", "00000000000000000007.archive", "00000000000000000099.log"];
    for name in left.iter().chain(&["notes.txt", "cron.log"]) {
        std::fs::write(dir.path().join(name), b"x").unwrap();
    }
    let mut again = BackupDir::open(dir.path()).unwrap();
    add_piece(&mut again, &store).unwrap();
    assert!(left.iter().all(|name| dir.path().join(name).exists()), "there is no new list");
    store.commit(Group::new(Some(&frame(6, b"e")), &[put(6)])).unwrap();
    add_piece(&mut again, &store).unwrap();
    assert!(left.iter().all(|name| !dir.path().join(name).exists()));
    for other in ["notes.txt", "cron.log"] {
        assert!(dir.path().join(other).exists(), "it is somebody else's");
    }
    assert_eq!(again.files(), 4);
    let (_to, _, to) = made();
    assert_eq!(restore(dir.path(), &to, 6).unwrap().position, Position(6));
}

#[test]
fn a_backup_of_a_newer_format_is_refused() {
    let (_dir, from, _to) = made();
    backup(&from);
    let path = from.join("manifest.json");
    let list = std::fs::read_to_string(&path).unwrap();
    assert!(list.contains("\"format\": 1,"), "{list}");
    std::fs::write(&path, list.replace("\"format\": 1,", "\"format\": 2,")).unwrap();
    let refused = BackupDir::open(&from).err().unwrap();
    assert!(matches!(refused, CopyError::NewerFormat(_)), "{refused}");
    assert!(refused.to_string().ends_with("has format 2; this version knows up to 1"), "{refused}");
}

//! Tests of the store on disk beyond the common contract.

mod torn;
mod view;

use std::ops::ControlFlow;
use std::path::PathBuf;

use ::fjall::{AbstractTree, Keyspace};
use tempfile::TempDir;

use super::*;
use crate::conformance::{Subject, store_contract};
use crate::log::conformance::{frame, numbers};
use crate::{Change, Group, Log, Position, Store, StoreError, Table, View};

impl Subject for TempDir {
    type Store = FjallStore;

    fn open(&self) -> FjallStore {
        FjallStore::open(self.path(), FjallOptions::default()).unwrap()
    }
}

store_contract!(contract, tempfile::tempdir().unwrap());

#[test]
fn tables_are_listed_in_their_order() {
    for (at, table) in Table::ALL.iter().copied().enumerate() {
        assert_eq!(table as usize, at);
    }
}

fn fill(store: &FjallStore, frames: std::ops::RangeInclusive<u64>, events: &[u8]) {
    for number in frames {
        let put = Change::put(Table::Keys, *b"k", number.to_be_bytes());
        store.commit(Group::new(Some(&frame(number, events)), &[put])).unwrap();
    }
}

fn logs(dir: &TempDir) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|it| it == "jnl")).collect()
}

#[test]
fn a_directory_has_one_store_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.open();
    let second = FjallStore::open(dir.path(), FjallOptions::default());
    assert_eq!(second.err(), Some(StoreError::Locked));
    fill(&store, 1..=2, b"events");
    drop(store);
    assert_eq!(numbers(&dir.open(), 0), [1, 2]);
}

#[test]
fn a_changed_byte_in_the_log_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    fill(&dir.open(), 1..=3, &[0xab; 1000]);
    let [log] = logs(&dir).try_into().unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    let at = bytes.windows(100).position(|window| window == [0xab; 100]).unwrap();
    bytes[at + 50] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let opened = FjallStore::open(dir.path(), FjallOptions::default());
    assert!(matches!(opened.err(), Some(StoreError::Damaged(_))));
}

#[test]
fn files_that_make_no_sense_are_damage_and_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    fill(&dir.open(), 1..=3, b"events");
    for entry in std::fs::read_dir(dir.path().join("keyspaces")).unwrap() {
        for file in std::fs::read_dir(entry.unwrap().path()).unwrap() {
            let file = file.unwrap().path();
            if file.is_file() {
                std::fs::write(&file, b"nonsense").unwrap();
            }
        }
    }
    let opened = FjallStore::open(dir.path(), FjallOptions::default());
    assert!(matches!(opened.err(), Some(StoreError::Damaged(_))));
}

#[test]
fn a_frame_that_is_wrong_or_missing_is_noticed() {
    type Damage = fn(&mut ::fjall::OwnedWriteBatch, &Keyspace);
    let damages: [Damage; 4] = [
        |batch, journal| batch.remove(journal, 2u64.to_be_bytes()),
        |batch, journal| batch.remove(journal, 4u64.to_be_bytes()),
        |batch, journal| batch.insert(journal, 2u64.to_be_bytes(), *b"not a frame"),
        |batch, journal| {
            let mut bytes = Vec::new();
            frame(3, b"of another number").encode_into(&mut bytes);
            batch.insert(journal, 2u64.to_be_bytes(), bytes);
        },
    ];
    for damage in damages {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.open();
        fill(&store, 1..=4, b"events");
        let open = store.handle().unwrap();
        let mut batch = open.base.database.batch();
        damage(&mut batch, &open.journal);
        batch.commit().unwrap();
        let read = store.read(Position::START, &mut |_| ControlFlow::Continue(()));
        assert!(matches!(read, Err(StoreError::Damaged(_))), "{read:?}");
    }
}

#[test]
fn trimming_gives_space_back_and_small_memtables_do_not_block() {
    let dir = tempfile::tempdir().unwrap();
    let options = FjallOptions { memtable_bytes: 256 * 1024, ..FjallOptions::default() };
    let store = FjallStore::open(dir.path(), options).unwrap();
    fill(&store, 1..=150, &[7; 50_000]);
    let journal = store.handle().unwrap().journal.clone();
    while journal.tree.sealed_memtable_count() > 0 {
        std::thread::yield_now();
    }
    let before = journal.disk_space();
    assert!(before > 5_000_000, "{before}");
    store.trim(Position(149)).unwrap();
    // A compaction that began before holds its files until it ends.
    let is_given_back = || journal.disk_space() < before / 2;
    let _waited = (0..20_000_000).any(|_| {
        std::thread::yield_now();
        is_given_back()
    });
    assert!(is_given_back(), "{} of {before}", journal.disk_space());
    assert_eq!(numbers(&store, 0), [150]);
    drop((journal, store));
    let store = FjallStore::open(dir.path(), options).unwrap();
    assert_eq!(numbers(&store, 0), [150]);
    fill(&store, 151..=160, b"events");
    assert_eq!(store.last_position(), Ok(Position(160)));
}

#[test]
fn after_a_failure_all_fails_until_it_is_open_again_on_a_fresh_log() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let store = dir.open();
    fill(&store, 1..=3, b"events");
    let inode = || logs(&dir)[0].metadata().unwrap().ino();
    // Held open, so that its number is not given to the new one.
    let old = (std::fs::File::open(&logs(&dir)[0]).unwrap(), inode());
    store.fail(StoreError::Failed("injected".into()));
    let failed = StoreError::Failed("injected".into());
    assert_eq!(store.commit(Group::new(None, &[])), Err(failed.clone()));
    assert_eq!(store.get(Table::Keys, b"k"), Err(failed.clone()));
    assert_eq!(store.last_position(), Err(failed.clone()));
    assert_eq!(store.trim(Position(1)), Err(failed));
    std::fs::write(dir.path().join("7.jnl.copy"), b"left by a crash").unwrap();
    store.reopen().unwrap();
    assert_ne!(inode(), old.1);
    assert!(!dir.path().join("7.jnl.copy").exists());
    assert_eq!(store.get(Table::Keys, b"k"), Ok(Some(3u64.to_be_bytes().to_vec())));
    fill(&store, 4..=6, b"events");
    drop(store);
    assert_eq!(numbers(&dir.open(), 0), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_reader_in_the_way_only_delays_opening_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.open();
    fill(&store, 1..=3, b"events");
    let reader = store.handle().unwrap();
    store.fail(StoreError::Failed("injected".into()));
    std::thread::scope(|scope| {
        let reopened = scope.spawn(|| store.reopen());
        drop(reader);
        reopened.join().unwrap().unwrap();
    });
    assert_eq!(numbers(&store, 0), [1, 2, 3]);
}

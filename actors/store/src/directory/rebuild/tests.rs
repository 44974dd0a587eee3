//! Tests that an unusable view is rebuilt, and equals the previous one, byte for byte.

use std::cell::Cell;
use std::path::PathBuf;

use tempfile::TempDir;

use super::super::{open_reporting, rebuild_if_unreadable};
use super::*;
use crate::checkpoints::tests::write_of;
use crate::view::Records;
use crate::{Change, Group, Log as _, Store, Writes};

thread_local! {
    static END: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Has rebuilds of this thread end at a step.
fn end_at(name: Option<&'static str>) {
    END.set(name);
}

pub(super) fn step(name: &'static str) -> Result<(), DirectoryError> {
    let ends = END.get() == Some(name);
    if ends { Err(DirectoryError::Unclear(format!("it ended at {name}"))) } else { Ok(()) }
}

fn options() -> DirectoryOptions {
    DirectoryOptions {
        writes: Writes::default(),
        log_id: [7; 16],
        segment_bytes: 16 * 1024,
        // The size is so small that records are written to tables.
        view: FjallOptions { memtable_bytes: 16 * 1024, ..FjallOptions::default() },
    }
}

fn open(dir: &Path) -> Result<LogStore, DirectoryError> {
    let opened = open_reporting(dir, &options(), &Rebuilding::default());
    opened.map(|(store, _)| store)
}

/// The mark, and every record.
type Content = (Mark, Vec<Records>);

fn content(store: &LogStore) -> Content {
    let view = store.snapshot().unwrap();
    let tables = Table::ALL.iter().map(|&table| {
        let mut records = Records::new();
        loop {
            let after = records.last().map(|(key, _)| key.clone());
            let page = view.page(table, after.as_deref()).unwrap();
            if page.is_empty() {
                return records;
            }
            records.extend(page);
        }
    });
    (view.mark(), tables.collect())
}

/// A directory with 40 commits, some of which delete.
struct Data {
    dir: TempDir,
    content: Content,
}

impl Data {
    /// Returns one with two checkpoints, and a log that starts behind the first commits.
    fn trimmed() -> Self {
        Self::made(true)
    }

    fn made(with_checkpoints: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).unwrap();
        store.begin_epoch().unwrap();
        let checkpoints = CheckpointDir::at(&dir.path().join(CHECKPOINTS));
        for index in 0..60_u8 {
            let table = [Table::Contacts, Table::Keys][usize::from(index % 2)];
            let put = Change::put(table, [b'k', index % 20], vec![index; 1_500]);
            let delete = Change::delete(table, [b'k', (index + 7) % 20]);
            store.commit(Group::new(None, &[put, delete])).unwrap();
            if with_checkpoints && (index == 20 || index == 40) {
                let made = checkpoints.write(|out| write_of(&store, out)).unwrap();
                store.keep_for_checkpoints(made.log_needed_after).unwrap();
                store.trim(made.header.at.position).unwrap();
            }
            if index == 3 {
                copy(&dir.path().join(VIEW), &dir.path().join("early"));
            }
        }
        assert_eq!(store.begins_after().unwrap() > Position(5), with_checkpoints);
        let content = content(&store);
        store.close().unwrap();
        let data = Self { dir, content };
        drop(store);
        data.wait();
        data
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn wait(&self) {
        FjallView::wait_until_closed(&self.at(VIEW)).unwrap();
    }

    fn checkpoints(&self) -> Vec<Checkpoint> {
        CheckpointDir::at(&self.at(CHECKPOINTS)).all().unwrap()
    }

    /// Checks that it has everything, and works.
    fn is_whole(&self) {
        let store = open(self.dir.path()).unwrap();
        assert!(content(&store) == self.content, "the view is another one");
        assert!(!self.at(BAD).exists() && !self.at(BUILT).exists());
        let (_, at) = store.begin_epoch().unwrap();
        assert_eq!(at, self.content.0.position.next());
        drop(store);
        self.wait();
        let checked = crate::check::check(self.dir.path(), true).unwrap();
        assert!(checked.problems.is_empty(), "{checked:?}");
        self.wait();
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to)
        } else {
            drop(fs::copy(entry.path(), to))
        }
    }
}

fn flip(path: &Path) {
    flip_at(path, fs::metadata(path).unwrap().len() as usize / 2);
}

fn flip_at(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 4;
    fs::write(path, bytes).unwrap();
}

type Damage = fn(&Data);

/// The kinds of damage to a view.
const DAMAGE: [(&str, Damage); 7] = [
    ("deleted", |data| fs::remove_dir_all(data.at(VIEW)).unwrap()),
    ("emptied", |data| {
        fs::remove_dir_all(data.at(VIEW)).unwrap();
        fs::create_dir(data.at(VIEW)).unwrap();
    }),
    ("of another log", |data| {
        let other = tempfile::tempdir().unwrap();
        let view = FjallView::open(&other.path().join(VIEW), FjallOptions::default()).unwrap();
        view.begin(LogId([9; 16]), &data.content.0).unwrap();
        drop(view);
        FjallView::wait_until_closed(&other.path().join(VIEW)).unwrap();
        fs::remove_dir_all(data.at(VIEW)).unwrap();
        copy(&other.path().join(VIEW), &data.at(VIEW));
    }),
    ("of another history", |data| {
        let view = FjallView::open(&data.at(VIEW), FjallOptions::default()).unwrap();
        let hash = postrider_log::EntryHash([1; 16]);
        view.apply(&Mark { hash, ..data.content.0 }, &[]).unwrap();
        view.sync().unwrap();
        drop(view);
        data.wait();
    }),
    ("unreadable", |data| {
        let journals = fs::read_dir(data.at(VIEW)).unwrap().map(|entry| entry.unwrap().path());
        let journals = journals.filter(|path| path.extension().is_some_and(|it| it == "jnl"));
        journals.for_each(|path| flip(&path));
    }),
    ("synced too early", |data| {
        let view = FjallView::open(&data.at(VIEW), FjallOptions::default()).unwrap();
        let at = data.content.0;
        view.begin(LogId([7; 16]), &Mark { position: Position(3), ..at }).unwrap();
        view.apply(&at, &[]).unwrap();
        drop(view);
        data.wait();
    }),
    ("too early", |data| {
        fs::remove_dir_all(data.at(VIEW)).unwrap();
        copy(&data.at("early"), &data.at(VIEW));
    }),
];

#[test]
fn a_view_that_cannot_be_used_is_built_anew() {
    for (what, damage) in DAMAGE {
        eprintln!("{what}");
        let data = Data::trimmed();
        damage(&data);
        data.is_whole();
    }
    // The whole log leads to it as well.
    let data = Data::made(false);
    fs::write(data.at(VIEW).join("version"), b"?").unwrap();
    data.is_whole();
}

#[test]
fn a_damaged_newest_checkpoint_is_passed_over() {
    let data = Data::trimmed();
    flip(&data.checkpoints()[0].path);
    fs::remove_dir_all(data.at(VIEW)).unwrap();
    let store = open(data.dir.path()).unwrap();
    assert!(content(&store) == data.content);
}

#[test]
fn without_a_whole_checkpoint_the_start_is_refused_and_changes_nothing() {
    for (what, damage) in [DAMAGE[0], DAMAGE[2]] {
        let data = Data::trimmed();
        data.checkpoints().iter().for_each(|checkpoint| flip(&checkpoint.path));
        damage(&data);
        let there = data.at(VIEW).exists();
        for _ in 0..2 {
            let refused = open(data.dir.path()).err().expect("it started");
            let message = refused.to_string();
            assert!(matches!(refused, DirectoryError::Store(StoreError::Damaged(_))), "{message}");
            assert!(
                message.contains("postrider restore") && message.contains("positions 1 to"),
                "{what}"
            );
            assert_eq!((data.at(VIEW).exists(), data.at(BUILT).exists()), (there, false), "{what}");
        }
    }
}

#[test]
fn a_crash_at_any_step_is_made_good_by_the_next_start() {
    for ending in STEPS {
        let data = Data::trimmed();
        fs::write(data.at(VIEW).join("version"), b"?").unwrap();
        end_at(Some(ending));
        let ended = open(data.dir.path()).err().expect("it ended");
        end_at(None);
        assert!(ended.to_string().contains(ending), "{ended}");
        data.is_whole();
    }
}

/// Records are in tables of the view by then, and a start reads some of them.
#[test]
fn a_bad_block_is_found_and_the_view_built_anew() {
    let data = Data::trimmed();
    let unreadable =
        || rebuild_if_unreadable(data.dir.path(), &options(), &Rebuilding::default()).unwrap();
    assert!(!unreadable(), "nothing is wrong");
    let mut tables = Vec::new();
    files(&data.at(VIEW).join("keyspaces"), &mut tables);
    tables.sort_by_key(|path| fs::metadata(path).unwrap().len());
    let largest = tables.last().expect("nothing was written out");
    assert!(fs::metadata(largest).unwrap().len() > 10_000);
    // The records are here; the data to open a table is at its end.
    flip_at(largest, 2_000);
    let checked = crate::check::check(data.dir.path(), false).unwrap();
    FjallView::wait_until_closed(&data.at(VIEW)).unwrap();
    let problems = checked.problems.iter();
    let damaged: Vec<_> =
        problems.map(|it| (&*it.file, it.what.contains("ChecksumMismatch"))).collect();
    assert_eq!(damaged, [("view", true)], "{checked:?}");
    assert!(unreadable());
    data.is_whole();
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() { files(&entry, found) } else { found.push(entry) }
    }
}

/// The log must have the positions that a checkpoint or a snapshot shows as acknowledged.
#[test]
fn a_missing_view_does_not_hide_that_the_log_ends_too_early() {
    for source in [CHECKPOINTS, SNAPSHOTS] {
        let data = Data::made(false);
        let store = open(data.dir.path()).unwrap();
        if source == CHECKPOINTS {
            let checkpoints = CheckpointDir::at(&data.at(CHECKPOINTS));
            checkpoints.write(|out| write_of(&store, out)).unwrap();
        } else {
            let snapshots = crate::SnapshotDir::open(data.at(SNAPSHOTS)).unwrap();
            snapshots.write(data.content.0.position, std::iter::empty()).unwrap();
        }
        drop(store);
        data.wait();
        fs::remove_dir_all(data.at(VIEW)).unwrap();
        let log = fs::read_dir(data.at(LOG)).unwrap().map(|entry| entry.unwrap().path());
        let segments = log.filter(|path| path.extension().is_some_and(|it| it == "log"));
        fs::remove_file(segments.max().unwrap()).unwrap();
        fs::remove_file(data.at(LOG).join("closed")).ok();
        let refused = open(data.dir.path()).err().expect("it started");
        let is_lost = matches!(refused, DirectoryError::Store(StoreError::Lost { .. }));
        assert!(is_lost, "{source}: {refused}");
    }
}

#[test]
fn a_checkpoint_of_another_log_is_passed_over() {
    let data = Data::trimmed();
    let other = tempfile::tempdir().unwrap();
    let store = directory_of_another_log(other.path());
    let made = CheckpointDir::at(&other.path().join(CHECKPOINTS));
    let made = made.write(|out| write_of(&store, out)).unwrap().checkpoint;
    let newest = data.checkpoints()[0].position;
    assert!(made.position > newest && made.position < data.content.0.position);
    let name = made.path.file_name().unwrap();
    fs::copy(&made.path, data.at(CHECKPOINTS).join(name)).unwrap();
    fs::remove_dir_all(data.at(VIEW)).unwrap();
    let store = open(data.dir.path()).unwrap();
    assert!(content(&store) == data.content);
    drop(store);
    data.wait();
    let checked = crate::check::check(data.dir.path(), false).unwrap();
    assert_eq!(checked.checkpoints[0].problem.as_deref(), Some("it is of another log"));
}

fn directory_of_another_log(dir: &Path) -> LogStore {
    let other = DirectoryOptions { log_id: [8; 16], ..options() };
    let (store, _) = open_reporting(dir, &other, &Rebuilding::default()).unwrap();
    store.begin_epoch().unwrap();
    for index in 0..50_u8 {
        let change = Change::put(Table::Keys, [b'o', index], [index]);
        store.commit(Group::new(None, &[change])).unwrap();
    }
    store
}

//! Tests that checkpoints are whole or missing, that two are kept, and that their log stays.

use std::cell::Cell;
use std::sync::Arc;

use postrider_log::{FileLog, FileOptions, Start};
use tempfile::TempDir;

use super::*;
use crate::archive::{ArchiveWriter, write_archive};
use crate::{Change, Group, Log as _, LogStore, MemoryView, Store, Table, Writes};

thread_local! {
    static END: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Makes the writing of checkpoints on this thread end at a step.
fn end_at(name: Option<&'static str>) {
    END.set(name);
}

pub(super) fn step(name: &'static str) -> Result<(), CheckpointError> {
    let ends = END.get() == Some(name);
    if ends { Err(CheckpointError::GivenUp(format!("at {name}"))) } else { Ok(()) }
}

/// Writes the current state of a store.
pub(crate) fn write_of(store: &LogStore, out: &mut dyn Write) -> Result<(), CheckpointError> {
    write_with(store, &[("acme".parse().unwrap(), b"hot".to_vec())], out)
}

/// Does the same, with these states.
fn write_with(
    store: &LogStore,
    states: &[(WorkspaceId, Vec<u8>)],
    out: &mut dyn Write,
) -> Result<(), CheckpointError> {
    let view = store.snapshot().unwrap();
    let header = ArchiveHeader {
        log: store.log_id(),
        shard: 0,
        at: view.mark(),
        time_ms: 1,
        keys: Vec::new(),
        program: "t".into(),
    };
    let written = write_archive(&*view, states, &header, out);
    written.map(drop).map_err(|error| CheckpointError::Source(error.to_string()))
}

/// Rewrites a checkpoint, whole, with other contents.
pub(crate) fn rewrite(checkpoint: &Checkpoint, change: impl Fn(&mut ArchiveHeader, &mut Vec<Row>)) {
    let mut header = checkpoint.header().unwrap();
    let mut all = Vec::new();
    checkpoint
        .read::<CheckpointError>(&mut |_, rows, _| {
            all.extend(rows);
            Ok(())
        })
        .unwrap();
    change(&mut header, &mut all);
    let mut out = Vec::new();
    let mut writer = ArchiveWriter::new(&mut out, &header).unwrap();
    for row in &all {
        match row {
            Row::Record(table, key, value) => writer.record(*table, key, value).unwrap(),
            Row::State(workspace, state) => {
                writer.state(std::str::from_utf8(workspace).unwrap(), state).unwrap();
            }
        }
    }
    writer.finish().unwrap();
    fs::write(&checkpoint.path, out).unwrap();
}

#[test]
fn what_actors_keep_of_each_workspace_is_read_again() {
    let rig = Rig::new();
    let states = ["acme", "beta", "gamma"].map(|id| (id.parse().unwrap(), id.as_bytes().to_vec()));
    let dir = CheckpointDir::at(&rig.dir.path().join("kept"));
    dir.prepare().unwrap();
    let made = dir.write(|out| write_with(&rig.store, &states, out)).unwrap();
    assert_eq!(made.checkpoint.states(&|| false).unwrap(), states);
}

/// A log in small files, and checkpoints beside it.
struct Rig {
    dir: TempDir,
    store: LogStore,
}

impl Rig {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let files = FileOptions { segment_bytes: 8 * 1024, ..FileOptions::default() };
        let start = Start::new(LogId([3; 16]));
        let log = Arc::new(FileLog::open(&dir.path().join("log"), files, start).unwrap());
        let view = Arc::new(MemoryView::new());
        let store = LogStore::open(log, view, Writes::default()).unwrap();
        store.begin_epoch().unwrap();
        Self { dir, store }
    }

    fn checkpoints(&self) -> CheckpointDir {
        CheckpointDir::at(&self.dir.path().join("checkpoints"))
    }

    /// Commits so many times, and writes a checkpoint.
    fn make(&self, commits: u8) -> Result<Made, CheckpointError> {
        for number in 0..commits {
            let change = Change::put(Table::Keys, [number], vec![number; 500]);
            self.store.commit(Group::new(None, &[change])).unwrap();
        }
        self.checkpoints().write(|out| write_of(&self.store, out))
    }

    fn positions(&self) -> Vec<u64> {
        self.checkpoints().all().unwrap().iter().map(|it| it.position.0).collect()
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.dir.path().join("checkpoints")).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn damage(&self, position: u64) {
        let path = self.dir.path().join(format!("checkpoints/{position:020}.ckpt"));
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        fs::write(&path, bytes).unwrap();
    }
}

#[test]
fn the_newest_two_are_kept_and_read_back() {
    let rig = Rig::new();
    assert_eq!(rig.checkpoints().log_needed_after().unwrap(), Position::START);
    let mut needed = Vec::new();
    for _ in 0..4 {
        let made = rig.make(10).unwrap();
        assert_eq!(made.checkpoint.verify().unwrap(), made.header);
        assert_eq!(rig.store.leads_on_from(&made.checkpoint).unwrap(), made.header.at);
        assert_eq!(rig.checkpoints().log_needed_after().unwrap(), made.log_needed_after);
        needed.push(made.log_needed_after.0);
    }
    assert_eq!((rig.positions(), needed), (vec![41, 31], vec![0, 11, 21, 31]));
    assert_eq!(rig.names(), ["00000000000000000031.ckpt", "00000000000000000041.ckpt"]);
}

#[test]
fn a_damaged_older_one_is_not_counted_on() {
    let rig = Rig::new();
    (0..2).for_each(|_| drop(rig.make(10).unwrap()));
    rig.damage(21);
    let made = rig.make(10).unwrap();
    assert_eq!((rig.positions(), made.log_needed_after), (vec![31, 11], Position(11)));
    (11..=31).step_by(20).for_each(|position| rig.damage(position));
    let made = rig.make(10).unwrap();
    assert_eq!((rig.positions(), made.log_needed_after), (vec![41], Position::START));
}

#[test]
fn a_crash_at_any_step_leaves_whole_ones() {
    for ending in STEPS {
        let rig = Rig::new();
        (0..2).for_each(|_| drop(rig.make(10).unwrap()));
        end_at(Some(ending));
        let ended = rig.make(10).unwrap_err();
        end_at(None);
        assert!(ended.to_string().contains(ending), "{ended}");
        // A crash leaves this beside: an end of this process removes its part.
        fs::write(rig.dir.path().join("checkpoints").join(NEW), b"half").unwrap();
        for checkpoint in rig.checkpoints().all().unwrap() {
            checkpoint.verify().unwrap();
        }
        let there = rig.positions();
        let expected = if ending == "renamed" { vec![31, 21, 11] } else { vec![21, 11] };
        assert_eq!(there, expected, "{ending}");
        // The log is kept for the second, which is at least as far back as needed.
        assert_eq!(rig.checkpoints().log_needed_after().unwrap(), Position(there[1]));
        rig.make(10).unwrap();
        assert_eq!(rig.positions(), [41, there[0]], "{ending}");
        assert_eq!(rig.names().len(), 2, "no part stays");
    }
}

#[test]
fn no_half_file_stays_where_the_disk_is_full() {
    let rig = Rig::new();
    rig.make(10).unwrap();
    let full = rig.checkpoints().write(|out| {
        out.write_all(&[7; 3 << 20]).unwrap();
        let full = io::Error::from(io::ErrorKind::StorageFull);
        Err(CheckpointError::io(Path::new("x"), full))
    });
    assert!(matches!(full, Err(CheckpointError::Io { .. })));
    // The written bytes are not the intended ones.
    let other = rig.checkpoints().write(|out| {
        write_of(&rig.store, out)?;
        out.write_all(b"more").map_err(|error| CheckpointError::io(Path::new("x"), error))
    });
    assert!(matches!(other, Err(CheckpointError::Archive { .. })), "{other:?}");
    assert_eq!(rig.names(), ["00000000000000000011.ckpt"]);
}

#[test]
fn the_log_is_trimmed_as_far_as_checkpoints_allow() {
    let rig = Rig::new();
    let begins = || rig.store.begins_after().unwrap().0;
    rig.store.keep_for_checkpoints(Position::START).unwrap();
    let mut last = 0;
    for _ in 0..4 {
        let made = rig.make(40).unwrap();
        // Snapshots have everything.
        rig.store.trim(made.header.at.position).unwrap();
        rig.store.keep_for_checkpoints(made.log_needed_after).unwrap();
        assert!(begins() <= made.log_needed_after.0, "what the older one needs is there");
        for checkpoint in rig.checkpoints().all().unwrap() {
            rig.store.leads_on_from(&checkpoint).unwrap();
        }
        last = begins();
    }
    assert!(last > 40, "it is trimmed: {last}");
    let foreign = Rig::new();
    let of_other = rig.checkpoints().all().unwrap().remove(0);
    assert!(foreign.store.leads_on_from(&of_other).is_err(), "the log has not come so far");
}

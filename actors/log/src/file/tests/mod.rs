//! Tests that the log in files keeps the contract on a real disk, and finds its end on a simulated
//! one.

mod flips;
mod golden;
mod segments;
mod torn;

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tempfile::TempDir;

use super::disk::{Disk, DiskFile, RealDisk};
use super::*;
use crate::conformance::{ENTRY_BYTES_MAX, Outcome, Subject, log_contract};
use crate::crashing::disk::SimDisk;
use crate::testing::*;

pub(super) fn small(prepares_ahead: bool) -> FileOptions {
    let segment_bytes = 12 * 1024;
    FileOptions {
        segment_bytes,
        entry_bytes_max: ENTRY_BYTES_MAX,
        prepares_ahead,
        ..FileOptions::default()
    }
}

/// Opens the log on a disk in memory.
pub(super) fn open_sim(disk: &SimDisk) -> Result<FileLog, LogError> {
    FileLog::open_on(Arc::new(disk.clone()), small(false), start())
}

/// A real disk whose next append fails.
#[derive(Debug)]
struct FaultyDisk {
    inner: RealDisk,
    fault: Arc<Mutex<Option<Outcome>>>,
}

#[derive(Debug)]
struct FaultyFile {
    inner: Arc<dyn DiskFile>,
    fault: Arc<Mutex<Option<Outcome>>>,
}

impl FaultyDisk {
    fn wrap(&self, inner: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(FaultyFile { inner, fault: self.fault.clone() })
    }
}

impl Disk for FaultyDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.wrap(self.inner.open(name)?))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.wrap(self.inner.create(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.inner.sync_names()
    }
}

impl DiskFile for FaultyFile {
    fn length(&self) -> io::Result<u64> {
        self.inner.length()
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(at, buffer)
    }

    /// Writes the whole commit, or the first bytes of it, and fails.
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let is_append = bytes.starts_with(&crate::entry::MAGIC);
        let Some(outcome) = self.fault.lock().take_if(|_| is_append) else {
            return self.inner.write_at(at, bytes);
        };
        let written = if let Outcome::Torn { bytes } = outcome { bytes } else { bytes.len() };
        self.inner.write_at(at, &bytes[..written])?;
        Err(io::Error::other("an injected failure"))
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }
}

/// The log in a directory of the file system.
struct OnDisk {
    dir: TempDir,
    options: FileOptions,
    fault: Arc<Mutex<Option<Outcome>>>,
}

impl OnDisk {
    fn new(prepares_ahead: bool) -> Self {
        let dir = TempDir::new().unwrap();
        Self { dir, options: small(prepares_ahead), fault: Arc::default() }
    }
}

impl Subject for OnDisk {
    fn open(&mut self) -> Arc<dyn Log> {
        let inner = RealDisk::open(&self.dir.path().join("log")).unwrap();
        let disk = FaultyDisk { inner, fault: self.fault.clone() };
        Arc::new(FileLog::open_on(Arc::new(disk), self.options.clone(), start()).unwrap())
    }

    fn fail_next(&mut self, outcome: Outcome) {
        *self.fault.lock() = Some(outcome);
    }

    /// The same process cuts off unacknowledged entries; the next one may find them.
    fn settle(&mut self, log: Arc<dyn Log>, outcome: Outcome) -> Arc<dyn Log> {
        if outcome == Outcome::Kept {
            drop(log);
            return self.open();
        }
        log.reopen().unwrap();
        log
    }
}

log_contract!(on_disk, OnDisk::new(false));
log_contract!(prepared_ahead, OnDisk::new(true));

#[test]
fn a_directory_has_one_log_at_a_time() {
    let dir = TempDir::new().unwrap();
    let open = || FileLog::open(&dir.path().join("log"), small(true), start());
    let log = open().unwrap();
    assert_eq!(open().unwrap_err(), LogError::Locked);
    drop(log);
    claimed(&open().unwrap());
}

#[test]
fn the_id_is_that_of_the_first_start() {
    let dir = TempDir::new().unwrap();
    let open = |id, after, epoch| {
        let start = Start { id: LogId(id), after: Position(after), epoch, shard: 0 };
        FileLog::open(dir.path(), small(false), start).unwrap()
    };
    let log = open([1; 16], 40, 7);
    assert_eq!((log.tail().unwrap().first, log.tail().unwrap().last.0), (Position(41), 40));
    let trimmed = LogError::Trimmed { asked: Position(40), first: Position(41) };
    assert_eq!(try_entries(&log, Position(40)), Err(trimmed));
    assert_eq!(claimed(&log).epoch, 8);
    drop(log);
    let log = open([2; 16], 0, 0);
    assert_eq!((log.id(), log.tail().unwrap().last), (LogId([1; 16]), Position(41)));
    assert_eq!(claimed(&log).epoch, 9);
    assert_eq!(append(&log, b"more"), Position(43));
}

#[test]
fn a_commit_that_is_larger_than_a_segment_gets_a_larger_one() {
    let disk = SimDisk::new();
    let log = open_sim(&disk).unwrap();
    claimed(&log);
    append(&log, b"before");
    let large = vec![5; 30_000];
    append(&log, &large);
    append(&log, b"behind");
    assert_eq!(log.segments(), 2);
    drop(log);
    assert_eq!(bodies(&open_sim(&disk).unwrap()), [&b"before"[..], &large, b"behind"]);
}

#[test]
fn a_segment_that_cannot_be_made_is_a_problem_until_it_can() {
    let disk = SimDisk::new();
    let options = FileOptions { prepares_ahead: true, ..small(true) };
    let log = FileLog::open_on(Arc::new(disk.clone()), options, start()).unwrap();
    let tail = log.tail().unwrap();
    // The claim writes, syncs, and starts the preparation, which fails.
    disk.fail_after(2, true);
    let next = tail.next(1);
    let body = claim_body().encode().unwrap();
    let claim = crate::encode_commit(&next, crate::Kind::Claim, 0, &body, 1_000).unwrap();
    log.append(Position(1), &claim).unwrap();
    let problem = (0..).find_map(|_| log.next_segment_problem()).unwrap();
    assert!(problem.contains("the power is being cut"), "{problem}");
    assert_eq!(log.tail().unwrap().last, Position(1));
}

#[test]
fn without_space_for_a_segment_appends_are_refused_until_there_is() {
    let disk = SimDisk::new();
    let log = open_sim(&disk).unwrap();
    claimed(&log);
    let full = |log: &FileLog| log.shown.read().segments[0].end + 1_100 > 12 * 1024;
    while !full(&log) {
        append(&log, &[1; 1_000]);
    }
    let before = (log.tail(), entries(&log));
    // The file is created, and then nothing can be written, or nothing synced.
    for operations in [1, 2] {
        disk.fail_after(operations, false);
        let refused = try_append(&log, &[1; 1_100]);
        assert!(matches!(refused, Err(AppendError::Refused(_))), "{refused:?}");
        assert_eq!((log.tail(), entries(&log)), before);
        assert!(!disk.list().unwrap().contains(&"next.tmp".to_owned()));
    }
    append(&log, &[2; 1_100]);
    assert_eq!(log.segments(), 2);
}

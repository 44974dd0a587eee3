//! Tests of notes between commits, and of a log without room.

use std::ops::ControlFlow;

use postrider_log::{AppendError, CheckpointNote, Entry, LogError, Tail};

use super::*;

/// A log that refuses groups while it is full.
#[derive(Debug)]
struct Full {
    log: CrashingLog,
    is_full: AtomicBool,
}

impl log::Log for Full {
    fn id(&self) -> LogId {
        self.log.id()
    }

    fn entry_bytes_max(&self) -> usize {
        self.log.entry_bytes_max()
    }

    fn tail(&self) -> Result<Tail, LogError> {
        self.log.tail()
    }

    fn append(&self, at: Position, entries: &[bytes::Bytes]) -> Result<(), AppendError> {
        self.log.append(at, entries)
    }

    fn read(
        &self,
        from: Position,
        visit: &mut dyn FnMut(Entry) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        self.log.read(from, visit)
    }

    fn entry(&self, at: Position) -> Result<Option<bytes::Bytes>, LogError> {
        self.log.entry(at)
    }

    fn bytes_after(&self, after: Position) -> Result<u64, LogError> {
        self.log.bytes_after(after)
    }

    fn trim(&self, through: Position) -> Result<(), LogError> {
        self.log.trim(through)
    }

    fn has_room(&self, _bytes: usize) -> Result<(), String> {
        let is_full = self.is_full.load(Ordering::Relaxed);
        if is_full { Err("the log is full".to_owned()) } else { Ok(()) }
    }

    fn reopen(&self) -> Result<Tail, LogError> {
        self.log.reopen()
    }

    fn close(&self) -> Result<(), LogError> {
        self.log.close()
    }
}

fn note(position: u64) -> CheckpointNote {
    let (archive, sha256) = ("a".to_owned(), [1; 32]);
    CheckpointNote { position: Position(position), archive, sha256, bytes: 3 }
}

/// Commits a frame as the writer numbers it, which knows of no note.
fn number(store: &LogStore, last: Position) -> Result<Position, StoreError> {
    let sections = vec![Section { workspace: "acme".parse().unwrap(), events: vec![7] }];
    let frame = Frame { epoch: 0, number: last.next(), sections };
    let changes = [Change::put(Table::Meta, b"k", last.0.to_be_bytes().to_vec())];
    store.commit(Group { time_ms: 5, ..Group::new(Some(&frame), &changes) })
}

#[test]
fn a_note_stands_between_two_commits_and_changes_nothing() {
    let rig = Rig::new();
    let first = number(&rig.store, Position(1)).unwrap();
    let noted = rig.store.note_checkpoint(&note(1), 3).unwrap();
    assert_eq!(noted, first.next());
    let noted = rig.store.note_checkpoint(&note(2), 9).unwrap();
    let second = number(&rig.store, first).unwrap();
    assert_eq!(second, noted.next());
    assert_eq!(number(&rig.store, second).unwrap(), second.next());
    let mut frames = Vec::new();
    let read = rig.store.read(Position::START, &mut |frame| {
        frames.push(frame.number);
        ControlFlow::Continue(())
    });
    read.unwrap();
    assert_eq!(frames, [first, second, second.next()]);
    let times: Vec<_> = (2..6)
        .map(|at| {
            let bytes = log::Log::entry(&*rig.log, Position(at)).unwrap().unwrap();
            log::Header::decode(&bytes).unwrap().time_ms
        })
        .collect();
    assert_eq!(times, [5, 5, 9, 9], "no entry is before the one before it");
    let after = rig.after_kill().unwrap();
    assert_eq!(after.store.get(Table::Meta, b"k").unwrap(), Some(second.0.to_be_bytes().to_vec()));
}

#[test]
fn a_full_log_refuses_groups_and_takes_notes_and_no_claim_is_wasted() {
    let log = CrashingLog::with_options(Start::new(ID), options()).unwrap();
    let log = Arc::new(Full { log, is_full: AtomicBool::new(false) });
    let view = Arc::new(MemoryView::new());
    let store = LogStore::open(log.clone(), view, Writes::default()).unwrap();
    let (epoch, claimed) = store.begin_epoch().unwrap();
    let last = number(&store, claimed).unwrap();
    log.is_full.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        let refused = number(&store, last).unwrap_err();
        assert!(refused.to_string().contains("the log is full"), "{refused}");
        // As the writer does after any failure.
        store.reopen().unwrap();
        assert_eq!(store.begin_epoch().unwrap(), (epoch, last));
    }
    assert!(store.snapshot().is_ok(), "a checkpoint can be made of it");
    let noted = store.note_checkpoint(&note(1), 0).unwrap();
    assert_eq!(noted, last.next());
    assert!(number(&store, last).is_err());
    store.reopen().unwrap();
    assert_eq!(store.begin_epoch().unwrap(), (epoch, noted));
    log.is_full.store(false, Ordering::Relaxed);
    assert_eq!(number(&store, noted).unwrap(), noted.next());
}

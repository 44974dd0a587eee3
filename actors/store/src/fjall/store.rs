//! The store of the format before the log had files of its own: frames and records in one fjall.
//!
//! A commit is one write batch, hence one entry of the write-ahead log and one `fdatasync`. Frames
//! are written with increasing keys, so their tables never overlap. Trimming records its position
//! durably and then drops the tables that lie wholly before it, which needs neither tombstones nor
//! compaction. Trimmed frames that share a table with newer ones are skipped by their numbers.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::fjall::{AbstractTree, Keyspace, PersistMode, Readable, UserValue};
use parking_lot::Mutex;

use crate::log::check_number;
use crate::{
    Change, Direction, Frame, Group, Log, Position, Store, StoreError, Table, View, Visit,
};

use super::base::{Base, SMALL_BLOCKS};
use super::create;
use super::failure::{damaged_or_failed, failed};
use super::journal_size::JournalSize;
use super::log::{Behind, end_of};
use super::open::{self, Attempts};
use super::options::FjallOptions;
use super::slot::Slot;

/// The key of the trimmed position in the keyspace of the journal's state: u64, big endian.
const TRIMMED_KEY: &[u8] = b"trimmed";
/// Bytes of a block of frames, which are read in long runs.
const LARGE_BLOCKS: u32 = 64 * 1024;

/// A [`Store`] in a directory.
pub struct FjallStore {
    dir: PathBuf,
    options: FjallOptions,
    slot: Slot<Open>,
}

/// An open database.
pub(super) struct Open {
    pub(super) base: Base,
    pub(super) journal: Keyspace,
    journal_state: Keyspace,
    last: AtomicU64,
    trimmed: AtomicU64,
    size: Mutex<JournalSize>,
    /// The buffer of the encoded frame, reused for each commit.
    buffer: Mutex<Vec<u8>>,
}

impl FjallStore {
    /// Opens the store in `dir`, which must be there.
    ///
    /// # Errors
    /// Those of [`open`](Self::open); [`StoreError::Failed`] when there is no store.
    pub fn open_existing(dir: &Path, options: FjallOptions) -> Result<Self, StoreError> {
        open::must_exist(dir)?;
        Self::open(dir, options)
    }

    /// Opens the store in `dir`, and creates the directory if it is missing.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another process, or another store of this one, has it open;
    /// [`StoreError::Damaged`] when the files are invalid; [`StoreError::Failed`] when they cannot
    /// be read or written.
    pub fn open(dir: &Path, options: FjallOptions) -> Result<Self, StoreError> {
        create::create_if_missing(dir, |new| Open::open_database(new, options).map(drop))?;
        let slot = Slot::new(Open::database(dir, options, Attempts::One)?);
        Ok(Self { dir: dir.to_owned(), options, slot })
    }

    pub(super) fn handle(&self) -> Result<Arc<Open>, StoreError> {
        self.slot.handle()
    }

    pub(super) fn fail(&self, error: StoreError) -> StoreError {
        self.slot.fail(error)
    }
}

impl Store for FjallStore {
    fn commit(&self, group: Group<'_>) -> Result<Position, StoreError> {
        self.handle()?.commit(group.frame, group.changes).map_err(|error| self.fail(error))
    }
}

impl View for FjallStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.handle()?.base.get(table, key)
    }

    fn value_bytes(&self, table: Table, key: &[u8]) -> Result<Option<u64>, StoreError> {
        self.handle()?.base.value_bytes(table, key)
    }

    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        from: Option<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.handle()?.base.scan(table, prefix, from, direction, visit)
    }
}

impl Log for FjallStore {
    fn read(
        &self,
        after: Position,
        visit: &mut dyn FnMut(Frame) -> ControlFlow<()>,
    ) -> Result<Position, StoreError> {
        self.handle()?.journal(after, visit)
    }

    fn last_position(&self) -> Result<Position, StoreError> {
        Ok(Position(self.handle()?.last.load(Ordering::Acquire)))
    }

    fn trim(&self, through: Position) -> Result<(), StoreError> {
        // A failed trim loses nothing. If the database has failed, the next commit detects it.
        self.handle()?.trim(through)
    }

    fn reopen(&self) -> Result<(), StoreError> {
        self.slot.reopen(|| Open::database(&self.dir, self.options, Attempts::Many))
    }

    fn begins_after(&self) -> Result<Position, StoreError> {
        Ok(Position(self.handle()?.trimmed.load(Ordering::Acquire)))
    }

    fn bytes_after(&self, after: Position) -> Result<u64, StoreError> {
        let open = self.handle()?;
        let after = after.0.max(open.trimmed.load(Ordering::Acquire));
        let last = open.last.load(Ordering::Acquire);
        Ok(open.size.lock().bytes_after(after, last))
    }
}

impl Open {
    fn database(dir: &Path, options: FjallOptions, attempts: Attempts) -> Result<Self, StoreError> {
        let end_of = |log: &Path| end_of(log, Behind::AnyBatch);
        open::open_locked(dir, attempts, &end_of, || Self::open_database(dir, options))
    }

    pub(super) fn open_database(dir: &Path, options: FjallOptions) -> Result<Self, StoreError> {
        let base = Base::open(dir, options)?;
        let journal = base.keyspace("journal", options, LARGE_BLOCKS)?;
        let journal_state = base.keyspace("journal-state", options, SMALL_BLOCKS)?;
        let (trimmed, last) = positions(&journal, &journal_state)?;
        let bytes = journal.disk_space() + journal.tree.active_memtable().size();
        Ok(Self {
            base,
            journal,
            journal_state,
            last: AtomicU64::new(last),
            trimmed: AtomicU64::new(trimmed),
            size: Mutex::new(JournalSize::new(trimmed, last, bytes)),
            buffer: Mutex::default(),
        })
    }

    fn commit(&self, frame: Option<&Frame>, changes: &[Change]) -> Result<Position, StoreError> {
        let mut batch = self.base.batch(changes, PersistMode::SyncData)?;
        let mut frame_bytes = 0;
        if let Some(frame) = frame {
            check_number(Position(self.last.load(Ordering::Acquire)), frame)?;
            self.base.wait_for_capacity(&self.journal)?;
            let mut buffer = self.buffer.lock();
            buffer.clear();
            frame.encode_into(&mut buffer);
            frame_bytes = buffer.len();
            batch.insert(&self.journal, frame.number.0.to_be_bytes(), buffer.as_slice());
        }
        batch.commit().map_err(failed)?;
        if let Some(frame) = frame {
            self.size.lock().add(frame.number.0, frame_bytes as u64);
            self.last.store(frame.number.0, Ordering::Release);
        }
        Ok(Position(self.last.load(Ordering::Acquire)))
    }

    fn journal(
        &self,
        after: Position,
        visit: &mut dyn FnMut(Frame) -> ControlFlow<()>,
    ) -> Result<Position, StoreError> {
        let last = self.last.load(Ordering::Acquire);
        let mut expected = after.0.max(self.trimmed.load(Ordering::Acquire)).saturating_add(1);
        let frames = self.base.database.snapshot().range(&self.journal, expected.to_be_bytes()..);
        for frame in frames {
            let (key, value) = frame.into_inner().map_err(damaged_or_failed)?;
            let frame = Frame::decode(&value)?;
            if frame.number.0 != expected || frame.number.0.to_be_bytes() != *key {
                return Err(missing(expected));
            }
            expected += 1;
            if visit(frame).is_break() {
                return Ok(Position(expected - 1));
            }
        }
        if expected <= last { Err(missing(expected)) } else { Ok(Position(expected - 1)) }
    }

    fn trim(&self, through: Position) -> Result<(), StoreError> {
        let through = through.0.min(self.last.load(Ordering::Acquire));
        if through <= self.trimmed.load(Ordering::Acquire) {
            return Ok(());
        }
        // The trimmed position must be durable before any frame is dropped, so that a missing frame
        // is never unexplained.
        let mut batch = self.base.database.batch().durability(Some(PersistMode::SyncData));
        batch.insert(&self.journal_state, TRIMMED_KEY, through.to_be_bytes());
        batch.commit().map_err(failed)?;
        self.trimmed.store(through, Ordering::Release);
        self.size.lock().trim(through);
        self.journal.tree.drop_range(..=through.to_be_bytes()).map_err(|error| failed(error.into()))
    }
}

fn missing(number: u64) -> StoreError {
    StoreError::Damaged(format!("frame {number} of the journal is missing"))
}

fn number(value: &UserValue, what: &str) -> Result<u64, StoreError> {
    let bytes = value.as_ref().try_into();
    let bytes = bytes.map_err(|_| StoreError::Damaged(format!("{what} is not a number")))?;
    Ok(u64::from_be_bytes(bytes))
}

/// The trimmed position of the journal, and the number of its last frame.
fn positions(journal: &Keyspace, journal_state: &Keyspace) -> Result<(u64, u64), StoreError> {
    let trimmed = journal_state.get(TRIMMED_KEY).map_err(damaged_or_failed)?;
    let trimmed = trimmed.map_or(Ok(0), |value| number(&value, "the trimmed position"))?;
    let last = match journal.last_key_value() {
        Some(last) => number(&last.key().map_err(damaged_or_failed)?, "a frame's key")?,
        None => 0,
    };
    // All frames may have been trimmed. Their numbers must not be reused.
    Ok((trimmed, last.max(trimmed)))
}

//! The store on disk uses fjall 3, an LSM tree with a write-ahead log.
//!
//! There is one keyspace per [`Table`], one for the journal's frames and one for the journal's
//! trimmed position. A commit is one write batch, hence one entry of the write-ahead log and one
//! `fdatasync`.
//!
//! Frames are written with increasing keys, so their tables never overlap. Leveled compaction
//! merges the newest few tables or moves them down as they are, and never touches older ones.
//! Trimming records its position durably and then drops the tables that lie wholly before it, which
//! needs neither tombstones nor compaction. Trimmed frames that share a table with newer ones are
//! skipped by their numbers until the table can be dropped too. Two alternatives do not fit: FIFO
//! compaction drops by size and age and not by key, and a keyspace per span of frames would make
//! the commit path create keyspaces.

mod create;
mod failure;
mod journal_size;
mod log;
mod open;

#[cfg(test)]
mod tests;

use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::fjall::{AbstractTree, Database, Keyspace, PersistMode, Readable, UserValue};
use parking_lot::{Mutex, RwLock};

use crate::log::check_number;
use crate::view::{bounding, prefix_end};
use crate::{
    Change, Direction, Frame, Group, Log, Position, Store, StoreError, Table, View, Visit,
};
use failure::{damaged_or_failed, failed};
use journal_size::JournalSize;

/// A commit waits while this many sealed memtables of a keyspace are not flushed. At four of them
/// fjall itself would wait, and it would wait forever if its workers had failed by then.
const SEALED_MEMTABLES_MAX: usize = 3;
/// A commit also waits while level 0 has this many tables. fjall itself would wait at 30.
const NEW_TABLES_MAX: usize = 24;
/// How often a waiting commit checks again.
const BACK_PRESSURE_POLL: Duration = Duration::from_millis(1);
/// The key of the trimmed position in the keyspace of the journal's state: u64, big endian.
const TRIMMED_KEY: &[u8] = b"trimmed";

/// Limits on the memory and the write-ahead log of the store.
#[derive(Debug, Clone, Copy)]
pub struct FjallOptions {
    /// Bytes of the block cache.
    pub cache_bytes: u64,
    /// Bytes of a keyspace's memtable before it is flushed to a table. A burst may take four times
    /// as much.
    pub memtable_bytes: u64,
    /// Bytes of write-ahead log beyond which memtables are flushed to shorten it; at least 64 MiB.
    /// It bounds both the log that a start reads and the memory of all memtables together.
    pub log_bytes: u64,
}

impl Default for FjallOptions {
    /// A cache of 64 MiB, memtables of 32 MiB, a log of 128 MiB.
    fn default() -> Self {
        Self { cache_bytes: 64 << 20, memtable_bytes: 32 << 20, log_bytes: 128 << 20 }
    }
}

/// A [`Store`] in a directory.
pub struct FjallStore {
    dir: PathBuf,
    options: FjallOptions,
    state: RwLock<State>,
}

enum State {
    Open(Arc<Open>),
    /// The failure, and the database that still has to be closed.
    Failed(StoreError, Option<Arc<Open>>),
}

/// An open database. Readers keep it only for the length of a call.
struct Open {
    database: Database,
    journal: Keyspace,
    journal_state: Keyspace,
    /// The keyspaces of the tables, in the order of `Table::ALL`.
    tables: Vec<Keyspace>,
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
        if !dir.join(open::VERSION_FILE).try_exists().map_err(open::io_failed)? {
            return Err(StoreError::Failed(format!("there is no store in {}", dir.display())));
        }
        Self::open(dir, options)
    }

    /// Opens the store in `dir`, and creates the directory if it is missing.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another process, or another store of this one, has it open;
    /// [`StoreError::Damaged`] when the files are invalid; [`StoreError::Failed`] when they cannot
    /// be read or written.
    pub fn open(dir: &Path, options: FjallOptions) -> Result<Self, StoreError> {
        let open = Open::first(dir, options)?;
        let state = RwLock::new(State::Open(Arc::new(open)));
        Ok(Self { dir: dir.to_owned(), options, state })
    }

    fn handle(&self) -> Result<Arc<Open>, StoreError> {
        match &*self.state.read() {
            State::Open(open) => Ok(open.clone()),
            State::Failed(error, _) => Err(error.clone()),
        }
    }

    /// Makes every call fail until the store is opened again.
    fn fail(&self, error: StoreError) -> StoreError {
        let mut state = self.state.write();
        let old = match &mut *state {
            State::Open(open) => Some(open.clone()),
            State::Failed(_, old) => old.take(),
        };
        *state = State::Failed(error.clone(), old);
        error
    }
}

impl Store for FjallStore {
    fn commit(&self, group: Group<'_>) -> Result<(), StoreError> {
        self.handle()?.commit(group.frame, group.changes).map_err(|error| self.fail(error))
    }
}

impl View for FjallStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.handle()?.table(table).get(key).map_err(damaged_or_failed)?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn value_bytes(&self, table: Table, key: &[u8]) -> Result<Option<u64>, StoreError> {
        let bytes = self.handle()?.table(table).size_of(key).map_err(damaged_or_failed)?;
        Ok(bytes.map(u64::from))
    }

    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        from: Option<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.handle()?.scan(table, prefix, from, direction, visit)
    }
}

impl Log for FjallStore {
    fn read(
        &self,
        after: Position,
        visit: &mut dyn FnMut(Frame) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
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
        let mut state = self.state.write();
        let State::Failed(_, old) = &mut *state else {
            return Ok(());
        };
        // This closes the database, unless a reader still uses it. Then opening fails, and a later
        // attempt may succeed.
        drop(old.take());
        let open = Open::again(&self.dir, self.options)?;
        *state = State::Open(Arc::new(open));
        Ok(())
    }

    fn bytes_after(&self, after: Position) -> Result<u64, StoreError> {
        let open = self.handle()?;
        let after = after.0.max(open.trimmed.load(Ordering::Acquire));
        let last = open.last.load(Ordering::Acquire);
        Ok(open.size.lock().bytes_after(after, last))
    }
}

impl Open {
    fn table(&self, table: Table) -> &Keyspace {
        // `Table::ALL` lists the variants in their order of declaration, which a test checks.
        &self.tables[table as usize]
    }

    fn commit(&self, frame: Option<&Frame>, changes: &[Change]) -> Result<(), StoreError> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        let mut frame_bytes = 0;
        if let Some(frame) = frame {
            check_number(Position(self.last.load(Ordering::Acquire)), frame)?;
            self.wait_for_capacity(&self.journal)?;
            let mut buffer = self.buffer.lock();
            buffer.clear();
            frame.encode_into(&mut buffer);
            frame_bytes = buffer.len();
            batch.insert(&self.journal, frame.number.0.to_be_bytes(), buffer.as_slice());
        }
        let mut tables = [false; Table::ALL.len()];
        for Change { table, key, value } in changes {
            if !std::mem::replace(&mut tables[*table as usize], true) {
                self.wait_for_capacity(self.table(*table))?;
            }
            match value {
                Some(value) => batch.insert(self.table(*table), key.as_slice(), value.as_slice()),
                None => batch.remove(self.table(*table), key.as_slice()),
            }
        }
        batch.commit().map_err(failed)?;
        if let Some(frame) = frame {
            self.size.lock().add(frame.number.0, frame_bytes as u64);
            self.last.store(frame.number.0, Ordering::Release);
        }
        Ok(())
    }

    /// Waits while a keyspace has too much to flush. Fails if fjall's workers have failed, because
    /// then it will never be flushed.
    fn wait_for_capacity(&self, keyspace: &Keyspace) -> Result<(), StoreError> {
        while keyspace.sealed_memtable_count() >= SEALED_MEMTABLES_MAX
            || keyspace.l0_table_count() >= NEW_TABLES_MAX
        {
            // This writes nothing, and fails once a worker has failed.
            self.database.persist(PersistMode::Buffer).map_err(failed)?;
            std::thread::sleep(BACK_PRESSURE_POLL);
        }
        Ok(())
    }

    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        from: Option<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        let from = bounding(prefix, from, direction);
        let end = prefix_end(prefix);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let (from, to) = match (direction, from) {
            (Direction::Forward, from) => (Bound::Included(from.unwrap_or(prefix)), end),
            (Direction::Backward, from) => {
                (Bound::Included(prefix), from.map_or(end, Bound::Included))
            }
        };
        // An inverted range is empty, and fjall does not accept it.
        if let (Bound::Included(from), Bound::Included(to) | Bound::Excluded(to)) = (from, to)
            && from > to
        {
            return Ok(());
        }
        let mut records = self.database.snapshot().range::<&[u8], _>(self.table(table), (from, to));
        loop {
            let record = match direction {
                Direction::Forward => records.next(),
                Direction::Backward => records.next_back(),
            };
            let Some(record) = record else { return Ok(()) };
            let (key, value) = record.into_inner().map_err(damaged_or_failed)?;
            if visit(&key, &value).is_break() {
                return Ok(());
            }
        }
    }

    fn journal(
        &self,
        after: Position,
        visit: &mut dyn FnMut(Frame) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let last = self.last.load(Ordering::Acquire);
        let mut expected = after.0.max(self.trimmed.load(Ordering::Acquire)).saturating_add(1);
        let frames = self.database.snapshot().range(&self.journal, expected.to_be_bytes()..);
        for frame in frames {
            let (key, value) = frame.into_inner().map_err(damaged_or_failed)?;
            let frame = Frame::decode(&value)?;
            if frame.number.0 != expected || frame.number.0.to_be_bytes() != *key {
                return Err(missing(expected));
            }
            expected += 1;
            if visit(frame).is_break() {
                return Ok(());
            }
        }
        if expected <= last { Err(missing(expected)) } else { Ok(()) }
    }

    fn trim(&self, through: Position) -> Result<(), StoreError> {
        let through = through.0.min(self.last.load(Ordering::Acquire));
        if through <= self.trimmed.load(Ordering::Acquire) {
            return Ok(());
        }
        // The trimmed position must be durable before any frame is dropped, so that a missing frame
        // is never unexplained.
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
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

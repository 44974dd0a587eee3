//! The view on disk: records, and the mark of the log at which they are.
//!
//! Applied changes go to the operating system at once and to the disk by a later sync. So a power
//! cut may lose the newest batches, which the log has. A sync is followed by a batch with its
//! position. Whatever survives of fjall's log, this position is a lower bound.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use ::fjall::{Keyspace, OwnedWriteBatch, PersistMode, Readable, Snapshot, UserValue};
use parking_lot::{Mutex, RwLock};
use postrider_log::{EntryHash, LogId, Mark};

use super::database::{FjallOptions, TableDatabase, damaged_or_failed, failed};
use super::log::SYNCED_KEY;
use super::open::{self, Attempts};
use crate::view::{MarkedView, PAGE_BYTES, Records, ViewSnapshot};
use crate::{Change, Direction, Position, StoreError, Table, View, Visit};

/// The key of the last mark that was applied.
const APPLIED_KEY: &[u8] = b"applied";
/// The key of the log's identity.
const LOG_KEY: &[u8] = b"log";
/// The first byte of the values of these keys. A shard's view has no directory with a format, so
/// this byte makes versions that cannot read its records refuse it.
const VERSION: u8 = 1;
/// The bytes of applied keys and values that start a write to the disk: writing so many is quick.
const WRITE_OUT_BYTES: usize = 1 << 20;

/// A [`MarkedView`] in a directory.
pub struct FjallView {
    dir: PathBuf,
    options: FjallOptions,
    slot: Reopenable<OpenView>,
}

struct OpenView {
    base: TableDatabase,
    state: Keyspace,
    marks: Mutex<Marks>,
    /// Held during all writes.
    ///
    /// Changes applied between a sync and the batch that records it would look as if they had been
    /// synced too.
    order: Mutex<()>,
    /// The bytes of keys and values applied since the system was last asked to write them.
    unwritten: AtomicUsize,
}

#[derive(Debug, Clone, Copy)]
struct Marks {
    log: Option<LogId>,
    applied: Mark,
    synced: Position,
}

impl FjallView {
    /// Opens the view in `dir`, which must exist.
    ///
    /// # Errors
    /// Those of [`open`](Self::open); [`StoreError::Failed`] when there is none.
    pub fn open_existing(dir: &Path, options: FjallOptions) -> Result<Self, StoreError> {
        open::must_exist(dir)?;
        Self::open(dir, options)
    }

    /// Opens the view in `dir`, and creates the directory if it is missing.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another process, or another view of this one, has it open;
    /// [`StoreError::Damaged`] when the files are invalid; [`StoreError::Failed`] when they cannot
    /// be read or written.
    pub fn open(dir: &Path, options: FjallOptions) -> Result<Self, StoreError> {
        open::create_if_missing(dir, |new| OpenView::open_database(new, options).map(drop))?;
        let slot = Reopenable::new(OpenView::database(dir, options, Attempts::One)?);
        Ok(Self { dir: dir.to_owned(), options, slot })
    }

    /// Opens the view in `dir` after this process closed it.
    ///
    /// # Errors
    /// Those of [`open_existing`](Self::open_existing).
    pub(crate) fn open_again(dir: &Path, options: FjallOptions) -> Result<Self, StoreError> {
        open::must_exist(dir)?;
        let slot = Reopenable::new(OpenView::database(dir, options, Attempts::Many)?);
        Ok(Self { dir: dir.to_owned(), options, slot })
    }

    /// Returns whether there is one in `dir`, whatever its state.
    pub(crate) fn is_there(dir: &Path) -> bool {
        open::must_exist(dir).is_ok()
    }

    /// Waits until a view that this process closed has ended.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when it does not end.
    pub(crate) fn wait_until_closed(dir: &Path) -> Result<(), StoreError> {
        open::lock(dir, open::LOCK_ATTEMPTS.0).map(drop)
    }

    fn handle(&self) -> Result<Arc<OpenView>, StoreError> {
        self.slot.handle()
    }
}

impl OpenView {
    fn database(dir: &Path, options: FjallOptions, attempts: Attempts) -> Result<Self, StoreError> {
        open::open_locked(dir, attempts, || Self::open_database(dir, options))
    }

    fn open_database(dir: &Path, options: FjallOptions) -> Result<Self, StoreError> {
        let base = TableDatabase::open(dir, options)?;
        let state = base.keyspace("state", options)?;
        let marks = Mutex::new(Marks::read(&state)?);
        let unwritten = AtomicUsize::new(0);
        Ok(Self { base, state, marks, order: Mutex::default(), unwritten })
    }

    fn begin(&self, log: LogId, at: &Mark) -> Result<(), StoreError> {
        let _in_order = self.order.lock();
        let mut batch = self.base.batch(&[], PersistMode::SyncData)?;
        batch.insert(&self.state, LOG_KEY, [&[VERSION], &log.0[..]].concat());
        self.put_applied(&mut batch, at);
        self.put_synced(&mut batch, at.position);
        batch.commit().map_err(failed)?;
        *self.marks.lock() = Marks { log: Some(log), applied: *at, synced: at.position };
        Ok(())
    }

    fn apply(&self, at: &Mark, changes: &[Change]) -> Result<(), StoreError> {
        self.base.wait_for_capacity(&self.state)?;
        let _in_order = self.order.lock();
        let mut batch = self.base.batch(changes, PersistMode::Buffer)?;
        self.put_applied(&mut batch, at);
        batch.commit().map_err(failed)?;
        self.marks.lock().applied = *at;
        let bytes = |it: &Change| it.key.len() + it.value.as_ref().map_or(0, Vec::len);
        self.unwritten.fetch_add(changes.iter().map(bytes).sum(), Ordering::Relaxed);
        Ok(())
    }

    /// Writes the changes out in portions: a large sync delays that of the log for as long as it
    /// takes.
    fn write_out(&self, dir: &Path) -> Result<(), StoreError> {
        if self.unwritten.load(Ordering::Relaxed) < WRITE_OUT_BYTES {
            return Ok(());
        }
        // This precedes the write: later changes may have been too late for it.
        self.unwritten.store(0, Ordering::Relaxed);
        open::sync_newest_log(dir)
    }

    /// Syncs the view.
    ///
    /// Nearly all is written to the disk before the lock is taken, so that appliers only wait for
    /// the changes since then.
    fn sync(&self, dir: &Path) -> Result<Position, StoreError> {
        self.unwritten.store(0, Ordering::Relaxed);
        open::sync_newest_log(dir)?;
        let _in_order = self.order.lock();
        let position = self.marks.lock().applied.position;
        self.base.database.persist(PersistMode::SyncData).map_err(failed)?;
        // The batch comes only now, and on its own: it must be true whenever it is found. It is
        // synced too, because the log is trimmed by it, so a power cut must not revert it.
        let mut batch = self.base.batch(&[], PersistMode::SyncData)?;
        self.put_synced(&mut batch, position);
        batch.commit().map_err(failed)?;
        self.marks.lock().synced = position;
        Ok(position)
    }

    fn put_applied(&self, batch: &mut OwnedWriteBatch, at: &Mark) {
        let mut value = [0; 33];
        value[0] = VERSION;
        value[1..9].copy_from_slice(&at.position.0.to_be_bytes());
        value[9..17].copy_from_slice(&at.epoch.to_be_bytes());
        value[17..].copy_from_slice(&at.hash.0);
        batch.insert(&self.state, APPLIED_KEY, value);
    }

    fn put_synced(&self, batch: &mut OwnedWriteBatch, position: Position) {
        let mut value = [VERSION; 9];
        value[1..].copy_from_slice(&position.0.to_be_bytes());
        batch.insert(&self.state, SYNCED_KEY, value);
    }
}

impl Marks {
    fn read(state: &Keyspace) -> Result<Self, StoreError> {
        let log = read_value(state, LOG_KEY, "the log of the view")?.map(LogId);
        let applied = match read_value::<32>(state, APPLIED_KEY, "the mark of the view")? {
            None => Mark::default(),
            Some(bytes) => decode_mark(&bytes),
        };
        let synced = read_value(state, SYNCED_KEY, "the synced mark of the view")?;
        let synced = Position(synced.map_or(0, u64::from_be_bytes));
        Ok(Self { log, applied, synced })
    }
}

fn decode_mark(bytes: &[u8; 32]) -> Mark {
    let (mut position, mut epoch, mut hash) = ([0; 8], [0; 8], [0; 16]);
    position.copy_from_slice(&bytes[..8]);
    epoch.copy_from_slice(&bytes[8..16]);
    hash.copy_from_slice(&bytes[16..]);
    let (position, epoch) = (u64::from_be_bytes(position), u64::from_be_bytes(epoch));
    Mark { position: Position(position), epoch, hash: EntryHash(hash) }
}

/// Returns the bytes of a value behind its version.
fn read_value<const N: usize>(
    state: &Keyspace,
    key: &[u8],
    what: &'static str,
) -> Result<Option<[u8; N]>, StoreError> {
    decode_value(state.get(key).map_err(damaged_or_failed)?, what)
}

fn decode_value<const N: usize>(
    value: Option<UserValue>,
    what: &'static str,
) -> Result<Option<[u8; N]>, StoreError> {
    let Some(value) = value else { return Ok(None) };
    match value.split_first() {
        Some((&VERSION, rest)) if rest.len() == N => Ok(rest.try_into().ok()),
        Some((version, _)) if *version > VERSION => {
            Err(StoreError::Newer(format!("{what} has version {version}")))
        }
        _ => Err(StoreError::Damaged(what.into())),
    }
}

impl View for FjallView {
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

    fn moment(&self) -> Result<Option<Box<dyn View>>, StoreError> {
        Ok(Some(take_moment(&self.handle()?)))
    }
}

impl MarkedView for FjallView {
    fn log(&self) -> Result<Option<LogId>, StoreError> {
        Ok(self.handle()?.marks.lock().log)
    }

    fn begin(&self, log: LogId, at: &Mark) -> Result<(), StoreError> {
        self.handle()?.begin(log, at).map_err(|error| self.slot.fail(error))
    }

    fn apply(&self, at: &Mark, changes: &[Change]) -> Result<(), StoreError> {
        self.handle()?.apply(at, changes).map_err(|error| self.slot.fail(error))
    }

    fn applied(&self) -> Result<Mark, StoreError> {
        Ok(self.handle()?.marks.lock().applied)
    }

    fn sync(&self) -> Result<Position, StoreError> {
        self.handle()?.sync(&self.dir).map_err(|error| self.slot.fail(error))
    }

    fn write_out(&self) -> Result<(), StoreError> {
        self.handle()?.write_out(&self.dir).map_err(|error| self.slot.fail(error))
    }

    fn synced(&self) -> Result<Position, StoreError> {
        Ok(self.handle()?.marks.lock().synced)
    }

    fn snapshot(&self) -> Result<Box<dyn ViewSnapshot>, StoreError> {
        take_snapshot(&self.handle()?)
    }

    fn reopen(&self) -> Result<(), StoreError> {
        self.slot.reopen(|| OpenView::database(&self.dir, self.options, Attempts::Many))
    }
}

/// Holds a database. Readers keep it only for the length of a call.
struct Reopenable<T>(RwLock<OpenState<T>>);

enum OpenState<T> {
    Open(Arc<T>),
    /// The failure, and the database that still has to be closed.
    Failed(StoreError, Option<Arc<T>>),
}

impl<T> Reopenable<T> {
    fn new(open: T) -> Self {
        Self(RwLock::new(OpenState::Open(Arc::new(open))))
    }

    fn handle(&self) -> Result<Arc<T>, StoreError> {
        match &*self.0.read() {
            OpenState::Open(open) => Ok(open.clone()),
            OpenState::Failed(error, _) => Err(error.clone()),
        }
    }

    /// Makes every call fail until the database is opened again.
    fn fail(&self, error: StoreError) -> StoreError {
        let mut state = self.0.write();
        let old = match &mut *state {
            OpenState::Open(open) => Some(open.clone()),
            OpenState::Failed(_, old) => old.take(),
        };
        *state = OpenState::Failed(error.clone(), old);
        error
    }

    /// Opens a failed database again. Does nothing to one that works.
    fn reopen(&self, open: impl FnOnce() -> Result<T, StoreError>) -> Result<(), StoreError> {
        let mut state = self.0.write();
        let OpenState::Failed(_, old) = &mut *state else {
            return Ok(());
        };
        // This closes the database, unless a reader still uses it. Then opening fails, and a later
        // attempt may succeed.
        drop(old.take());
        *state = OpenState::Open(Arc::new(open()?));
        Ok(())
    }
}

/// A snapshot of the view, which is read page by page.
///
/// The database is used only for the length of a page. So a failed one can be closed and opened
/// again while a slow reader holds a snapshot. That reader then gets an error.
struct FjallSnapshot {
    open: Weak<OpenView>,
    snapshot: Snapshot,
    mark: Mark,
}

/// Takes a snapshot. Changes and their mark are one batch, so its mark matches its records.
fn take_snapshot(open: &Arc<OpenView>) -> Result<Box<dyn ViewSnapshot>, StoreError> {
    let snapshot = open.base.database.snapshot();
    let value = snapshot.get(&open.state, APPLIED_KEY).map_err(damaged_or_failed)?;
    let applied = decode_value::<32>(value, "the mark of the view")?;
    let mark = applied.as_ref().map(decode_mark).unwrap_or_default();
    Ok(Box::new(FjallSnapshot { open: Arc::downgrade(open), snapshot, mark }))
}

impl ViewSnapshot for FjallSnapshot {
    fn mark(&self) -> Mark {
        self.mark
    }

    fn page(&self, table: Table, after: Option<&[u8]>) -> Result<Records, StoreError> {
        let closed = || StoreError::Failed("the view was closed while it was copied".into());
        let open = self.open.upgrade().ok_or_else(closed)?;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let range = (from, Bound::Unbounded);
        let (mut page, mut bytes) = (Records::new(), 0);
        for record in self.snapshot.range::<&[u8], _>(open.base.table(table), range) {
            let (key, value) = record.into_inner().map_err(damaged_or_failed)?;
            bytes += key.len() + value.len();
            page.push((key.to_vec(), value.to_vec()));
            if bytes >= PAGE_BYTES {
                break;
            }
        }
        Ok(page)
    }
}

/// The view of one moment.
struct FjallMoment {
    open: Weak<OpenView>,
    snapshot: Snapshot,
}

/// Returns the view as it is now.
fn take_moment(open: &Arc<OpenView>) -> Box<dyn View> {
    let snapshot = open.base.database.snapshot();
    Box::new(FjallMoment { open: Arc::downgrade(open), snapshot })
}

impl FjallMoment {
    fn open(&self) -> Result<Arc<OpenView>, StoreError> {
        let closed = || StoreError::Failed("the view was closed while it was read".into());
        self.open.upgrade().ok_or_else(closed)
    }
}

impl View for FjallMoment {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let open = self.open()?;
        let value = self.snapshot.get(open.base.table(table), key).map_err(damaged_or_failed)?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        from: Option<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.open()?.base.scan_at(&self.snapshot, (table, prefix), from, direction, visit)
    }
}

#[cfg(test)]
mod tests;

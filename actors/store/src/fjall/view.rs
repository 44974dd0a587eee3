//! The view on disk: records, and the mark of the log at which they are.
//!
//! Applied changes go to the operating system at once and to the disk by a later sync. So a power
//! cut may lose the newest batches, which the log has. A sync is followed by a batch with its
//! position. Whatever survives of fjall's log, this position is a lower bound.

mod snapshot;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ::fjall::{Keyspace, OwnedWriteBatch, PersistMode, UserValue};
use parking_lot::Mutex;
use postrider_log::{EntryHash, LogId, Mark};

use crate::view::{MarkedView, ViewSnapshot};
use crate::{Change, Direction, Position, StoreError, Table, View, Visit};

use super::base::Base;
use super::create;
use super::failure::{damaged_or_failed, failed};
use super::log::SYNCED_KEY;
use super::open::{self, Attempts};
use super::options::FjallOptions;
use super::slot::Slot;

/// The key of the last mark that was applied.
const APPLIED_KEY: &[u8] = b"applied";
/// The key of the log's identity.
const LOG_KEY: &[u8] = b"log";
/// The first byte of the values of these keys. A view of a shard is in no directory with a format,
/// so this keeps versions out that cannot read its records.
const VERSION: u8 = 1;
/// Bytes of keys and values after which what was applied is much: a write of that many is short.
const WRITE_OUT_BYTES: usize = 1 << 20;

/// A [`MarkedView`] in a directory.
pub struct FjallView {
    dir: PathBuf,
    options: FjallOptions,
    slot: Slot<Open>,
}

struct Open {
    base: Base,
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
        create::create_if_missing(dir, |new| Open::open_database(new, options).map(drop))?;
        let slot = Slot::new(Open::database(dir, options, Attempts::One)?);
        Ok(Self { dir: dir.to_owned(), options, slot })
    }

    /// Opens the view in `dir` after this process closed it.
    ///
    /// # Errors
    /// Those of [`open_existing`](Self::open_existing).
    pub(crate) fn open_again(dir: &Path, options: FjallOptions) -> Result<Self, StoreError> {
        open::must_exist(dir)?;
        let slot = Slot::new(Open::database(dir, options, Attempts::Many)?);
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

    fn handle(&self) -> Result<Arc<Open>, StoreError> {
        self.slot.handle()
    }
}

impl Open {
    fn database(dir: &Path, options: FjallOptions, attempts: Attempts) -> Result<Self, StoreError> {
        open::open_locked(dir, attempts, || Self::open_database(dir, options))
    }

    fn open_database(dir: &Path, options: FjallOptions) -> Result<Self, StoreError> {
        let base = Base::open(dir, options)?;
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
        let log = value(state, LOG_KEY, "the log of the view")?.map(LogId);
        let applied = match value::<32>(state, APPLIED_KEY, "the mark of the view")? {
            None => Mark::default(),
            Some(bytes) => mark(&bytes),
        };
        let synced = value(state, SYNCED_KEY, "the synced mark of the view")?;
        let synced = Position(synced.map_or(0, u64::from_be_bytes));
        Ok(Self { log, applied, synced })
    }
}

fn mark(bytes: &[u8; 32]) -> Mark {
    let (mut position, mut epoch, mut hash) = ([0; 8], [0; 8], [0; 16]);
    position.copy_from_slice(&bytes[..8]);
    epoch.copy_from_slice(&bytes[8..16]);
    hash.copy_from_slice(&bytes[16..]);
    let (position, epoch) = (u64::from_be_bytes(position), u64::from_be_bytes(epoch));
    Mark { position: Position(position), epoch, hash: EntryHash(hash) }
}

/// Returns the bytes of a value behind its version.
fn value<const N: usize>(
    state: &Keyspace,
    key: &[u8],
    what: &'static str,
) -> Result<Option<[u8; N]>, StoreError> {
    decoded(state.get(key).map_err(damaged_or_failed)?, what)
}

fn decoded<const N: usize>(
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
        Ok(Some(snapshot::moment(&self.handle()?)))
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
        snapshot::take(&self.handle()?)
    }

    fn reopen(&self) -> Result<(), StoreError> {
        self.slot.reopen(|| Open::database(&self.dir, self.options, Attempts::Many))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::marked::conformance::{LOG, mark};

    /// Gives the marks of a closed view the version of another program.
    fn with_version(dir: &Path, version: u8) {
        let open = Open::database(dir, FjallOptions::default(), Attempts::Many).unwrap();
        let mut batch = open.base.batch(&[], PersistMode::SyncData).unwrap();
        for key in [LOG_KEY, APPLIED_KEY, SYNCED_KEY] {
            let mut value = open.state.get(key).unwrap().unwrap().to_vec();
            value[0] = version;
            batch.insert(&open.state, key, value);
        }
        batch.commit().unwrap();
    }

    #[test]
    fn a_view_of_a_newer_version_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let view = FjallView::open(dir.path(), FjallOptions::default()).unwrap();
        view.begin(LOG, &mark(1)).unwrap();
        drop(view);
        with_version(dir.path(), 2);
        let opened = FjallView::open_again(dir.path(), FjallOptions::default());
        let refused = opened.err().unwrap().to_string();
        let expected = "it was written by a newer version: the log of the view has version 2";
        assert_eq!(refused, expected);
    }

    #[test]
    fn much_that_was_applied_is_written_before_the_sync() {
        let dir = tempfile::tempdir().unwrap();
        let view = FjallView::open(dir.path(), FjallOptions::default()).unwrap();
        view.begin(LOG, &Mark::default()).unwrap();
        let unwritten = || view.handle().unwrap().unwritten.load(Ordering::Relaxed);
        let half = Change::put(Table::Keys, [1], vec![7; WRITE_OUT_BYTES / 2]);
        view.apply(&mark(1), std::slice::from_ref(&half)).unwrap();
        view.write_out().unwrap();
        assert!(unwritten() > 0, "that little waits for the sync");
        view.apply(&mark(2), &[half]).unwrap();
        view.write_out().unwrap();
        assert_eq!(unwritten(), 0);
        assert_eq!(view.synced(), Ok(Position::START), "only a sync says what is durable");
        view.apply(&mark(3), &[Change::put(Table::Keys, [1], [7])]).unwrap();
        view.sync().unwrap();
        assert_eq!((unwritten(), view.synced()), (0, Ok(Position(3))));
    }

    #[test]
    fn after_a_failure_all_fails_until_it_is_open_again_on_a_fresh_log() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let view = FjallView::open(dir.path(), FjallOptions::default()).unwrap();
        let put = |at: u64| Change::put(Table::Keys, *b"k", at.to_be_bytes());
        view.apply(&mark(3), &[put(3)]).unwrap();
        let log = dir.path().join("0.jnl");
        // Held open, so that its number is not given to the new one.
        let held = std::fs::File::open(&log).unwrap();
        let failed = view.slot.fail(StoreError::Failed("injected".into()));
        assert_eq!(view.apply(&mark(4), &[put(4)]), Err(failed.clone()));
        assert_eq!(view.get(Table::Keys, b"k"), Err(failed.clone()));
        assert_eq!(view.sync(), Err(failed));
        std::fs::write(dir.path().join("7.jnl.copy"), b"left by a crash").unwrap();
        view.reopen().unwrap();
        assert_ne!(log.metadata().unwrap().ino(), held.metadata().unwrap().ino());
        assert!(!dir.path().join("7.jnl.copy").exists());
        assert_eq!(view.get(Table::Keys, b"k"), Ok(Some(3_u64.to_be_bytes().to_vec())));
        view.apply(&mark(4), &[put(4)]).unwrap();
        drop(view);
        let view = FjallView::open_again(dir.path(), FjallOptions::default()).unwrap();
        assert_eq!(view.applied(), Ok(mark(4)));
    }

    #[test]
    fn a_reader_in_the_way_only_delays_opening_again() {
        let dir = tempfile::tempdir().unwrap();
        let view = FjallView::open(dir.path(), FjallOptions::default()).unwrap();
        view.apply(&mark(3), &[]).unwrap();
        let reader = view.handle().unwrap();
        view.slot.fail(StoreError::Failed("injected".into()));
        std::thread::scope(|scope| {
            let reopened = scope.spawn(|| view.reopen());
            drop(reader);
            reopened.join().unwrap().unwrap();
        });
        assert_eq!(view.applied(), Ok(mark(3)));
    }
}

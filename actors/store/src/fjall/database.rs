//! A database with a keyspace for each table, its limits, and its errors as those of the port.

use std::ops::Bound;
use std::time::Duration;

use ::fjall::config::BlockSizePolicy;
use ::fjall::{
    Database, Error, Keyspace, KeyspaceCreateOptions, LsmError, OwnedWriteBatch, PersistMode,
    Readable, Snapshot,
};

use crate::view::{bounding, prefix_end};
use crate::{Change, Direction, StoreError, Table, Visit};

/// The number of sealed memtables of a keyspace at which a commit waits for their flush.
///
/// At four of them fjall itself would wait, and it would wait forever if its workers had failed by
/// then.
const SEALED_MEMTABLES_MAX: usize = 3;
/// The number of tables in level 0 at which a commit also waits. fjall itself would wait at 30.
const NEW_TABLES_MAX: usize = 24;
/// The time between two checks of a waiting commit.
const BACK_PRESSURE_POLL: Duration = Duration::from_millis(1);
/// fjall's threads: one flushes memtables, one compacts.
const WORKERS: usize = 2;
/// The maximum number of table files that fjall keeps open.
///
/// The limits of other open files assume that the store needs at most twice as many descriptors.
const OPEN_FILES: usize = 128;
/// Bytes of a block: records are mostly read one at a time.
const BLOCK_BYTES: u32 = 4 * 1024;

/// Limits on the memory and the write-ahead log of the store.
#[derive(Debug, Clone, Copy)]
pub struct FjallOptions {
    /// Bytes of the block cache.
    pub cache_bytes: u64,
    /// Bytes of a keyspace's memtable before it is flushed to a table.
    ///
    /// A burst may take four times as much.
    pub memtable_bytes: u64,
    /// Bytes of write-ahead log beyond which memtables are flushed to shorten it; at least 64 MiB.
    /// It bounds both the log that a start reads and the memory of all memtables together.
    pub log_bytes: u64,
}

impl Default for FjallOptions {
    /// Returns a cache of 64 MiB, memtables of 32 MiB, and a log of 128 MiB.
    fn default() -> Self {
        Self { cache_bytes: 64 << 20, memtable_bytes: 32 << 20, log_bytes: 128 << 20 }
    }
}

/// An open database.
pub(super) struct TableDatabase {
    pub(super) database: Database,
    /// The keyspaces of the tables, in the order of `Table::ALL`.
    tables: Vec<Keyspace>,
}

impl TableDatabase {
    pub(super) fn open(dir: &std::path::Path, options: FjallOptions) -> Result<Self, StoreError> {
        let database = Database::builder(dir)
            .cache_size(options.cache_bytes)
            .max_journaling_size(options.log_bytes.max(64 << 20))
            .worker_threads(WORKERS)
            .max_cached_files(Some(OPEN_FILES))
            .open()
            .map_err(damaged_or_failed)?;
        let mut base = Self { database, tables: Vec::with_capacity(Table::ALL.len()) };
        for table in Table::ALL {
            let keyspace = base.keyspace(table.name(), options)?;
            base.tables.push(keyspace);
        }
        Ok(base)
    }

    /// Opens or creates a keyspace.
    pub(super) fn keyspace(
        &self,
        name: &str,
        options: FjallOptions,
    ) -> Result<Keyspace, StoreError> {
        // fjall is built without a codec, so nothing is compressed.
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(options.memtable_bytes)
                .data_block_size_policy(BlockSizePolicy::all(BLOCK_BYTES))
        };
        self.database.keyspace(name, options).map_err(damaged_or_failed)
    }

    pub(super) fn table(&self, table: Table) -> &Keyspace {
        // `Table::ALL` lists the variants in their order of declaration, which a test checks.
        &self.tables[table as usize]
    }

    pub(super) fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.table(table).get(key).map_err(damaged_or_failed)?;
        Ok(value.map(|value| value.to_vec()))
    }

    pub(super) fn value_bytes(&self, table: Table, key: &[u8]) -> Result<Option<u64>, StoreError> {
        let bytes = self.table(table).size_of(key).map_err(damaged_or_failed)?;
        Ok(bytes.map(u64::from))
    }

    /// Returns a batch of changes.
    pub(super) fn batch(
        &self,
        changes: &[Change],
        durability: PersistMode,
    ) -> Result<OwnedWriteBatch, StoreError> {
        let mut batch = self.database.batch().durability(Some(durability));
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
        Ok(batch)
    }

    /// Waits while a keyspace has too much to flush.
    ///
    /// Fails if fjall's workers have failed, because then it will never be flushed.
    pub(super) fn wait_for_capacity(&self, keyspace: &Keyspace) -> Result<(), StoreError> {
        while keyspace.sealed_memtable_count() >= SEALED_MEMTABLES_MAX
            || keyspace.l0_table_count() >= NEW_TABLES_MAX
        {
            // This writes nothing, and fails once a worker has failed.
            self.database.persist(PersistMode::Buffer).map_err(failed)?;
            std::thread::sleep(BACK_PRESSURE_POLL);
        }
        Ok(())
    }

    pub(super) fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        from: Option<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.scan_at(&self.database.snapshot(), (table, prefix), from, direction, visit)
    }

    /// Scans a snapshot.
    pub(super) fn scan_at(
        &self,
        snapshot: &Snapshot,
        (table, prefix): (Table, &[u8]),
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
        let mut records = snapshot.range::<&[u8], _>(self.table(table), (from, to));
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
}

/// Maps an error of a write. Whatever the error, the outcome of the write is unknown.
pub(super) fn failed(error: Error) -> StoreError {
    StoreError::Failed(error.to_string())
}

/// Maps an error of opening or reading, which may mean that the files are damaged.
pub(super) fn damaged_or_failed(error: Error) -> StoreError {
    match error {
        Error::Locked => StoreError::Locked,
        Error::Poisoned | Error::KeyspaceDeleted => failed(error),
        Error::Io(_) | Error::Storage(LsmError::Io(_)) if !is_garbage(&error) => failed(error),
        _ => StoreError::Damaged(error.to_string()),
    }
}

/// Returns whether an I/O error means that the bytes read were invalid or too few.
fn is_garbage(error: &Error) -> bool {
    use std::io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    let (Error::Io(error) | Error::Storage(LsmError::Io(error))) = error else {
        return false;
    };
    matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
}

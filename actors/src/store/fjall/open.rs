//! Opening the database, the first time and after a failure.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use ::fjall::config::BlockSizePolicy;
use ::fjall::{AbstractTree, Database, Keyspace, KeyspaceCreateOptions};
use parking_lot::Mutex;

use crate::store::{StoreError, Table};

use super::failure::damaged_or_failed;
use super::journal_size::JournalSize;
use super::{FjallOptions, Open, TRIMMED_KEY, number};

/// fjall's threads: one writes memtables out, one compacts.
const WORKERS: usize = 2;
/// fjall's lock, which we hold while no database is open.
const LOCK_FILE: &str = "lock";
/// What fjall's write-ahead logs are called, after their number.
const LOG_SUFFIX: &str = ".jnl";
/// A copy of one under way. fjall looks at no file with such a name.
const COPY_SUFFIX: &str = ".jnl.copy";
/// How often, and after which wait, a lock is tried that is just being released.
const LOCK_ATTEMPTS: (u32, Duration) = (100, Duration::from_millis(10));

impl Open {
    /// Opens or makes the database in `dir`.
    pub(super) fn first(dir: &Path, options: FjallOptions) -> Result<Self, StoreError> {
        fs::create_dir_all(dir).map_err(io_failed)?;
        Self::open_locked(dir, options, 1)
    }

    /// The same after this process closed it: waits a moment for the old one's end.
    pub(super) fn again(dir: &Path, options: FjallOptions) -> Result<Self, StoreError> {
        Self::open_locked(dir, options, LOCK_ATTEMPTS.0)
    }

    fn open_locked(dir: &Path, options: FjallOptions, attempts: u32) -> Result<Self, StoreError> {
        let lock = lock(dir, attempts)?;
        renew_log(dir).map_err(io_failed)?;
        // fjall takes the lock itself. A process that comes in between only makes this fail.
        drop(lock);
        // On files that make no sense fjall returns errors in most places and panics in some.
        let opened = catch_unwind(AssertUnwindSafe(|| Self::open_database(dir, options)));
        opened.unwrap_or_else(|_| Err(StoreError::Damaged("fjall cannot make sense of it".into())))
    }

    fn open_database(dir: &Path, options: FjallOptions) -> Result<Self, StoreError> {
        let database = Database::builder(dir)
            .cache_size(options.cache_bytes)
            .max_journaling_size(options.log_bytes.max(64 << 20))
            .worker_threads(WORKERS)
            .open()
            .map_err(damaged_or_failed)?;
        let keyspace = |name: &str, block_bytes: u32| {
            // Nothing is compressed: the crate is built without a codec.
            let options = || {
                KeyspaceCreateOptions::default()
                    .max_memtable_size(options.memtable_bytes)
                    .data_block_size_policy(BlockSizePolicy::all(block_bytes))
            };
            database.keyspace(name, options).map_err(damaged_or_failed)
        };
        // Frames are only ever read in long runs; records mostly one at a time.
        let journal = keyspace("journal", 64 * 1024)?;
        let journal_state = keyspace("journal-state", 4 * 1024)?;
        let [meta, workspaces, keys, buckets, events] =
            Table::ALL.map(|table| keyspace(table.name(), 4 * 1024));
        let tables = [meta?, workspaces?, keys?, buckets?, events?];
        let (trimmed, last) = positions(&journal, &journal_state)?;
        let bytes = journal.disk_space() + journal.tree.active_memtable().size();
        Ok(Self {
            database,
            journal,
            journal_state,
            tables,
            last: AtomicU64::new(last),
            trimmed: AtomicU64::new(trimmed),
            size: Mutex::new(JournalSize::new(trimmed, last, bytes)),
            buffer: Mutex::default(),
        })
    }
}

/// How far the journal was trimmed, and its last frame's number.
fn positions(journal: &Keyspace, journal_state: &Keyspace) -> Result<(u64, u64), StoreError> {
    let trimmed = journal_state.get(TRIMMED_KEY).map_err(damaged_or_failed)?;
    let trimmed = trimmed.map_or(Ok(0), |value| number(&value, "the trimmed position"))?;
    let last = match journal.last_key_value() {
        Some(last) => number(&last.key().map_err(damaged_or_failed)?, "a frame's key")?,
        None => 0,
    };
    // Trimmed frames are gone, all of them perhaps; their numbers are not used again.
    Ok((trimmed, last.max(trimmed)))
}

/// Takes fjall's lock, if there is a database.
fn lock(dir: &Path, attempts: u32) -> Result<Option<File>, StoreError> {
    let file = match OpenOptions::new().read(true).write(true).open(dir.join(LOCK_FILE)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_failed(error)),
    };
    for attempt in 1..=attempts {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::Error(error)) => return Err(io_failed(error)),
            Err(TryLockError::WouldBlock) if attempt < attempts => {
                std::thread::sleep(LOCK_ATTEMPTS.1)
            }
            Err(TryLockError::WouldBlock) => {}
        }
    }
    Err(StoreError::Locked)
}

/// Puts a fresh, synced copy in the place of the write-ahead log that was written last.
///
/// After an fsync has failed, the kernel may hold the pages it could not write for clean: they read
/// as written and no later fsync writes them. What is appended behind them and acknowledged would
/// be lost with them, for a log ends where it stops making sense. The copy has no such pages. It is
/// made at each opening, because the process in which the fsync failed may have ended since, and
/// nothing says so. Older logs were synced before the newer one was begun, and tables are synced
/// before anything refers to them.
fn renew_log(dir: &Path) -> io::Result<()> {
    let mut newest: Option<(u64, PathBuf)> = None;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.ends_with(COPY_SUFFIX) {
            fs::remove_file(entry.path())?;
        } else if let Some(id) = name.strip_suffix(LOG_SUFFIX).and_then(|id| id.parse().ok())
            && newest.as_ref().is_none_or(|(newest, _)| *newest < id)
        {
            newest = Some((id, entry.path()));
        }
    }
    let Some((id, log)) = newest else {
        return Ok(());
    };
    let copy = dir.join(format!("{id}{COPY_SUFFIX}"));
    let copied = copy_log(&log, &copy);
    if copied.is_err() {
        // On a full disk the half of a copy would be in the way of everything else.
        drop(fs::remove_file(&copy));
    }
    copied?;
    fs::rename(&copy, &log)?;
    File::open(dir)?.sync_all()
}

/// Copies a log but for the zeros behind its end: fjall makes it longer than it is, ahead of time.
fn copy_log(from: &Path, to: &Path) -> io::Result<()> {
    let mut from = File::open(from)?;
    let mut to = File::create(to)?;
    let mut block = vec![0; 128 * 1024];
    // Zeros that have been read and not written; they are, if something else follows.
    let mut zeros = 0u64;
    loop {
        let read = from.read(&mut block)?;
        let block = &block[..read];
        if read == 0 {
            break;
        }
        match block.iter().rposition(|&byte| byte != 0) {
            Some(_) => {
                io::copy(&mut io::repeat(0).take(zeros), &mut to)?;
                to.write_all(block)?;
                zeros = 0;
            }
            None => zeros += read as u64,
        }
    }
    // A few may belong to the last entry.
    io::copy(&mut io::repeat(0).take(zeros.min(4096)), &mut to)?;
    to.sync_all()
}

fn io_failed(error: io::Error) -> StoreError {
    StoreError::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_log_lacks_only_the_zeros_behind_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let mut log = vec![1; 1000];
        log.resize(500_000, 0);
        log.resize(6 * 128 * 1024, 2);
        // The last entry may end in zeros, right where a block is read.
        log.extend_from_slice(&[0; 5]);
        let end = log.len();
        log.resize(2_000_000, 0);
        fs::write(&from, &log).unwrap();
        copy_log(&from, &to).unwrap();
        let copy = fs::read(&to).unwrap();
        assert!((end..end + 200_000).contains(&copy.len()), "{}", copy.len());
        assert!(log.starts_with(&copy));
        fs::write(&from, [3; 128 * 1024]).unwrap();
        copy_log(&from, &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), [3; 128 * 1024]);
    }
}

//! Opens the database, the first time and after a failure, and creates it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::warn;

use super::log::{FORMAT, LogEnd, end_of};
use crate::StoreError;

/// fjall's lock file. This module locks it while no database is open.
const LOCK_FILE: &str = "lock";
/// The file that holds the version of fjall's format.
pub(super) const VERSION_FILE: &str = "version";
/// The suffix of fjall's write-ahead logs, after their number.
const LOG_SUFFIX: &str = ".jnl";
/// The suffix of an unfinished copy of a log. fjall ignores files with such a name.
const COPY_SUFFIX: &str = ".jnl.copy";
/// Attempts, and the delay between two, to take a lock that is just being released.
pub(super) const LOCK_ATTEMPTS: (u32, Duration) = (100, Duration::from_millis(10));

/// The number of attempts to take a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempts {
    One,
    /// Retries until a database that this process closed has ended.
    Many,
}

/// Fails if there is no database.
pub(super) fn must_exist(dir: &Path) -> Result<(), StoreError> {
    if dir.join(VERSION_FILE).try_exists().map_err(io_failed)? {
        return Ok(());
    }
    Err(StoreError::Failed(format!("there is no view in {}", dir.display())))
}

/// Creates the database in `dir`, unless it exists. The directory must be empty or missing.
///
/// fjall creates its files one by one in place, and after a crash between two of them it neither
/// continues nor starts again. So it creates them in a directory beside, which is renamed once it
/// is complete.
pub(super) fn create_if_missing(
    dir: &Path,
    create: impl FnOnce(&Path) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    if dir.join(VERSION_FILE).try_exists().map_err(io_failed)? {
        return Ok(());
    }
    let new = path_beside(dir);
    remove_attempt(&new)?;
    fs::create_dir_all(&new).map_err(io_failed)?;
    create(&new)?;
    // Once its lock is free, its threads have ended.
    drop(lock(&new, LOCK_ATTEMPTS.0)?);
    move_into_place(&new, dir).map_err(io_failed)
}

/// Removes the remains of a crash.
fn remove_attempt(new: &Path) -> Result<(), StoreError> {
    if !new.try_exists().map_err(io_failed)? {
        return Ok(());
    }
    drop(lock(new, 1)?);
    fs::remove_dir_all(new).map_err(io_failed)
}

fn move_into_place(new: &Path, dir: &Path) -> io::Result<()> {
    sync_all_in(new)?;
    fs::rename(new, dir)?;
    match dir.parent() {
        Some(parent) if parent != Path::new("") => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

fn sync_all_in(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_all_in(&entry.path())?;
        } else {
            File::open(entry.path())?.sync_all()?;
        }
    }
    File::open(dir)?.sync_all()
}

fn path_beside(dir: &Path) -> PathBuf {
    let mut name = dir.file_name().map(OsString::from).unwrap_or_default();
    name.push(".new");
    dir.with_file_name(name)
}

/// Opens the database in `dir` with renewed logs.
pub(super) fn open_locked<T>(
    dir: &Path,
    attempts: Attempts,
    open: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let attempts = if attempts == Attempts::One { 1 } else { LOCK_ATTEMPTS.0 };
    let lock = lock(dir, attempts)?;
    renew_logs(dir)?;
    // fjall takes the lock itself. If another process takes it first, opening fails.
    drop(lock);
    // On invalid files fjall returns errors in most places and panics in some.
    let opened = catch_unwind(AssertUnwindSafe(open));
    opened.unwrap_or_else(|_| Err(StoreError::Damaged("fjall cannot make sense of it".into())))
}

/// Takes fjall's lock. Returns `None` if there is no database.
pub(super) fn lock(dir: &Path, attempts: u32) -> Result<Option<File>, StoreError> {
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

/// Replaces the newest write-ahead log, and others with a torn end, by a synced copy.
///
/// The copy is fresh and has the whole batches. After a failed fsync the kernel may consider the
/// pages that it could not write clean. They read as written, and no later fsync writes them.
/// Commits that are appended behind them and acknowledged would be lost with them, because a log
/// ends at its first invalid batch. The copy has no such pages.
///
/// The end of an older log can be torn if a commit failed half-way and fjall began a new log before
/// it was closed.
fn renew_logs(dir: &Path) -> Result<(), StoreError> {
    // The format of another version's logs is unknown. fjall refuses them or reports what to do.
    if !is_of_known_version(dir).map_err(io_failed)? {
        return Ok(());
    }
    remove_copies(dir).map_err(io_failed)?;
    let mut logs = logs(dir).map_err(io_failed)?;
    logs.sort_unstable();
    let newest = logs.last().map(|(id, _)| *id);
    for (id, log) in logs {
        let LogEnd { whole, torn } = end_of(&log)?;
        if torn > 0 {
            let log = log.display();
            warn!(%log, at = whole, bytes = torn, "an unfinished write is cut off a log's end");
        }
        if torn > 0 || newest == Some(id) {
            renew_log(dir, id, &log, whole).map_err(io_failed)?;
        }
    }
    Ok(())
}

fn is_of_known_version(dir: &Path) -> io::Result<bool> {
    match fs::read(dir.join(VERSION_FILE)) {
        Ok(version) => Ok(version == FORMAT),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes unfinished copies.
fn remove_copies(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.ends_with(COPY_SUFFIX)) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Returns the logs and their numbers.
fn logs(dir: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut logs = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_suffix(LOG_SUFFIX)?.parse().ok());
        logs.extend(id.map(|id| (id, entry.path())));
    }
    Ok(logs)
}

/// Makes the system write the newest log to the disk, while fjall continues to append to it.
pub(super) fn sync_newest_log(dir: &Path) -> Result<(), StoreError> {
    let newest = logs(dir).map_err(io_failed)?.into_iter().max();
    // Between two logs there may be none for a moment.
    let Some((_, log)) = newest else { return Ok(()) };
    match File::open(log) {
        Ok(log) => log.sync_data().map_err(io_failed),
        // If the view is opened again meanwhile, that syncs the existing log. So does every later
        // sync.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io_failed(error)),
    }
}

fn renew_log(dir: &Path, id: u64, log: &Path, bytes: u64) -> io::Result<()> {
    let copy = dir.join(format!("{id}{COPY_SUFFIX}"));
    let copied = copy_start(log, &copy, bytes);
    if copied.is_err() {
        // On a full disk half a copy would take the space that everything else needs.
        drop(fs::remove_file(&copy));
    }
    copied?;
    fs::rename(&copy, log)?;
    File::open(dir)?.sync_all()
}

fn copy_start(from: &Path, to: &Path, bytes: u64) -> io::Result<()> {
    let mut to = File::create(to)?;
    io::copy(&mut File::open(from)?.take(bytes), &mut to)?;
    to.sync_all()
}

pub(super) fn io_failed(error: io::Error) -> StoreError {
    StoreError::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FjallOptions, FjallView, MarkedView, Position};

    #[test]
    fn what_a_crash_left_half_made_is_made_anew() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("view");
        let whole = parent.path().join("whole");
        drop(FjallView::open(&whole, FjallOptions::default()).unwrap());
        let new = path_beside(&dir);
        for left in ["lock", "0.jnl", "version"] {
            fs::create_dir_all(new.join("keyspaces/0")).unwrap();
            fs::copy(whole.join(left), new.join(left)).unwrap();
            let view = FjallView::open(&dir, FjallOptions::default()).unwrap();
            assert_eq!(view.synced(), Ok(Position::START));
            assert!(!new.exists());
            drop(view);
            fs::remove_dir_all(&dir).unwrap();
        }
    }
}

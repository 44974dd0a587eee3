//! Creates the database atomically: whole, or not at all.
//!
//! fjall creates its files one by one in place, and after a crash between two of them it neither
//! continues nor starts again. So it creates them in a directory beside, which is renamed once it
//! is complete.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::StoreError;

use super::open::{LOCK_ATTEMPTS, VERSION_FILE, io_failed, lock};

/// Creates the database in `dir`, unless it exists. The directory must be empty or missing.
pub(super) fn create_if_missing(
    dir: &Path,
    create: impl FnOnce(&Path) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    if dir.join(VERSION_FILE).try_exists().map_err(io_failed)? {
        return Ok(());
    }
    let new = beside(dir);
    clear(&new)?;
    fs::create_dir_all(&new).map_err(io_failed)?;
    create(&new)?;
    // Once its lock is free, its threads have ended.
    drop(lock(&new, LOCK_ATTEMPTS.0)?);
    finish(&new, dir).map_err(io_failed)
}

/// Removes the remains of a crash.
fn clear(new: &Path) -> Result<(), StoreError> {
    if !new.try_exists().map_err(io_failed)? {
        return Ok(());
    }
    drop(lock(new, 1)?);
    fs::remove_dir_all(new).map_err(io_failed)
}

fn finish(new: &Path, dir: &Path) -> io::Result<()> {
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

fn beside(dir: &Path) -> PathBuf {
    let mut name = dir.file_name().map(OsString::from).unwrap_or_default();
    name.push(".new");
    dir.with_file_name(name)
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
        let new = beside(&dir);
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

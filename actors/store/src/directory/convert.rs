//! Turns a directory of format 1 into one with a log and a view.
//!
//! Format 1 has frames and records in one database, `store/`. Its records become the view, and its
//! frames a snapshot; the log begins behind the last frame. Until the rename nothing of format 1
//! is changed but by additions that it does not see, so that a start after a crash begins anew.

use std::fs::{self, File};
use std::path::Path;

use postrider_log::{EntryHash, FileLog, FileOptions, LogId, Mark, Start};

use super::{DirectoryError, DirectoryOptions, Fold, LOG, SNAPSHOTS, STORE, VIEW, failed};
use crate::fjall::{FjallStore, FjallView};
use crate::snapshot::SnapshotDir;
use crate::{
    DirectorySpace, EPOCH_KEY, FreeSpace, Log, MarkedView, Position, StoreError, Table, View,
    epoch_of,
};

/// Where a crash in the midst of a conversion is tried.
#[cfg(test)]
pub(super) const STEPS: [&str; 5] = ["begin", "snapshot", "log", "marked", "renamed"];

/// Converts the directory.
pub(super) fn convert(
    dir: &Path,
    options: &DirectoryOptions,
    fold: Fold<'_>,
) -> Result<(), DirectoryError> {
    has_space(dir, options)?;
    tracing::info!(dir = %dir.display(), "the data directory is converted from format 1");
    forget_attempt(dir)?;
    step("begin")?;
    let (last, epoch) = fold_frames(dir, options, fold)?;
    step("snapshot")?;
    let log = LogId(options.log_id);
    let files = FileOptions { segment_bytes: options.segment_bytes, ..FileOptions::default() };
    let start = Start { id: log, shard: 0, after: last, epoch };
    drop(FileLog::open(&dir.join(LOG), files, start).map_err(StoreError::from)?);
    step("log")?;
    let view = FjallView::open_again(&dir.join(STORE), options.view)?;
    view.begin(log, &Mark { position: last, epoch, hash: EntryHash::NONE })?;
    drop(view);
    step("marked")?;
    let renamed = fs::rename(dir.join(STORE), dir.join(VIEW)).and_then(|()| sync(dir));
    renamed.map_err(|source| failed("`store` cannot be renamed to `view`", source))?;
    step("renamed")?;
    tracing::info!(last = last.0, epoch, "the data directory is converted");
    Ok(())
}

/// Refuses a conversion that the disk has no space for.
fn has_space(dir: &Path, options: &DirectoryOptions) -> Result<(), DirectoryError> {
    // Two segments, and a snapshot, which is about as large as the ones before it.
    let needed = 2 * options.segment_bytes + bytes_of(&dir.join(SNAPSHOTS));
    let free = DirectorySpace(dir.to_owned()).free_bytes()?;
    if free < needed { Err(DirectoryError::NoSpace { needed, free }) } else { Ok(()) }
}

/// The bytes of all files below; 0 for what cannot be read.
fn bytes_of(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else {
        return fs::metadata(path).map_or(0, |file| file.len());
    };
    entries.filter_map(Result::ok).map(|entry| bytes_of(&entry.path())).sum()
}

/// Removes the log of an attempt that did not come to its end.
fn forget_attempt(dir: &Path) -> Result<(), DirectoryError> {
    let log = dir.join(LOG);
    if !log.exists() {
        return Ok(());
    }
    let removed = fs::remove_dir_all(log).and_then(|()| sync(dir));
    removed.map_err(|source| failed("`log` of an unfinished conversion cannot be removed", source))
}

/// Writes the snapshot at the last frame. Returns the frame's number and the epoch.
fn fold_frames(
    dir: &Path,
    options: &DirectoryOptions,
    fold: Fold<'_>,
) -> Result<(Position, u64), DirectoryError> {
    let store = FjallStore::open_existing(&dir.join(STORE), options.view)?;
    let snapshots = SnapshotDir::open(dir.join(SNAPSHOTS))?;
    let last = store.last_position()?;
    let epoch = epoch_of(store.get(Table::Meta, EPOCH_KEY)?)?;
    if last > Position::START && snapshots.load()?.position != last {
        fold(&snapshots, &store)?;
        let newest = snapshots.load()?.position;
        if newest != last {
            let what = format!("the snapshot of {last} was not made; the newest is of {newest}");
            return Err(DirectoryError::Unclear(what));
        }
    }
    Ok((last, epoch))
}

fn sync(dir: &Path) -> std::io::Result<()> {
    File::open(dir)?.sync_all()
}

/// A step is done. Tests end the conversion here.
#[cfg(not(test))]
#[expect(clippy::unnecessary_wraps, reason = "a test has it fail")]
const fn step(_name: &'static str) -> Result<(), DirectoryError> {
    Ok(())
}

#[cfg(test)]
pub(super) use tests_only::{end_at, step};

#[cfg(test)]
mod tests_only {
    use std::cell::Cell;

    use super::DirectoryError;

    thread_local! {
        static END: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    /// Has conversions of this thread end at a step.
    pub(in super::super) fn end_at(name: Option<&'static str>) {
        END.set(name);
    }

    pub(in super::super) fn step(name: &'static str) -> Result<(), DirectoryError> {
        let ends = END.get() == Some(name);
        if ends { Err(DirectoryError::Unclear(format!("it ended at {name}"))) } else { Ok(()) }
    }
}

//! The data directory: its format, and the log, the view and the snapshots in it.
//!
//! `format` holds the number of the layout. `log/` has the log, `view/` the records, `snapshots/`
//! what actors keep in memory.

pub(crate) mod rebuild;

#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use crate::checkpoints::{CheckpointDir, CheckpointError};
use crate::fjall::FjallView;
use crate::log_store::{LogStore, Writes};
use crate::snapshot::{SnapshotDir, SnapshotError};
use crate::{FjallOptions, MarkedView, StoreError};
use rebuild::Rebuilding;

/// The format that this version writes, and the only one that it reads.
pub const FORMAT: u64 = 1;

pub(crate) const FORMAT_FILE: &str = "format";
pub(crate) const LOG: &str = "log";
pub(crate) const VIEW: &str = "view";
pub(crate) const SNAPSHOTS: &str = "snapshots";
pub(crate) const CHECKPOINTS: &str = "checkpoints";
/// The contents of files, in a data directory and in a backup.
pub const MEDIA: &str = "media";
/// The directory in which an import creates the data to move. Without a view it is unfinished.
pub(crate) const IMPORT: &str = "import.tmp";
/// The file that asks a start to hold everything back.
const HELD: &str = "held";
/// The file of a repair that exchanges names.
pub(crate) const REPAIR: &str = "repair";

/// The options for opening a data directory.
#[derive(Debug, Clone)]
pub struct DirectoryOptions {
    /// The identity of the writer.
    pub writes: Writes,
    /// The identity of a log that has to be created: random bytes.
    pub log_id: [u8; 16],
    /// The length of a segment of the log.
    pub segment_bytes: u64,
    /// The options of the view.
    pub view: FjallOptions,
}

/// The reason why a data directory cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The log or the view.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The snapshots.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The checkpoints.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A newer version wrote it.
    #[error("the data directory has format {found}; this version knows format {FORMAT}")]
    NewerFormat {
        /// Its format.
        found: u64,
    },
    /// It has contents that no version leaves behind.
    #[error("the data directory cannot be used: {0}")]
    Unclear(String),
    /// A file of it cannot be read or written.
    #[error("{what}: {source}")]
    File {
        /// The operation that failed.
        what: String,
        /// The cause.
        source: io::Error,
    },
}

/// Opens the directory for writing, and makes what is missing.
pub fn open(
    dir: &Path,
    options: &DirectoryOptions,
) -> Result<(LogStore, SnapshotDir), DirectoryError> {
    open_reporting(dir, options, &Rebuilding::default())
}

/// Does the same, and reports the progress of a view that is rebuilt.
pub fn open_reporting(
    dir: &Path,
    options: &DirectoryOptions,
    rebuilding: &Rebuilding,
) -> Result<(LogStore, SnapshotDir), DirectoryError> {
    fs::create_dir_all(dir).map_err(|source| failed("the directory cannot be made", source))?;
    let is_new = !has_data(dir)?;
    put_format(dir)?;
    let path = dir.join(VIEW);
    let view = if is_new {
        FjallView::open(&path, options.view)
    } else if FjallView::is_there(&path) {
        FjallView::open_existing(&path, options.view)
    } else {
        Err(StoreError::Damaged("the view is missing".into()))
    };
    let store = rebuild::open_or_rebuild(dir, options, view, rebuilding)?;
    Ok((store.syncing()?, SnapshotDir::open(dir.join(SNAPSHOTS))?))
}

/// Rebuilds the view if one of its records cannot be read. Returns whether it did.
///
/// A start calls it after it found damage and closed everything.
///
/// # Errors
/// See [`DirectoryError`]; [`StoreError::Damaged`] when nothing leads to a view.
pub fn rebuild_if_unreadable(
    dir: &Path,
    options: &DirectoryOptions,
    rebuilding: &Rebuilding,
) -> Result<bool, DirectoryError> {
    rebuild::rebuild_if_unreadable(dir, options, rebuilding)
}

/// Opens the directory while no server runs on it. A caller must begin an epoch before it commits.
///
/// # Errors
/// [`StoreError::Failed`] when there is no data; others of [`DirectoryError`].
pub fn open_stopped(dir: &Path) -> Result<LogStore, DirectoryError> {
    if !has_data(dir)? {
        let none = format!("there is no data in {}", dir.display());
        return Err(StoreError::Failed(none).into());
    }
    let options = DirectoryOptions {
        writes: Writes::default(),
        log_id: [0; 16],
        segment_bytes: 1 << 20,
        view: FjallOptions::default(),
    };
    let view = FjallView::open_existing(&dir.join(VIEW), options.view)?;
    let log = rebuild::open_log(dir, &options, view.applied()?.position)?;
    Ok(LogStore::open(Arc::new(log), Arc::new(view), options.writes)?)
}

/// Returns the snapshots in a directory.
///
/// # Errors
/// Those of [`SnapshotDir::open`].
pub fn snapshots(dir: &Path) -> Result<SnapshotDir, DirectoryError> {
    Ok(SnapshotDir::open(dir.join(SNAPSHOTS))?)
}

/// Returns the checkpoints in a directory.
#[must_use]
pub fn checkpoints(dir: &Path) -> CheckpointDir {
    CheckpointDir::at(&dir.join(CHECKPOINTS))
}

/// Returns whether an import into the directory was not completed.
pub(crate) fn is_unfinished(dir: &Path) -> bool {
    dir.join(IMPORT).exists() && !dir.join(VIEW).exists()
}

/// Returns whether there is data in the directory.
///
/// # Errors
/// [`DirectoryError`] when this version cannot use what is in it.
pub(crate) fn has_data(dir: &Path) -> Result<bool, DirectoryError> {
    if dir.join(REPAIR).exists() {
        let unfinished = "a repair of it did not come to its end: run `postrider repair` again";
        return Err(DirectoryError::Unclear(unfinished.into()));
    }
    if is_unfinished(dir) {
        let what = format!(
            "an import or a restore into it did not come to its end: run it again, or remove what \
             it left, which is `{IMPORT}` and what is beside it but the keys"
        );
        return Err(DirectoryError::Unclear(what));
    }
    match format_of(dir)? {
        Some(found) if found > FORMAT => Err(DirectoryError::NewerFormat { found }),
        Some(FORMAT) => Ok(true),
        Some(other) => Err(DirectoryError::Unclear(format!("there is no format {other}"))),
        None => Ok(dir.join(VIEW).is_dir()),
    }
}

/// Returns whether the file exists that asks a start to let nothing out.
///
/// # Errors
/// [`DirectoryError::File`] if that cannot be determined.
pub fn asks_to_hold(dir: &Path) -> Result<bool, DirectoryError> {
    let found = dir.join(HELD).try_exists();
    found.map_err(|source| failed("the file `held` cannot be looked for", source))
}

/// Removes the file that asks for the hold, durably.
///
/// # Errors
/// [`DirectoryError::File`] when it cannot be removed.
pub fn forget_asked_to_hold(dir: &Path) -> Result<(), DirectoryError> {
    let removed = fs::remove_file(dir.join(HELD)).and_then(|()| File::open(dir)?.sync_all());
    removed.map_err(|source| failed("the file `held` cannot be removed", source))
}

/// Returns the number in the file `format`.
fn format_of(dir: &Path) -> Result<Option<u64>, DirectoryError> {
    let text = match fs::read_to_string(dir.join(FORMAT_FILE)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(failed("the file `format` cannot be read", source)),
    };
    let unclear = || DirectoryError::Unclear("the file `format` holds no number".into());
    text.trim().parse().map(Some).map_err(|_| unclear())
}

/// Writes the format. Versions that do not know it then refuse the directory.
pub(crate) fn put_format(dir: &Path) -> Result<(), DirectoryError> {
    if format_of(dir)?.is_none() {
        put(dir, FORMAT_FILE, &FORMAT.to_string())?;
    }
    Ok(())
}

/// Creates a file of one line, whole or not at all, durably.
pub(crate) fn put(dir: &Path, name: &str, line: &str) -> Result<(), DirectoryError> {
    let new = dir.join(format!(".{name}.new"));
    let written = File::create(&new).and_then(|mut file| {
        writeln!(file, "{line}")?;
        file.sync_all()?;
        fs::rename(&new, dir.join(name))?;
        File::open(dir)?.sync_all()
    });
    written.map_err(|source| failed(&format!("the file `{name}` cannot be made"), source))
}

/// Returns the error for a file that cannot be read or written.
pub(crate) fn failed(what: &str, source: io::Error) -> DirectoryError {
    DirectoryError::File { what: what.into(), source }
}

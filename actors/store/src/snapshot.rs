//! Snapshots of the hot state shorten the replay of the journal, and do nothing else.
//!
//! A generation is one directory that is written once: a sled database with the content, and a
//! manifest of its files. It gets its final name only after it was closed, synced and verified.
//! sled changes the files of a database that it opens and may hang on damaged ones. So it only
//! opens copies, and only of files that match the manifest.
//!
//! The last two generations are kept. If one is damaged or missing, the replay takes longer.

mod generation;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use tracing::warn;

use postrider_domain::{Timestamp, WorkspaceId};

use crate::Position;

/// The name of a generation's directory, before its position in 16 hexadecimal digits.
const PREFIX: &str = "gen-";
/// The suffix of directories that are being written, read or removed. Opening deletes them.
const TEMPORARY: &str = ".tmp";

/// The reason why a snapshot could not be written, or the directory not be read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The disk failed.
    #[error("the snapshots' directory: {0}")]
    Io(#[from] io::Error),
    /// The snapshot's database failed, or its content differs from the written content.
    #[error("a snapshot is damaged: {0}")]
    Damaged(String),
}

/// The snapshot with which recovery starts.
#[derive(Debug)]
pub struct LoadedSnapshot {
    /// The position after which frames must be replayed. [`Position::START`] without a snapshot.
    pub position: Position,
    /// Each workspace's state, in the order in which it was written.
    pub entries: Vec<(WorkspaceId, Vec<u8>)>,
    /// The generations that were skipped and why, for an operator.
    pub warnings: Vec<String>,
}

/// One generation of a directory, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenerationCheck {
    /// The name of its directory.
    pub name: String,
    /// Its position.
    pub position: Position,
    /// The bytes of its files.
    pub bytes: u64,
    /// Its problem, if there is one.
    pub problem: Option<String>,
}

/// Reads all generations of a directory, the newest one first.
///
/// The copies for the reading are removed again; nothing else is changed.
///
/// # Errors
/// [`SnapshotError::Io`] when the directory cannot be read, or a copy in it cannot be written.
pub fn check(dir: &Path) -> Result<Vec<GenerationCheck>, SnapshotError> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let snapshots = SnapshotDir { dir: dir.to_owned(), busy: Mutex::new(()) };
    let mut checked = Vec::new();
    for (position, path) in snapshots.generations()? {
        let problem = match snapshots.read(position, &path, &mut |_, _| ()) {
            Ok(_) => None,
            Err(SnapshotError::Damaged(why)) => Some(why),
            Err(error @ SnapshotError::Io(_)) => return Err(error),
        };
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let (name, bytes) = (name.unwrap_or_default(), generation::total_bytes(&path));
        checked.push(GenerationCheck { name, position, bytes, problem });
    }
    Ok(checked)
}

/// Returns the position of the newest finished generation, whatever its state.
///
/// # Errors
/// [`SnapshotError::Io`] when the directory cannot be read.
pub(crate) fn newest_position(dir: &Path) -> Result<Option<Position>, SnapshotError> {
    if !dir.is_dir() {
        return Ok(None);
    }
    let snapshots = SnapshotDir { dir: dir.to_owned(), busy: Mutex::new(()) };
    Ok(snapshots.generations()?.first().map(|(position, _)| *position))
}

/// The directory of the generations.
///
/// Its methods block until all of a snapshot is written or read.
pub struct SnapshotDir {
    dir: PathBuf,
    /// One snapshot is written or read at a time.
    busy: Mutex<()>,
}

impl SnapshotDir {
    /// Creates the directory if it is missing, and removes unfinished generations.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SnapshotError> {
        let dir = path.as_ref().to_owned();
        fs::create_dir_all(&dir)?;
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().ends_with(TEMPORARY) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(Self { dir, busy: Mutex::new(()) })
    }

    /// Writes a generation: the state after all frames up to `position`.
    ///
    /// Returns the position through which the journal may be trimmed. It is that of the older one
    /// of the two generations that are kept, or [`Position::START`] while no older one is whole.
    ///
    /// # Errors
    /// When the generation cannot be written or verified. Earlier generations stay.
    pub fn write(
        &self,
        position: Position,
        entries: impl Iterator<Item = (WorkspaceId, Vec<u8>)>,
    ) -> Result<Position, SnapshotError> {
        let _busy = self.busy.lock();
        let name = format!("{PREFIX}{:016x}", position.0);
        let temporary = self.create_temporary(&name)?;
        let written = self.write_and_verify(position, &temporary, entries);
        if written.is_err() {
            self.remove(&temporary);
        }
        written?;
        let finished = self.dir.join(&name);
        if finished.exists() {
            // While it is being replaced, a crash falls back to the older generation.
            self.remove(&finished);
        }
        fs::rename(&temporary, &finished)?;
        generation::sync_dir(&self.dir)?;
        self.keep_one_before(position)
    }

    /// Removes all generations.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub(crate) fn clear(&self) -> Result<(), SnapshotError> {
        let _busy = self.busy.lock();
        for (_, path) in self.generations()? {
            // A half-removed one does not count.
            let doomed = path.with_extension("old.tmp");
            fs::rename(&path, &doomed)?;
            fs::remove_dir_all(&doomed)?;
        }
        Ok(generation::sync_dir(&self.dir)?)
    }

    fn write_and_verify(
        &self,
        position: Position,
        temporary: &Path,
        entries: impl Iterator<Item = (WorkspaceId, Vec<u8>)>,
    ) -> Result<(), SnapshotError> {
        let written =
            generation::write_database(&temporary.join(generation::DATABASE), position, entries)?;
        generation::seal(temporary)?;
        let read = self.read(position, temporary, &mut |_, _| ())?;
        if read != written {
            return Err(SnapshotError::Damaged("it does not read as it was written".into()));
        }
        Ok(())
    }

    /// Removes all generations but the one at `position` and the first whole one before it.
    ///
    /// Returns the latter's position.
    fn keep_one_before(&self, position: Position) -> Result<Position, SnapshotError> {
        let mut kept = None;
        for (other, path) in self.generations()? {
            if other == position {
                continue;
            }
            if other < position && kept.is_none() {
                match generation::check_files(&path) {
                    Ok(()) => {
                        kept = Some(other);
                        continue;
                    }
                    Err(error) => warn!(%error, position = other.0, "an old snapshot is damaged"),
                }
            }
            self.remove(&path);
        }
        Ok(kept.unwrap_or(Position::START))
    }

    /// Reads the newest whole generation, if there is one.
    ///
    /// Damaged ones are logged, reported and skipped.
    ///
    /// # Errors
    /// [`SnapshotError::Io`] when the directory cannot be read, or a copy in it cannot be written.
    pub fn load(&self) -> Result<LoadedSnapshot, SnapshotError> {
        let _busy = self.busy.lock();
        let mut warnings = Vec::new();
        for (position, path) in self.generations()? {
            let mut entries = Vec::new();
            match self.read(position, &path, &mut |id, entry| entries.push((id, entry))) {
                Ok(_) => {
                    return Ok(LoadedSnapshot { position, entries, warnings });
                }
                Err(SnapshotError::Damaged(why)) => {
                    warn!(position = position.0, %why, "a snapshot is damaged and passed over");
                    warnings.push(format!("the snapshot at {}: {why}", position.0));
                }
                Err(error @ SnapshotError::Io(_)) => return Err(error),
            }
        }
        Ok(LoadedSnapshot { position: Position::START, entries: Vec::new(), warnings })
    }

    /// Returns the time of writing of the newest generation, by the file system, and its bytes.
    ///
    /// `None` while there is none. Its content is not read.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub fn newest(&self) -> Result<Option<(Timestamp, u64)>, SnapshotError> {
        let Some((_, path)) = self.generations()?.into_iter().next() else { return Ok(None) };
        let written = fs::metadata(&path)?;
        let millis = written.mtime().saturating_mul(1000) + written.mtime_nsec() / 1_000_000;
        let at = Timestamp::from_millis(u64::try_from(millis).unwrap_or_default());
        Ok(Some((at, generation::total_bytes(&path))))
    }

    /// Reads a generation from a copy that sled may change.
    fn read(
        &self,
        position: Position,
        generation: &Path,
        visit: generation::VisitState<'_>,
    ) -> Result<generation::DatabaseSummary, SnapshotError> {
        let copy = self.create_temporary("read")?;
        let outcome = generation::copy_checked(generation, &copy).and_then(|()| {
            generation::read_database(&copy.join(generation::DATABASE), position, visit)
        });
        self.remove(&copy);
        outcome
    }

    /// Returns the finished generations, newest first.
    fn generations(&self) -> Result<Vec<(Position, PathBuf)>, SnapshotError> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let digits = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
            let digits = digits.filter(|digits| digits.len() == 16);
            if let Some(at) = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
                found.push((Position(at), entry.path()));
            }
        }
        found.sort_unstable_by_key(|&(position, _)| std::cmp::Reverse(position));
        Ok(found)
    }

    /// Creates an empty temporary directory and returns its path.
    fn create_temporary(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.dir.join(format!("{name}{TEMPORARY}"));
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir(&path)?;
        Ok(path)
    }

    /// Removes a directory so that a reader never takes a half-removed one for a generation.
    ///
    /// After a failure the next opening removes it.
    fn remove(&self, path: &Path) {
        let mut doomed = path.to_owned();
        if path.extension().is_none() {
            doomed.set_extension("old.tmp");
        }
        let renamed = if doomed == path { Ok(()) } else { fs::rename(path, &doomed) };
        if let Err(error) = renamed.and_then(|()| fs::remove_dir_all(&doomed)) {
            warn!(%error, path = %path.display(), "an old snapshot cannot be removed");
        }
    }
}

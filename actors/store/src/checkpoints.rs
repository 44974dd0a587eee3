//! Checkpoints: archives of the whole state, from which the view is rebuilt with the log.
//!
//! A checkpoint gets its name only after it was synced and read back. The newest is kept, and the
//! newest whole one before it, so that one damaged checkpoint costs a longer replay of the log.

#[cfg(test)]
pub(crate) mod tests;

use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

use postrider_domain::WorkspaceId;
use postrider_log::{Log, LogId, Mark, Witness, check_witness};

use crate::archive::{ArchiveError, ArchiveHeader, ArchiveReader, Row};
use crate::whole_file::{self, PART, sync_dir};
use crate::{Change, MarkedView, Position, StoreError};

/// The suffix of a checkpoint, after its position in 20 digits.
const SUFFIX: &str = ".ckpt";
/// The name of a checkpoint that is being written.
const NEW: &str = "new.ckpt.part";
/// The number of checkpoints that are kept.
const KEPT: usize = 2;

/// The steps at which tests simulate a crash.
#[cfg(test)]
pub(crate) const STEPS: [&str; 4] = ["begin", "written", "verified", "renamed"];

/// The reason why a checkpoint could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A file cannot be read or written.
    #[error("{file}: {source}")]
    Io {
        /// The file or directory.
        file: String,
        /// The cause.
        source: io::Error,
    },
    /// Its bytes are not those that were written.
    #[error("{file} is {source}")]
    Archive {
        /// The file.
        file: String,
        /// The problem.
        source: ArchiveError,
    },
    /// The source of the checkpoint cannot be read.
    #[error("{0}")]
    Source(String),
    /// It was ended by a stop, or because the disk is nearly full.
    #[error("it was given up: {0}")]
    GivenUp(String),
}

impl CheckpointError {
    fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { file: path.display().to_string(), source }
    }

    fn archive(path: &Path, source: ArchiveError) -> Self {
        match source {
            ArchiveError::Io(source) => Self::io(path, source),
            source => Self::Archive { file: path.display().to_string(), source },
        }
    }
}

/// Called with the rows of each block, and with the number of bytes read by then.
pub type VisitRows<'a, E> = &'a mut dyn FnMut(&ArchiveHeader, Vec<Row>, u64) -> Result<(), E>;

/// A checkpoint's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The position in its name.
    pub position: Position,
    /// Its length.
    pub bytes: u64,
    /// Its path.
    pub path: PathBuf,
}

impl Checkpoint {
    /// Returns its origin. Nothing behind its header is checked.
    pub fn header(&self) -> Result<ArchiveHeader, CheckpointError> {
        Ok(self.reader()?.header().clone())
    }

    /// Removes its file.
    pub fn remove(&self) -> Result<(), CheckpointError> {
        std::fs::remove_file(&self.path).map_err(|error| CheckpointError::io(&self.path, error))
    }

    fn reader(&self) -> Result<ArchiveReader<BufReader<File>>, CheckpointError> {
        let file =
            File::open(&self.path).map_err(|error| CheckpointError::io(&self.path, error))?;
        let reader = ArchiveReader::new(BufReader::with_capacity(1 << 20, file));
        let reader = reader.map_err(|error| CheckpointError::archive(&self.path, error))?;
        let at = reader.header().at.position;
        if at == self.position {
            return Ok(reader);
        }
        let what = "it is of another position than its name says";
        let wrong = ArchiveError::Damaged { offset: 0, what };
        Err(CheckpointError::archive(&self.path, wrong))
    }

    /// Reads all of it. The visited rows are valid only if this succeeds.
    ///
    /// # Errors
    /// [`CheckpointError`], and those of `visit`.
    pub fn read<E: From<CheckpointError>>(
        &self,
        visit: VisitRows<'_, E>,
    ) -> Result<ArchiveHeader, E> {
        let damaged = |error| CheckpointError::archive(&self.path, error);
        let mut reader = self.reader()?;
        let header = reader.header().clone();
        while let Some(rows) = reader.next_rows().map_err(damaged)? {
            visit(&header, rows, reader.offset())?;
        }
        Ok(header)
    }

    /// Loads its records into a view, and returns their mark.
    ///
    /// # Errors
    /// [`CheckpointError`], and those of the view. The records in the view are valid only if this
    /// succeeds.
    pub(crate) fn load_into<E: From<CheckpointError> + From<StoreError>>(
        &self,
        view: &dyn MarkedView,
        report: &mut dyn FnMut(u64) -> Result<(), E>,
    ) -> Result<Mark, E> {
        let header = self.read::<E>(&mut |header, rows, read| {
            let records = rows.into_iter().filter_map(|row| match row {
                Row::Record(table, key, value) => Some(Change::put(table, key, value)),
                Row::State(..) => None,
            });
            view.apply(&header.at, &records.collect::<Vec<_>>())?;
            report(read)
        })?;
        Ok(header.at)
    }

    /// Returns the states in the actors' memory, by workspace.
    ///
    /// # Errors
    /// [`CheckpointError`], also after the work was given up.
    pub fn states(
        &self,
        gives_up: &dyn Fn() -> bool,
    ) -> Result<Vec<(WorkspaceId, Vec<u8>)>, CheckpointError> {
        let mut states = Vec::new();
        self.read::<CheckpointError>(&mut |_, rows, _| {
            fail_if_given_up(gives_up)?;
            for row in rows {
                let Row::State(workspace, state) = row else { continue };
                let id = std::str::from_utf8(&workspace).ok().and_then(|id| id.parse().ok());
                let named = || CheckpointError::Source("it names no workspace".to_owned());
                states.push((id.ok_or_else(named)?, state.to_vec()));
            }
            Ok(())
        })?;
        Ok(states)
    }

    /// Writes its bytes as they are. Returns `false` if a newer one has replaced it.
    ///
    /// # Errors
    /// It cannot be read, or `out` failed.
    pub fn copy_to(&self, out: &mut dyn Write) -> io::Result<bool> {
        match File::open(&self.path) {
            Ok(mut file) => io::copy(&mut file, out).map(|_| true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Fails unless it belongs to this log and the log continues from it.
    pub fn must_lead_to(&self, log: &dyn Log) -> Result<Mark, CheckpointError> {
        let (file, header) = (self.path.display(), self.header()?);
        let wrong = |what: String| CheckpointError::Source(format!("{file}: {what}"));
        if header.log != log.id() {
            return Err(wrong("it is of another log".into()));
        }
        match check_witness(log, &header.at) {
            Ok(Witness::Fits) => Ok(header.at),
            Ok(Witness::OtherHistory) => Err(wrong("the log has another entry there".into())),
            Err(error) => Err(wrong(error.to_string())),
        }
    }

    /// Reads all of it, and returns its origin.
    pub fn verify(&self) -> Result<ArchiveHeader, CheckpointError> {
        self.read(&mut |_, _, _| Ok(()))
    }
}

/// Fails once the work is given up.
pub(crate) fn fail_if_given_up(gives_up: &dyn Fn() -> bool) -> Result<(), CheckpointError> {
    let given_up = || CheckpointError::GivenUp("the checkpoint was not read to its end".to_owned());
    if gives_up() { Err(given_up()) } else { Ok(()) }
}

/// A written checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The file.
    pub checkpoint: Checkpoint,
    /// Its origin.
    pub header: ArchiveHeader,
    /// The position after which the log must stay.
    pub log_needed_after: Position,
}

/// The directory of the checkpoints. One thread at a time writes to it.
#[derive(Debug, Clone)]
pub struct CheckpointDir {
    dir: PathBuf,
}

impl CheckpointDir {
    /// Returns the directory, which may be missing as long as nothing is written.
    #[must_use]
    pub fn at(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// Returns the place of a position's checkpoint.
    #[must_use]
    pub fn place_for(&self, position: Position) -> Checkpoint {
        let path = self.dir.join(format!("{:020}{SUFFIX}", position.0));
        Checkpoint { position, bytes: 0, path }
    }

    /// Creates the directory if it is missing, and removes the unfinished files of a crash.
    ///
    /// # Errors
    /// [`CheckpointError::Io`].
    pub fn prepare(&self) -> Result<(), CheckpointError> {
        let failed = |error| CheckpointError::io(&self.dir, error);
        if !self.dir.is_dir() {
            fs::create_dir_all(&self.dir).map_err(failed)?;
            sync_dir(self.dir.parent().unwrap_or(Path::new("."))).map_err(failed)?;
        }
        for entry in fs::read_dir(&self.dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name().to_string_lossy().ends_with(PART) {
                fs::remove_file(entry.path()).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Returns the finished checkpoints, the newest one first.
    ///
    /// # Errors
    /// [`CheckpointError::Io`].
    pub fn all(&self) -> Result<Vec<Checkpoint>, CheckpointError> {
        let failed = |error| CheckpointError::io(&self.dir, error);
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let digits = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            let digits = digits.filter(|digits| digits.len() == 20);
            if let Some(position) = digits.and_then(|digits| digits.parse().ok()) {
                let bytes = entry.metadata().map_err(failed)?.len();
                found.push(Checkpoint { position: Position(position), bytes, path: entry.path() });
            }
        }
        found.sort_unstable_by_key(|checkpoint| std::cmp::Reverse(checkpoint.position));
        Ok(found)
    }

    /// Returns the position after which the log must stay for the kept checkpoints.
    ///
    /// It is the position of the older checkpoint. A single checkpoint may be damaged, so the log
    /// stays whole until there are two.
    ///
    /// # Errors
    /// [`CheckpointError::Io`].
    pub fn log_needed_after(&self) -> Result<Position, CheckpointError> {
        let older = self.all()?.into_iter().nth(KEPT - 1);
        Ok(older.map_or(Position::START, |older| older.position))
    }

    /// Writes a checkpoint as the archive that `write` produces, and removes superfluous ones.
    ///
    /// # Errors
    /// [`CheckpointError`]; the existing checkpoints stay, and no partial file remains.
    pub fn write(
        &self,
        write: impl FnOnce(&mut dyn Write) -> Result<(), CheckpointError>,
    ) -> Result<Made, CheckpointError> {
        self.prepare()?;
        step("begin")?;
        let check = |part: &Path| {
            step("written")?;
            let (header, bytes) = verify(part)?;
            step("verified")?;
            let checkpoint = Checkpoint { bytes, ..self.place_for(header.at.position) };
            let path = checkpoint.path.clone();
            Ok(((checkpoint, header), path))
        };
        let failed = |path: &Path, error: &io::Error| {
            CheckpointError::io(path, io::Error::new(error.kind(), error.to_string()))
        };
        let part = self.dir.join(NEW);
        let ((), (checkpoint, header)) = whole_file::write(&part, failed, write, check)?;
        step("renamed")?;
        let log_needed_after = self.keep_one_before(checkpoint.position, header.log)?;
        Ok(Made { checkpoint, header, log_needed_after })
    }

    /// Removes all but the newest and the first whole one before it.
    ///
    /// Returns the position of the latter.
    fn keep_one_before(&self, newest: Position, log: LogId) -> Result<Position, CheckpointError> {
        let mut kept = None;
        for other in self.all()? {
            if other.position == newest {
                continue;
            }
            if other.position < newest && kept.is_none() {
                match other.verify() {
                    Ok(header) if header.log == log => {
                        kept = Some(other.position);
                        continue;
                    }
                    Ok(_) => tracing::warn!(path = %other.path.display(), "it is of another log"),
                    Err(error @ CheckpointError::Io { .. }) => return Err(error),
                    Err(error) => tracing::warn!(%error, "an old checkpoint is damaged"),
                }
            }
            let removed = fs::remove_file(&other.path);
            removed.map_err(|error| CheckpointError::io(&other.path, error))?;
        }
        sync_dir(&self.dir).map_err(|error| CheckpointError::io(&self.dir, error))?;
        Ok(kept.unwrap_or(Position::START))
    }
}

/// Reads all of an archive that has no name yet.
fn verify(part: &Path) -> Result<(ArchiveHeader, u64), CheckpointError> {
    let file = File::open(part).map_err(|error| CheckpointError::io(part, error))?;
    let damaged = |error| CheckpointError::archive(part, error);
    let reader = ArchiveReader::new(BufReader::with_capacity(1 << 20, file));
    let mut reader = reader.map_err(damaged)?;
    while reader.next_rows().map_err(damaged)?.is_some() {}
    Ok((reader.header().clone(), reader.offset()))
}

/// Ends a step. Tests end the writing of a checkpoint here.
#[cfg(not(test))]
#[expect(clippy::unnecessary_wraps, reason = "a test has it fail")]
const fn step(_name: &'static str) -> Result<(), CheckpointError> {
    Ok(())
}

#[cfg(test)]
use tests::step;

//! Copies of a data directory: archives that become one, and incremental backups.
//!
//! The files of copies are written whole or not at all, and hashed while they are read.

mod backup;
mod contents;
mod import;
mod manifest;

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use postrider_log::{LogError, PieceError};
use sha2::{Digest, Sha256};

use crate::archive::{ArchiveError, ArchiveHeader, ArchiveWriter};
use crate::checkpoints::CheckpointError;
use crate::directory::DirectoryError;
use crate::{SnapshotError, StoreError, whole_file};

pub use backup::{BackupDir, RestorePlan};
pub use contents::{Contents, CopiedContents, contents_bytes, copy_contents};
pub use import::{Import, Loaded, Sieve, archive_bytes, frame_of, read_archive};
pub use manifest::ShardList;

/// The reason why a copy could not be made or used. The message names the file and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CopyError {
    /// Another process uses the directory.
    #[error("{0}")]
    InUse(String),
    /// The place of the copy is not empty.
    #[error("{0}")]
    NotEmpty(String),
    /// Its bytes are not those that were written.
    #[error("{0}")]
    Damaged(String),
    /// Acknowledged data is missing.
    #[error("{0}")]
    Lost(String),
    /// A newer version wrote it.
    #[error("{0}")]
    NewerFormat(String),
    /// It was written under other master keys.
    #[error("{0}")]
    KeyMismatch(String),
    /// The disk is full.
    #[error("{0}")]
    NoSpace(String),
    /// The backup does not reach the position.
    #[error("{0}")]
    NoSuchPosition(String),
    /// The log lacks the entries after the position.
    #[error("{0}")]
    Trimmed(String),
    /// A file cannot be read or written, or is missing.
    #[error("{0}")]
    Io(String),
}

impl CopyError {
    /// Returns the error's name for programs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InUse(_) => "IN_USE",
            Self::NotEmpty(_) => "NOT_EMPTY",
            Self::Damaged(_) => "DAMAGED",
            Self::Lost(_) | Self::Trimmed(_) => "LOST",
            Self::NewerFormat(_) => "NEWER_FORMAT",
            Self::KeyMismatch(_) => "KEY_MISMATCH",
            Self::NoSpace(_) => "NO_SPACE",
            Self::NoSuchPosition(_) => "NO_SUCH_POSITION",
            Self::Io(_) => "IO",
        }
    }

    /// Returns the error of a file or directory.
    #[must_use]
    pub fn io(path: &Path, error: &io::Error) -> Self {
        let message = format!("{}: {error}", path.display());
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace(message),
            _ => Self::Io(message),
        }
    }

    /// Returns the error of an archive in a file.
    #[must_use]
    pub fn archive(path: &Path, error: &ArchiveError) -> Self {
        let message = format!("{} is {error}", path.display());
        match error {
            ArchiveError::Io(error) => Self::io(path, error),
            ArchiveError::Damaged { .. } => Self::Damaged(message),
            ArchiveError::Newer { .. } => Self::NewerFormat(message),
            ArchiveError::TooLong(_) => Self::Io(format!("{}: {error}", path.display())),
        }
    }
}

/// Converts an error of the disk that has become a text.
fn disk_error(message: String) -> CopyError {
    if message.contains("No space left on device") {
        CopyError::NoSpace(message)
    } else {
        CopyError::Io(message)
    }
}

impl From<StoreError> for CopyError {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        match error {
            StoreError::Failed(_) => disk_error(message),
            StoreError::Damaged(_) => Self::Damaged(message),
            StoreError::Newer(_) => Self::NewerFormat(message),
            StoreError::Lost { .. } => Self::Lost(message),
            StoreError::Locked => Self::InUse(message),
        }
    }
}

impl From<io::Error> for CopyError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::NoSpace(error.to_string())
            }
            _ => Self::Io(error.to_string()),
        }
    }
}

impl From<LogError> for CopyError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Trimmed { .. } => Self::Trimmed(error.to_string()),
            error => StoreError::from(error).into(),
        }
    }
}

impl From<PieceError> for CopyError {
    fn from(error: PieceError) -> Self {
        match error {
            PieceError::Log(error) => error.into(),
            PieceError::Ahead { .. } => Self::Lost(error.to_string()),
            PieceError::Write(error) => error.into(),
        }
    }
}

impl From<SnapshotError> for CopyError {
    fn from(error: SnapshotError) -> Self {
        match error {
            SnapshotError::Io(_) => disk_error(error.to_string()),
            SnapshotError::Damaged(_) => Self::Damaged(error.to_string()),
        }
    }
}

impl From<CheckpointError> for CopyError {
    fn from(error: CheckpointError) -> Self {
        let message = error.to_string();
        match error {
            CheckpointError::Io { .. } => disk_error(message),
            CheckpointError::Archive { source: ArchiveError::Newer { .. }, .. } => {
                Self::NewerFormat(message)
            }
            CheckpointError::Archive { .. } => Self::Damaged(message),
            CheckpointError::Source(_) | CheckpointError::GivenUp(_) => Self::Io(message),
        }
    }
}

impl From<DirectoryError> for CopyError {
    fn from(error: DirectoryError) -> Self {
        let message = error.to_string();
        match error {
            DirectoryError::Store(error) => error.into(),
            DirectoryError::Snapshot(error) => error.into(),
            DirectoryError::Checkpoint(error) => error.into(),
            DirectoryError::NewerFormat { .. } => Self::NewerFormat(message),
            DirectoryError::Unclear(_) => Self::Io(message),
            DirectoryError::File { .. } => disk_error(message),
        }
    }
}

/// The length and the SHA-256 of a file, in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The length.
    pub bytes: u64,
    /// The SHA-256.
    pub sha256: String,
}

/// Hashes the bytes that are read through it.
struct HashingReader<R> {
    inner: R,
    hasher: Sha256,
    bytes: u64,
}

impl<R: Read> HashingReader<R> {
    fn new(inner: R) -> Self {
        Self { inner, hasher: Sha256::new(), bytes: 0 }
    }

    fn written(self) -> Written {
        let digest = self.hasher.finalize();
        let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Written { bytes: self.bytes, sha256 }
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}

/// Creates an empty file that only its user can read, in place of an existing one.
fn create(path: &Path) -> Result<File, CopyError> {
    whole_file::create(path).map_err(|error| CopyError::io(path, &error))
}

/// An archive that is written to a file.
pub type ArchiveFile = ArchiveWriter<BufWriter<File>>;

/// Starts an archive in an empty file that only its user can read.
pub fn create_archive(path: &Path, header: &ArchiveHeader) -> Result<ArchiveFile, CopyError> {
    let writer = ArchiveWriter::new(BufWriter::with_capacity(1 << 16, create(path)?), header);
    writer.map_err(|error| CopyError::archive(path, &error))
}

/// Makes the names in a directory durable.
fn sync_dir(dir: &Path) -> Result<(), CopyError> {
    whole_file::sync_dir(dir).map_err(|error| CopyError::io(dir, &error))
}

/// Writes a file beside its place, syncs it, has it checked, and gives it its name.
///
/// A failure leaves nothing.
///
/// # Errors
/// Those of `write` and `check`, and [`CopyError::Io`].
pub fn write_file<T, U>(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<T, CopyError>,
    check: impl FnOnce(&Path) -> Result<U, CopyError>,
) -> Result<(T, U), CopyError> {
    let part = whole_file::part_of(path);
    whole_file::write(&part, CopyError::io, write, |part| Ok((check(part)?, path.to_owned())))
}

#[cfg(test)]
mod tests;

//! Files of copies that are written whole or not at all, and readers that hash their input.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::CopyError;
use crate::archive::{ArchiveHeader, ArchiveWriter};
use crate::whole_file;

/// The length and the SHA-256 of a file, in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The length.
    pub bytes: u64,
    /// The SHA-256.
    pub sha256: String,
}

/// Hashes the bytes that are read through it.
pub(super) struct Hashing<R> {
    inner: R,
    hasher: Sha256,
    bytes: u64,
}

impl<R: Read> Hashing<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, hasher: Sha256::new(), bytes: 0 }
    }

    pub(super) fn written(self) -> Written {
        let digest = self.hasher.finalize();
        let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Written { bytes: self.bytes, sha256 }
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}

/// Creates an empty file that only its user can read, in place of an existing one.
pub(super) fn create(path: &Path) -> Result<File, CopyError> {
    whole_file::create(path).map_err(|error| CopyError::io(path, &error))
}

/// An archive that is written to a file.
pub type ArchiveFile = ArchiveWriter<BufWriter<File>>;

/// Starts an archive in an empty file that only its user can read.
///
/// # Errors
/// [`CopyError`].
pub fn create_archive(path: &Path, header: &ArchiveHeader) -> Result<ArchiveFile, CopyError> {
    let writer = ArchiveWriter::new(BufWriter::with_capacity(1 << 16, create(path)?), header);
    writer.map_err(|error| CopyError::archive(path, &error))
}

/// Makes the names in a directory durable.
pub(super) fn sync_dir(dir: &Path) -> Result<(), CopyError> {
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

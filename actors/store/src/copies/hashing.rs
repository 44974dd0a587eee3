//! Files that are written whole or not at all, and readers that hash what they read.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{BufWriter, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::CopyError;

/// Mode of the files of copies: they hold everything that the server knows.
const MODE: u32 = 0o600;

/// The length and the SHA-256 of a file, in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The length.
    pub bytes: u64,
    /// The SHA-256.
    pub sha256: String,
}

/// Hashes what is read through it.
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

/// The name of a file while it is written.
pub(super) fn part_of(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    PathBuf::from(part)
}

/// Creates an empty file that only its user can read, in place of one that is there.
pub(super) fn create(path: &Path) -> Result<File, CopyError> {
    let mut options = OpenOptions::new();
    let file = options.create(true).truncate(true).write(true).mode(MODE).open(path);
    let file = file.map_err(|error| CopyError::io(path, &error))?;
    // The mode above is for new files only.
    let closed = file.set_permissions(Permissions::from_mode(MODE));
    closed.map_err(|error| CopyError::io(path, &error))?;
    Ok(file)
}

/// Makes the names in a directory durable.
pub(super) fn sync_dir(dir: &Path) -> Result<(), CopyError> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(|error| CopyError::io(dir, &error))
}

/// Writes a file beside its place, syncs it, has it checked, and gives it its name. If that fails,
/// nothing is there.
///
/// # Errors
/// Those of `write` and `check`, and [`CopyError::Io`].
pub fn write_file<T, U>(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<T, CopyError>,
    check: impl FnOnce(&Path) -> Result<U, CopyError>,
) -> Result<(T, U), CopyError> {
    let part = part_of(path);
    let made = write_part(&part, write).and_then(|written| Ok((written, check(&part)?)));
    let made = made.and_then(|made| {
        let renamed = fs::rename(&part, path);
        renamed.map_err(|error| CopyError::io(path, &error))?;
        sync_dir(path.parent().unwrap_or(Path::new(".")))?;
        Ok(made)
    });
    if made.is_err() {
        // Whoever wants the space or looks for a whole file finds nothing.
        fs::remove_file(&part).ok();
    }
    made
}

fn write_part<T>(
    part: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<T, CopyError>,
) -> Result<T, CopyError> {
    let io = |error: std::io::Error| CopyError::io(part, &error);
    let mut out = BufWriter::with_capacity(1 << 20, create(part)?);
    let written = write(&mut out)?;
    let file = out.into_inner().map_err(|error| io(error.into_error()))?;
    file.sync_all().map_err(io)?;
    Ok(written)
}

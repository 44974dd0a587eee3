//! The port to the free space of the disk that a store is on.

use std::fs;
use std::path::{Path, PathBuf};

use crate::StoreError;

/// Measures the free space of a disk.
pub trait FreeSpace: Send + Sync + 'static {
    /// Returns the bytes that may still be written. It may block.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the file system does not answer.
    fn free_bytes(&self) -> Result<u64, StoreError>;
}

fn failed(error: rustix::io::Errno) -> StoreError {
    StoreError::Failed(error.to_string())
}

/// The file system that a directory is on.
#[derive(Debug, Clone)]
pub struct DirectorySpace(pub PathBuf);

impl DirectorySpace {
    /// Returns the bytes of the whole file system.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the file system does not answer.
    pub fn total_bytes(&self) -> Result<u64, StoreError> {
        let found = rustix::fs::statvfs(&self.0).map_err(failed)?;
        Ok(found.f_blocks.saturating_mul(found.f_frsize))
    }

    /// Returns the bytes of all files below the directory.
    ///
    /// Files that are removed meanwhile, or cannot be read, are not counted. It blocks for as long
    /// as it takes to list them.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        used_bytes(&self.0)
    }
}

fn used_bytes(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else { return 0 };
    let of = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => used_bytes(&entry.path()),
        Ok(kind) if kind.is_file() => entry.metadata().map_or(0, |file| file.len()),
        _ => 0,
    };
    entries.filter_map(Result::ok).map(of).sum()
}

impl FreeSpace for DirectorySpace {
    fn free_bytes(&self) -> Result<u64, StoreError> {
        let found = rustix::fs::statvfs(&self.0).map_err(failed)?;
        // The reserve of the superuser does not count: the server does not run as one.
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_space_and_a_missing_one_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let space = DirectorySpace(dir.path().to_owned());
        assert!((1..=space.total_bytes().unwrap()).contains(&space.free_bytes().unwrap()));
        std::fs::create_dir(dir.path().join("below")).unwrap();
        for (name, bytes) in [("one", 10), ("below/two", 7)] {
            std::fs::write(dir.path().join(name), vec![0; bytes]).unwrap();
        }
        assert_eq!(space.used_bytes(), 17);
        let missing = DirectorySpace(dir.path().join("missing"));
        assert_eq!(missing.used_bytes(), 0);
        assert!(matches!(missing.free_bytes(), Err(StoreError::Failed(_))));
    }
}

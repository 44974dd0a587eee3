//! The port to the free space of the disk that a store is on.

use std::path::PathBuf;

use crate::StoreError;

/// Measures the free space of a disk.
pub trait FreeSpace: Send + Sync + 'static {
    /// The bytes that may still be written. It may block.
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
    /// The bytes of the whole file system.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the file system does not answer.
    pub fn total_bytes(&self) -> Result<u64, StoreError> {
        let found = rustix::fs::statvfs(&self.0).map_err(failed)?;
        Ok(found.f_blocks.saturating_mul(found.f_frsize))
    }
}

impl FreeSpace for DirectorySpace {
    fn free_bytes(&self) -> Result<u64, StoreError> {
        let found = rustix::fs::statvfs(&self.0).map_err(failed)?;
        // What is reserved for the superuser does not count: the server does not run as one.
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
        let missing = DirectorySpace(dir.path().join("missing"));
        assert!(matches!(missing.free_bytes(), Err(StoreError::Failed(_))));
    }
}

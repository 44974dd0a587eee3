//! The digest and the length of an archive.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{CheckpointsError, GivesUp, given_up};

pub(super) const CHUNK_BYTES: usize = 1 << 20;

/// The digest and the length of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// The SHA-256 of its bytes.
    pub sha256: [u8; 32],
    /// The number of its bytes.
    pub bytes: u64,
}

impl Digest {
    /// Computes the digest of a file.
    ///
    /// # Errors
    /// [`CheckpointsError::Failed`] when the file cannot be read.
    pub fn of_file(path: &Path) -> Result<Self, CheckpointsError> {
        let failed = |error: std::io::Error| CheckpointsError::Failed(error.to_string());
        let mut file = File::open(path).map_err(failed)?;
        copy(&mut file, None, &|| false).map_err(failed)?.ok_or_else(given_up)
    }
}

/// Copies a file to `to`, if it is given, and returns the digest of its bytes.
///
/// Returns `None` if the caller gave up.
pub(super) fn copy(
    from: &mut File,
    mut to: Option<&mut File>,
    gives_up: GivesUp<'_>,
) -> io::Result<Option<Digest>> {
    let (mut hasher, mut bytes) = (Sha256::new(), 0);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        if gives_up() {
            return Ok(None);
        }
        let read = from.read(&mut chunk)?;
        let part = chunk.get(..read).unwrap_or_default();
        if part.is_empty() {
            break;
        }
        hasher.update(part);
        bytes += part.len() as u64;
        if let Some(to) = &mut to {
            to.write_all(part)?;
        }
    }
    if let Some(to) = to {
        to.sync_all()?;
    }
    Ok(Some(Digest { sha256: hasher.finalize().into(), bytes }))
}

//! Reads an object to its end, and distinguishes damage from slowness.

#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::fs::File;
use tokio::io::AsyncWriteExt as _;

use super::{CHUNK_BYTES, failed};
use crate::checkpoints::{CheckpointsError, Digest};

/// The number of attempts to read an object that arrives too slowly.
const ATTEMPTS: usize = 4;
/// The pause after the first attempt; each further one is twice as long.
const PAUSE: Duration = Duration::from_secs(1);

/// The result of reading a part of an object.
pub(super) enum Part {
    /// This number of bytes was read.
    Bytes(usize),
    /// The object has ended.
    End,
    /// No bytes arrived in time. They may exist all the same.
    Slow,
    /// The object is not what was stored.
    Damaged(String),
}

/// The store of objects.
pub(super) trait Objects: Sync {
    /// An object that is being read.
    type Object: Send;

    /// Opens an object for reading; `None` when the name has none.
    fn open(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<Option<Self::Object>, CheckpointsError>> + Send;

    /// Reads the next bytes.
    fn read(
        &self,
        object: &mut Self::Object,
        chunk: &mut [u8],
    ) -> impl Future<Output = Result<Part, CheckpointsError>> + Send;

    /// Returns whether all parts of an object are stored, even if they cannot be read now.
    fn has_all(
        &self,
        name: &str,
        object: &mut Self::Object,
    ) -> impl Future<Output = Result<bool, CheckpointsError>> + Send;

    /// Waits.
    fn pause(&self, time: Duration) -> impl Future<Output = ()> + Send;
}

/// Reads an object, and writes it to a file if one is given, which is `synced` or not.
///
/// Slowness is never damage. A slow object is read again, and at last given up as unreachable.
pub(super) async fn fetch<O: Objects>(
    objects: &O,
    name: &str,
    to: Option<&Path>,
    synced: bool,
) -> Result<Digest, CheckpointsError> {
    let mut pause = PAUSE;
    for _ in 1..ATTEMPTS {
        if let Some(digest) = attempt(objects, name, to, synced).await? {
            return Ok(digest);
        }
        objects.pause(pause).await;
        pause *= 2;
    }
    let slow = || CheckpointsError::Slow(name.to_owned());
    attempt(objects, name, to, synced).await?.ok_or_else(slow)
}

/// Returns the digest of the read bytes; `None` when they arrived too slowly.
async fn attempt<O: Objects>(
    objects: &O,
    name: &str,
    to: Option<&Path>,
    synced: bool,
) -> Result<Option<Digest>, CheckpointsError> {
    let damaged = |what: &str| {
        Err(CheckpointsError::Damaged { name: name.to_owned(), what: what.to_owned() })
    };
    let Some(mut object) = objects.open(name).await? else { return damaged("missing") };
    let mut file = match to {
        Some(to) => Some(File::create(to).await.map_err(failed)?),
        None => None,
    };
    let (mut hasher, mut bytes) = (Sha256::new(), 0_u64);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = match objects.read(&mut object, &mut chunk).await? {
            Part::Bytes(read) => read,
            Part::End => break,
            Part::Damaged(what) => return damaged(&what),
            Part::Slow if objects.has_all(name, &mut object).await? => return Ok(None),
            Part::Slow => return damaged("not there as a whole"),
        };
        let part = chunk.get(..read).unwrap_or_default();
        hasher.update(part);
        bytes += read as u64;
        if let Some(file) = &mut file {
            file.write_all(part).await.map_err(failed)?;
        }
    }
    if let Some(mut file) = file {
        file.flush().await.map_err(failed)?;
        if synced {
            file.sync_all().await.map_err(failed)?;
        }
    }
    Ok(Some(Digest { sha256: hasher.finalize().into(), bytes }))
}

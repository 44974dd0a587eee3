//! Archives in memory, which several nodes of one process may share.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::{Archives, CheckpointsError, Digest, GivesUp, goes};

/// Archives in memory. They end with the process.
#[derive(Debug, Clone, Default)]
pub struct FakeArchives(Arc<Mutex<BTreeMap<String, Vec<u8>>>>, Arc<Mutex<BTreeSet<String>>>);

/// Returns the digest of these bytes.
#[must_use]
pub(super) fn digest(bytes: &[u8]) -> Digest {
    Digest { sha256: Sha256::digest(bytes).into(), bytes: bytes.len() as u64 }
}

impl FakeArchives {
    /// Returns the names of the stored archives.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.0.lock().keys().cloned().collect()
    }

    /// Changes a bit of the archive under a name.
    pub fn flip(&self, name: &str, byte: usize) {
        if let Some(byte) = self.0.lock().get_mut(name).and_then(|it| it.get_mut(byte)) {
            *byte ^= 1;
        }
    }

    /// Makes the archive under a name arrive no more.
    pub fn stall(&self, name: &str) {
        self.1.lock().insert(name.to_owned());
    }
}

impl Archives for FakeArchives {
    fn put(&self, name: &str, file: &Path, _: GivesUp<'_>) -> Result<(), CheckpointsError> {
        let bytes = std::fs::read(file);
        let bytes = bytes.map_err(|error| CheckpointsError::Failed(error.to_string()))?;
        self.0.lock().insert(name.to_owned(), bytes);
        Ok(())
    }

    fn get(
        &self,
        name: &str,
        to: Option<&Path>,
        gives_up: GivesUp<'_>,
    ) -> Result<Digest, CheckpointsError> {
        if gives_up() {
            return Err(CheckpointsError::Failed("it was given up".to_owned()));
        }
        if self.1.lock().contains(name) {
            return Err(CheckpointsError::Slow(name.to_owned()));
        }
        let missing =
            || CheckpointsError::Damaged { name: name.to_owned(), what: "missing".to_owned() };
        let bytes = self.0.lock().get(name).cloned().ok_or_else(missing)?;
        if let Some(to) = to {
            let written = std::fs::write(to, &bytes);
            written.map_err(|error| CheckpointsError::Failed(error.to_string()))?;
        }
        Ok(digest(&bytes))
    }

    fn keep_only(&self, shard: u16, names: &[String], epoch: u64) -> Result<(), CheckpointsError> {
        let own = format!("{shard}.");
        self.0.lock().retain(|name, _| !name.starts_with(&own) || !goes(name, names, epoch));
        Ok(())
    }
}

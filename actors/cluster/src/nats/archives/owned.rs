//! The contents of files of one shard, for one owner that stores and removes them.
//!
//! The owner remembers the contents that it has stored, and relies on no others. An unanswered
//! removal, its own or that of an earlier owner, may still be carried out at any time.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::files::{FilesOf, NatsFiles};
use crate::checkpoints::CheckpointsError;

/// The number of locks: of two threads that store the same content, one waits for the other.
const TURNS: usize = 16;
/// The maximum number of remembered contents. A forgotten one is stored once more.
const REMEMBERED: usize = 100_000;

/// The contents of a shard, for one owner. All calls block.
#[derive(Debug)]
pub struct OwnedFiles {
    files: Arc<NatsFiles>,
    of: FilesOf,
    /// The names of the contents that were stored and not removed since, by their hashes.
    stored: Mutex<HashMap<String, String>>,
    turns: [Mutex<()>; TURNS],
}

impl OwnedFiles {
    /// Creates the contents of this owner.
    #[must_use]
    pub fn new(files: Arc<NatsFiles>, of: FilesOf) -> Self {
        Self { files, of, stored: Mutex::default(), turns: Default::default() }
    }

    /// Stores the content of a file under its hash, unless this owner has it stored.
    ///
    /// When this returns, every server that stores the content has synced it. No other attempt may
    /// have the same `attempt`.
    ///
    /// # Errors
    /// [`CheckpointsError`]: the content is not stored.
    pub fn put(&self, hash: &str, attempt: u128, file: &Path) -> Result<(), CheckpointsError> {
        let _turn = self.turns.get(turn_of(hash)).map(Mutex::lock);
        if self.kept(hash)?.is_some() {
            return Ok(());
        }
        let name = self.files.put(self.of, hash, attempt, file)?;
        let mut stored = self.stored.lock();
        if stored.len() >= REMEMBERED {
            stored.clear();
        }
        stored.insert(hash.to_owned(), name);
        Ok(())
    }

    /// Returns the length of a content that this owner has stored and that only it can remove.
    ///
    /// # Errors
    /// [`CheckpointsError`]: the length is not known.
    pub fn kept(&self, hash: &str) -> Result<Option<u64>, CheckpointsError> {
        let name = self.stored.lock().get(hash).cloned();
        name.map_or(Ok(None), |name| self.files.length(&name))
    }

    /// Returns the name and the length of a content, whichever owner has stored it.
    ///
    /// Returns `None` if it does not exist.
    ///
    /// # Errors
    /// [`CheckpointsError`]: the content is damaged, or it is not known whether it exists.
    pub fn find(&self, hash: &str) -> Result<Option<(String, u64)>, CheckpointsError> {
        self.files.find(self.of, hash)
    }

    /// Removes a content that this owner or an earlier one has stored. `may` is called last.
    ///
    /// # Errors
    /// [`CheckpointsError`]: a part of it may remain.
    pub fn remove(&self, hash: &str, may: &dyn Fn() -> bool) -> Result<(), CheckpointsError> {
        // Forgotten whatever the outcome, because the removal may be carried out later.
        self.stored.lock().remove(hash);
        self.files.remove(self.of, hash, may)
    }

    /// Returns the hashes that begin with this byte of the contents of the shard.
    ///
    /// They include contents that were not stored completely.
    ///
    /// # Errors
    /// [`CheckpointsError`]: they cannot be listed.
    pub fn list(&self, first: u8) -> Result<BTreeSet<String>, CheckpointsError> {
        self.files.list(self.of, first)
    }
}

fn turn_of(hash: &str) -> usize {
    hash.get(..1).and_then(|it| usize::from_str_radix(it, 16).ok()).unwrap_or(0)
}

//! The contents of files of one shard, as one owner of it stores and removes them.
//!
//! The owner remembers what it has stored, and relies on nothing else that is there: a removal that
//! was not answered, its own or that of an owner before it, may be carried out at any time later.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::files::{FilesOf, NatsFiles};
use crate::checkpoints::CheckpointsError;

/// Of two that store the same content, one waits for the other.
const TURNS: usize = 16;
/// How many contents are remembered. One that was forgotten is stored once more.
const REMEMBERED: usize = 100_000;

/// The contents of a shard, for one owner. All calls block.
#[derive(Debug)]
pub struct OwnedFiles {
    files: Arc<NatsFiles>,
    of: FilesOf,
    /// The names of what was stored and not removed since, by their hashes.
    stored: Mutex<HashMap<String, String>>,
    turns: [Mutex<()>; TURNS],
}

impl OwnedFiles {
    /// Those that this owner stores.
    #[must_use]
    pub fn new(files: Arc<NatsFiles>, of: FilesOf) -> Self {
        Self { files, of, stored: Mutex::default(), turns: Default::default() }
    }

    /// Stores the content of a file under its hash, unless this owner has it stored. When this
    /// returns, every server that keeps it has synced it. No other `attempt` is like this one.
    ///
    /// # Errors
    /// [`CheckpointsError`]: it is not stored.
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

    /// The length of a content that this owner has stored and that nothing can remove but this.
    ///
    /// # Errors
    /// [`CheckpointsError`]: it is not known.
    pub fn kept(&self, hash: &str) -> Result<Option<u64>, CheckpointsError> {
        let name = self.stored.lock().get(hash).cloned();
        name.map_or(Ok(None), |name| self.files.length(&name))
    }

    /// The name and the length of a content, whoever has stored it; `None`: it is not there.
    ///
    /// # Errors
    /// [`CheckpointsError`]: it is damaged, or it is not known.
    pub fn find(&self, hash: &str) -> Result<Option<(String, u64)>, CheckpointsError> {
        self.files.find(self.of, hash)
    }

    /// Removes a content that this owner or one before it has stored. `may` is asked last.
    ///
    /// # Errors
    /// [`CheckpointsError`]: a part of it may be left.
    pub fn remove(&self, hash: &str, may: &dyn Fn() -> bool) -> Result<(), CheckpointsError> {
        // Whatever comes of it: it may go later.
        self.stored.lock().remove(hash);
        self.files.remove(self.of, hash, may)
    }

    /// The hashes of the contents that begin with this byte, and of what is left of some that were
    /// not stored to their end.
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

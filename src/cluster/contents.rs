//! The contents of a shard's files for backups and imports: in NATS, whichever node owns the shard.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use postrider_actors::copies::{Contents, CopiedContents, CopyError};
use postrider_actors::random;
use postrider_actors::store::blobs::{BlobHash, FileBlobs};
use postrider_cluster::checkpoints::{CheckpointsError, Digest};
use postrider_cluster::nats::{FilesOf, NatsFiles};

fn failed(error: CheckpointsError) -> CopyError {
    match error {
        CheckpointsError::Damaged { .. } => CopyError::Damaged(error.to_string()),
        error => CopyError::Io(error.to_string()),
    }
}

/// The contents of the files of one shard.
pub(super) struct ShardContents {
    pub(super) stored: Arc<NatsFiles>,
    pub(super) of: FilesOf,
    /// The file through which one content after the other passes.
    pub(super) through: PathBuf,
}

impl Contents for ShardContents {
    fn all(&self) -> Result<Vec<BlobHash>, CopyError> {
        let lists = (0..=u8::MAX).map(|first| self.stored.list(self.of, first).map_err(failed));
        let lists = lists.collect::<Result<Vec<_>, _>>()?;
        Ok(lists.iter().flatten().filter_map(|hash| BlobHash::parse(hash)).collect())
    }

    fn copy(&self, hash: &BlobHash, out: &mut dyn Write) -> Result<bool, CopyError> {
        let found = self.stored.find(self.of, &hash.to_string()).map_err(failed)?;
        let Some((name, _)) = found else { return Ok(false) };
        self.stored.get(&name, &self.through).map_err(failed)?;
        let copied = File::open(&self.through).and_then(|mut file| io::copy(&mut file, out));
        let removed = std::fs::remove_file(&self.through);
        copied.and(removed).map_err(|error| CopyError::io(&self.through, &error))?;
        Ok(true)
    }
}

impl ShardContents {
    /// Stores the missing ones of these contents from a directory, if there is one.
    ///
    /// Also returns the number of contents that the directory lacks.
    ///
    /// # Errors
    /// [`CopyError`]: one was not read or not stored.
    pub(super) fn take(
        &self,
        hashes: impl IntoIterator<Item = BlobHash>,
        from: Option<&Path>,
    ) -> Result<(CopiedContents, u64), CopyError> {
        let from = from.map(FileBlobs::at);
        let (mut taken, mut missing) = (CopiedContents::default(), 0);
        for hash in hashes {
            let text = hash.to_string();
            if self.stored.find(self.of, &text).map_err(failed)?.is_some() {
                taken.files += 1;
                continue;
            }
            match from.as_ref().map_or(Ok(false), |from| self.stage(from, &hash)) {
                Ok(false) => missing += 1,
                Ok(true) => {
                    let digest = Digest::of_file(&self.through).map_err(failed)?;
                    if digest.sha256 == hash.0 {
                        let put = self.stored.put(self.of, &text, random::unique(), &self.through);
                        put.map_err(failed)?;
                        taken.bytes += digest.bytes;
                        (taken.copied, taken.files) = (taken.copied + 1, taken.files + 1);
                    } else {
                        taken.damaged.push(hash);
                    }
                }
                Err(CopyError::Damaged(_)) => taken.damaged.push(hash),
                Err(error) => return Err(error),
            }
        }
        Ok((taken, missing))
    }

    /// Copies a content to the file. Returns whether the directory has it.
    fn stage(&self, from: &FileBlobs, hash: &BlobHash) -> Result<bool, CopyError> {
        let failed = |error: io::Error| CopyError::io(&self.through, &error);
        from.copy(hash, &mut File::create(&self.through).map_err(failed)?)
    }
}

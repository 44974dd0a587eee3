//! The checkpoints of a shard, stored where every node finds them.
//!
//! A key of the bucket lists the newest checkpoint and the newest whole one before it. It also
//! names the data format that a reader must know, because the log behind a checkpoint may have no
//! claim that names it. The key is written only after the archive was stored and read back. The log
//! is trimmed only up to the older checkpoint. So a reader of the list finds everything that the
//! log no longer holds, even if the newest checkpoint is damaged.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use postrider_log::body::DATA_FORMAT;
use postrider_log::{EntryHash, LogId, Mark, Position};
use serde::{Deserialize, Serialize};

use crate::coordination::{Coordination, CoordinationError, decode, encode};
use crate::name::NodeName;
use crate::replica::{Owner, Replica};

mod digest;
mod directory;
mod fake;

pub use digest::Digest;
pub use directory::DirectoryArchives;
pub use fake::FakeArchives;

/// The number of checkpoints that are listed.
const LISTED: usize = 2;

/// One checkpoint in the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointRecord {
    /// The last position that the checkpoint contains.
    pub position: u64,
    /// The epoch of the entry there.
    pub epoch: u64,
    /// The hash of the entry there.
    pub hash: [u8; 16],
    /// The engine time at which the checkpoint was made, in milliseconds.
    pub time_ms: u64,
    /// The node that owned the shard at the position.
    pub node: String,
    /// The incarnation of that node's process.
    pub incarnation: [u8; 16],
    /// The digest of the archive's bytes.
    pub digest: Digest,
}

/// The value of the key of a shard's checkpoints.
#[derive(Serialize, Deserialize)]
struct Listed<'a> {
    /// The lowest data format that a reader must know, of the archives and of the log.
    readable_from: u16,
    /// The checkpoints, the newest one first.
    listed: Cow<'a, [CheckpointRecord]>,
}

/// The value of the key in any form that is read.
#[derive(Deserialize)]
#[serde(untagged)]
enum AnyListed {
    /// The list with its data format, so that versions which know only format 1 cannot read it.
    Listed(Listed<'static>),
    /// The list in data format 1.
    First(Vec<CheckpointRecord>),
}

/// The reason why checkpoints could not be read or stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointsError {
    /// The store did not answer, or the caller gave up.
    #[error("{0}")]
    Failed(String),
    /// The checkpoint is missing, or is not what was stored.
    #[error("the checkpoint {name} is {what}")]
    Damaged {
        /// The name of the checkpoint.
        name: String,
        /// The damage.
        what: String,
    },
    /// The checkpoint exists, but its bytes do not arrive in time.
    #[error("the checkpoint {0} comes too slowly; nothing came in time")]
    Slow(String),
    /// Another owner has stored a checkpoint since.
    #[error("another owner of the shard has kept a checkpoint")]
    Replaced,
}

impl From<CoordinationError> for CheckpointsError {
    fn from(error: CoordinationError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// The store of archives, each whole and under a name.
///
/// Every method blocks for as long as it takes to store or to read an archive.
pub trait Archives: Debug + Send + Sync + 'static {
    /// Stores the bytes of a file. A name begins with the number of its shard and a dot.
    ///
    /// # Errors
    /// [`CheckpointsError::Failed`]; then the name has nothing, or a part that is no archive.
    fn put(&self, name: &str, file: &Path, gives_up: GivesUp<'_>) -> Result<(), CheckpointsError>;

    /// Reads the archive under a name, and writes it to a file if one is given.
    ///
    /// # Errors
    /// [`CheckpointsError::Damaged`] when it is missing; [`CheckpointsError::Failed`].
    fn get(
        &self,
        name: &str,
        to: Option<&Path>,
        gives_up: GivesUp<'_>,
    ) -> Result<Digest, CheckpointsError>;

    /// Removes the archives of a shard, except these and those of an owner with a higher epoch.
    ///
    /// It also removes parts of archives that were not stored completely.
    ///
    /// # Errors
    /// [`CheckpointsError::Failed`].
    fn keep_only(&self, shard: u16, names: &[String], epoch: u64) -> Result<(), CheckpointsError>;
}

/// Returns whether an archive is removed when the owner of this epoch keeps `kept`.
///
/// The owner may have been replaced since it wrote its list. It must not remove an archive that the
/// next owner stored.
pub(crate) fn goes(name: &str, kept: &[String], epoch: u64) -> bool {
    let stored_in = name.rsplit('.').next().and_then(|it| it.parse::<u64>().ok());
    !kept.iter().any(|it| it == name) && stored_in.is_none_or(|it| it <= epoch)
}

/// A callback that returns whether to stop early.
pub type GivesUp<'a> = &'a dyn Fn() -> bool;

fn given_up() -> CheckpointsError {
    CheckpointsError::Failed("it was given up".to_owned())
}

impl CheckpointRecord {
    /// Returns the mark of the last entry that the checkpoint contains.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        let Self { position, epoch, hash, .. } = self;
        Mark { position: Position(*position), epoch: *epoch, hash: EntryHash(*hash) }
    }

    /// Returns the replica of a node that has loaded the checkpoint.
    pub(crate) fn replica(&self, log: LogId, shard: u16, format: u16) -> Option<Replica> {
        let node = NodeName::new(&self.node).ok()?;
        let owner = Owner { node, incarnation: self.incarnation };
        Some(Replica::at(log, shard, &self.mark(), owner, self.time_ms).of_format(format))
    }
}

/// Returns the key that lists the checkpoints of a shard.
pub(crate) fn checkpoints_key(shard: u16) -> String {
    format!("checkpoints.{shard}")
}

/// Returns the position after which the log must be retained for the listed checkpoints.
///
/// One checkpoint alone may be damaged, so the log stays whole until there are two.
#[must_use]
pub fn needed_after(listed: &[CheckpointRecord]) -> Position {
    listed.get(LISTED - 1).map_or(Position::START, |older| Position(older.position))
}

/// The checkpoints of one shard.
#[derive(Debug, Clone)]
pub struct ShardCheckpoints {
    shard: u16,
    bucket: Arc<dyn Coordination>,
    archives: Arc<dyn Archives>,
    stream_bytes_max: u64,
    /// Set when the node stops: fetching a checkpoint is then given up.
    is_stopping: Arc<AtomicBool>,
}

impl ShardCheckpoints {
    /// Creates the checkpoints of a shard whose stream holds at most `stream_bytes_max` bytes.
    #[must_use]
    pub fn new(
        shard: u16,
        bucket: Arc<dyn Coordination>,
        archives: Arc<dyn Archives>,
        stream_bytes_max: u64,
    ) -> Self {
        Self { shard, bucket, archives, stream_bytes_max, is_stopping: Arc::default() }
    }

    /// Returns the same checkpoints, which are fetched only until `is_stopping` is set.
    pub(crate) fn of_node(self, is_stopping: Arc<AtomicBool>) -> Self {
        Self { is_stopping, ..self }
    }

    /// Returns whether the node is stopping, so that no long work is started.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Returns the bytes of log since the last checkpoint at which the next one is due at the
    /// latest.
    #[must_use]
    pub const fn log_bytes_max(&self) -> u64 {
        // With two checkpoints and what is written meanwhile, half of the stream is in use.
        self.stream_bytes_max / 4
    }

    /// Returns the bytes of the whole log above which a checkpoint is due.
    ///
    /// It is due however little was written since the last one.
    #[must_use]
    pub const fn whole_log_bytes_max(&self) -> u64 {
        self.stream_bytes_max / 2
    }

    fn key(&self) -> String {
        checkpoints_key(self.shard)
    }

    /// Returns the name of an archive. The epoch distinguishes two owners.
    #[must_use]
    pub fn name(&self, record: &CheckpointRecord) -> String {
        format!("{}.{:020}.{}", self.shard, record.position, record.epoch)
    }

    /// Returns the stored checkpoints, the newest one first.
    ///
    /// # Errors
    /// [`CheckpointsError::Failed`].
    pub fn list(&self) -> Result<Vec<CheckpointRecord>, CheckpointsError> {
        Ok(self.read()?.0)
    }

    /// Returns the newest checkpoint, and the data format that a reader of the log behind it must
    /// know.
    pub(crate) fn newest(&self) -> Result<Option<(CheckpointRecord, u16)>, CheckpointsError> {
        let Some(kept) = self.bucket.read(&self.key())? else { return Ok(None) };
        let (listed, format) = self.decoded(&kept.value)?;
        Ok(listed.into_iter().next().map(|newest| (newest, format)))
    }

    fn read(&self) -> Result<(Vec<CheckpointRecord>, u64), CheckpointsError> {
        let Some(kept) = self.bucket.read(&self.key())? else { return Ok((Vec::new(), 0)) };
        Ok((self.decoded(&kept.value)?.0, kept.revision))
    }

    fn decoded(&self, value: &[u8]) -> Result<(Vec<CheckpointRecord>, u16), CheckpointsError> {
        Ok(match decode(&self.key(), value)? {
            AnyListed::First(listed) => (listed, 1),
            AnyListed::Listed(Listed { readable_from, .. }) if readable_from > DATA_FORMAT => {
                return Err(CheckpointsError::Failed(format!(
                    "the checkpoints were written by a newer version: data format {readable_from} \
                     is not known"
                )));
            }
            AnyListed::Listed(Listed { readable_from, listed }) => {
                (listed.into_owned(), readable_from)
            }
        })
    }

    /// Fetches a checkpoint into a file.
    ///
    /// # Errors
    /// [`CheckpointsError::Damaged`] when the file is not what was stored;
    /// [`CheckpointsError::Slow`]; [`CheckpointsError::Failed`] also when the caller gives up, or
    /// the node stops meanwhile.
    pub fn fetch(
        &self,
        record: &CheckpointRecord,
        to: &Path,
        gives_up: GivesUp<'_>,
    ) -> Result<(), CheckpointsError> {
        self.get(record, Some(to), &|| self.is_stopping() || gives_up())
    }

    fn get(
        &self,
        record: &CheckpointRecord,
        to: Option<&Path>,
        gives_up: GivesUp<'_>,
    ) -> Result<(), CheckpointsError> {
        let name = self.name(record);
        if self.archives.get(&name, to, gives_up)? == record.digest {
            return Ok(());
        }
        Err(CheckpointsError::Damaged { name, what: "not what was stored".to_owned() })
    }

    /// Stores a checkpoint beside the newest whole one before it, and removes all others.
    ///
    /// Returns the position after which the two need the log.
    ///
    /// # Errors
    /// [`CheckpointsError`]; the checkpoints that were stored before are still stored.
    pub fn keep(
        &self,
        record: &CheckpointRecord,
        file: &Path,
        gives_up: GivesUp<'_>,
    ) -> Result<Position, CheckpointsError> {
        let (before, revision) = self.read()?;
        if before.first().is_some_and(|newest| newest.position >= record.position) {
            return Err(CheckpointsError::Replaced);
        }
        // Checked before storing: an archive that was stored before giving up would be in no list.
        let older = self.newest_whole(&before, gives_up)?;
        self.archives.put(&self.name(record), file, gives_up)?;
        self.get(record, None, gives_up)?;
        let mut listed = vec![record.clone()];
        listed.extend(older);
        self.write(&listed, revision)?;
        let names: Vec<_> = listed.iter().map(|it| self.name(it)).collect();
        if let Err(error) = self.archives.keep_only(self.shard, &names, record.epoch) {
            tracing::warn!(shard = self.shard, %error, "old checkpoints were not removed");
        }
        Ok(needed_after(&listed))
    }

    /// Stores a checkpoint alone and drops the listed ones, while `is_mine` returns `true`.
    ///
    /// `is_mine` returns `false` once another process does the same.
    ///
    /// # Errors
    /// [`CheckpointsError`]; the checkpoints that were listed before are still listed.
    pub fn keep_alone(
        &self,
        record: &CheckpointRecord,
        file: &Path,
        is_mine: &dyn Fn() -> bool,
    ) -> Result<(), CheckpointsError> {
        // A later writer changes the revision, or makes `is_mine` return `false`.
        let (_, revision) = self.read()?;
        if !is_mine() {
            return Err(CheckpointsError::Replaced);
        }
        self.archives.put(&self.name(record), file, &|| false)?;
        self.get(record, None, &|| false)?;
        self.write(std::slice::from_ref(record), revision)?;
        self.archives.keep_only(self.shard, &[self.name(record)], record.epoch)
    }

    /// Returns the newest whole checkpoint.
    ///
    /// A checkpoint that arrives too slowly may still be whole. It is passed over if an older one
    /// is whole; otherwise its error is returned, so that it is not dropped.
    fn newest_whole(
        &self,
        before: &[CheckpointRecord],
        gives_up: GivesUp<'_>,
    ) -> Result<Option<CheckpointRecord>, CheckpointsError> {
        let mut slow = None;
        for record in before.iter().take(LISTED) {
            match self.get(record, None, gives_up) {
                Ok(()) => return Ok(Some(record.clone())),
                Err(error @ CheckpointsError::Damaged { .. }) => {
                    tracing::warn!(shard = self.shard, %error, "an old checkpoint is no use");
                }
                Err(error @ CheckpointsError::Slow(_)) => {
                    tracing::warn!(shard = self.shard, %error, "an old checkpoint is passed over");
                    slow = slow.or(Some(error));
                }
                Err(error) => return Err(error),
            }
        }
        slow.map_or(Ok(None), Err)
    }

    fn write(&self, listed: &[CheckpointRecord], revision: u64) -> Result<(), CheckpointsError> {
        let key = self.key();
        let with_format = Listed { readable_from: DATA_FORMAT, listed: Cow::Borrowed(listed) };
        let value = encode(&key, &with_format)?;
        match self.bucket.write(&key, value, revision, None) {
            Ok(Some(_)) => return Ok(()),
            // The only writer may still be refused, and an unanswered write may have succeeded.
            Ok(None) | Err(CoordinationError::Silent(_)) => {}
            Err(error) => return Err(error.into()),
        }
        match self.read()? {
            (there, _) if there == listed => Ok(()),
            (_, now) if now == revision => {
                Err(CheckpointsError::Failed("the list was not written".to_owned()))
            }
            _ => Err(CheckpointsError::Replaced),
        }
    }
}

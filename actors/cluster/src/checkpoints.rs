//! The checkpoints of a shard, where every node finds them: what is kept, and in which order.
//!
//! A key of the bucket lists the newest one and the newest whole one before it, and says which data
//! format a reader must know: the log behind a checkpoint need not have a claim that says it. It is
//! written only when the archive was stored and read back, and the log is trimmed only up to the
//! older one. So whoever reads the list finds all that the log no longer holds, also if the newest
//! is damaged.

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

/// How many are listed.
const LISTED: usize = 2;

/// One checkpoint, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointRecord {
    /// The last position that is in it.
    pub position: u64,
    /// The epoch of the entry there.
    pub epoch: u64,
    /// The hash of the entry there.
    pub hash: [u8; 16],
    /// Engine time when it was made, in milliseconds.
    pub time_ms: u64,
    /// The node that owned the shard at the position.
    pub node: String,
    /// The process of that node.
    pub incarnation: [u8; 16],
    /// Its bytes.
    pub digest: Digest,
}

/// What the key of a shard's checkpoints holds.
#[derive(Serialize, Deserialize)]
struct Listed<'a> {
    /// The lowest data format that a reader must know, of the archives and of the log.
    readable_from: u16,
    /// The newest one first.
    listed: Cow<'a, [CheckpointRecord]>,
}

/// The same as it is read.
#[derive(Deserialize)]
#[serde(untagged)]
enum AnyListed {
    /// With its data format, so that versions which know format 1 only cannot read it.
    Listed(Listed<'static>),
    /// In data format 1.
    First(Vec<CheckpointRecord>),
}

/// Why checkpoints could not be read or kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointsError {
    /// Nobody answered, or it was given up.
    #[error("{0}")]
    Failed(String),
    /// It is missing, or not what was stored.
    #[error("the checkpoint {name} is {what}")]
    Damaged {
        /// Its name.
        name: String,
        /// What is wrong.
        what: String,
    },
    /// It is there, and does not come.
    #[error("the checkpoint {0} comes too slowly; nothing came in time")]
    Slow(String),
    /// Another owner has kept one since.
    #[error("another owner of the shard has kept a checkpoint")]
    Replaced,
}

impl From<CoordinationError> for CheckpointsError {
    fn from(error: CoordinationError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Where archives are stored, each whole and under a name. Every method blocks, for as long as it
/// takes to store or to read one.
pub trait Archives: Debug + Send + Sync + 'static {
    /// Stores the bytes of a file. A name begins with the number of its shard and a dot.
    ///
    /// # Errors
    /// [`CheckpointsError::Failed`]; nothing has the name then, or a part that is no archive.
    fn put(&self, name: &str, file: &Path, gives_up: GivesUp<'_>) -> Result<(), CheckpointsError>;

    /// Reads what is stored under a name, and writes it to a file if there is one.
    ///
    /// # Errors
    /// [`CheckpointsError::Damaged`] when it is missing; [`CheckpointsError::Failed`].
    fn get(
        &self,
        name: &str,
        to: Option<&Path>,
        gives_up: GivesUp<'_>,
    ) -> Result<Digest, CheckpointsError>;

    /// Removes everything of a shard but what is stored under these names and what an owner with a
    /// higher epoch stored: also parts of what was not stored to its end.
    ///
    /// # Errors
    /// [`CheckpointsError::Failed`].
    fn keep_only(&self, shard: u16, names: &[String], epoch: u64) -> Result<(), CheckpointsError>;
}

/// Whether an archive of a shard goes when its owner of this epoch keeps these. An owner may have
/// been replaced since it wrote its list, and what the next one stored is not its to remove.
pub(crate) fn goes(name: &str, kept: &[String], epoch: u64) -> bool {
    let stored_in = name.rsplit('.').next().and_then(|it| it.parse::<u64>().ok());
    !kept.iter().any(|it| it == name) && stored_in.is_none_or(|it| it <= epoch)
}

/// Says whether to end early.
pub type GivesUp<'a> = &'a dyn Fn() -> bool;

fn given_up() -> CheckpointsError {
    CheckpointsError::Failed("it was given up".to_owned())
}

impl CheckpointRecord {
    /// The last entry that is in it.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        let Self { position, epoch, hash, .. } = self;
        Mark { position: Position(*position), epoch: *epoch, hash: EntryHash(*hash) }
    }

    /// What a node knows of the shard that has loaded it.
    pub(crate) fn replica(&self, log: LogId, shard: u16, format: u16) -> Option<Replica> {
        let node = NodeName::new(&self.node).ok()?;
        let owner = Owner { node, incarnation: self.incarnation };
        Some(Replica::at(log, shard, &self.mark(), owner, self.time_ms).of_format(format))
    }
}

/// The key that lists the checkpoints of a shard.
pub(crate) fn checkpoints_key(shard: u16) -> String {
    format!("checkpoints.{shard}")
}

/// What follows this position must stay in the log for those that are listed: one alone may be
/// damaged, so the log stays whole until there are two.
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
    /// Whether fetching one is given up, for the node stops.
    is_stopping: Arc<AtomicBool>,
}

impl ShardCheckpoints {
    /// The checkpoints of a shard whose stream has so many bytes at the most.
    #[must_use]
    pub fn new(
        shard: u16,
        bucket: Arc<dyn Coordination>,
        archives: Arc<dyn Archives>,
        stream_bytes_max: u64,
    ) -> Self {
        Self { shard, bucket, archives, stream_bytes_max, is_stopping: Arc::default() }
    }

    /// The same, fetched only while this does not say that the node stops.
    pub(crate) fn of_node(self, is_stopping: Arc<AtomicBool>) -> Self {
        Self { is_stopping, ..self }
    }

    /// Whether the node stops, so that nothing long is begun any more.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// The log since the last one at which the next one is made at the latest.
    #[must_use]
    pub const fn log_bytes_max(&self) -> u64 {
        // With two checkpoints and what is written meanwhile, half of the stream is in use.
        self.stream_bytes_max / 4
    }

    /// The whole log above which the next one is made, however little came since the last one.
    #[must_use]
    pub const fn whole_log_bytes_max(&self) -> u64 {
        self.stream_bytes_max / 2
    }

    fn key(&self) -> String {
        checkpoints_key(self.shard)
    }

    /// What an archive is called: the epoch distinguishes two owners.
    #[must_use]
    pub fn name(&self, record: &CheckpointRecord) -> String {
        format!("{}.{:020}.{}", self.shard, record.position, record.epoch)
    }

    /// Those that are kept, the newest one first.
    ///
    /// # Errors
    /// [`CheckpointsError::Failed`].
    pub fn list(&self) -> Result<Vec<CheckpointRecord>, CheckpointsError> {
        Ok(self.read()?.0)
    }

    /// The newest one, and the data format that must be known behind it.
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

    /// Fetches one into a file.
    ///
    /// # Errors
    /// [`CheckpointsError::Damaged`] when it is not what was stored; [`CheckpointsError::Slow`];
    /// [`CheckpointsError::Failed`] also when it is given up, or the node stops meanwhile.
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

    /// Keeps one beside the newest whole one before it, and returns after which position the log is
    /// needed for them. All others go.
    ///
    /// # Errors
    /// [`CheckpointsError`]; those that were kept before are kept still.
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
        // Before it is stored: nobody lists what was stored when this is given up.
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

    /// Keeps one alone, and forgets those that were listed before, while `is_mine` says that nobody
    /// else does the same.
    ///
    /// # Errors
    /// [`CheckpointsError`]; those that were listed before are listed still.
    pub fn keep_alone(
        &self,
        record: &CheckpointRecord,
        file: &Path,
        is_mine: &dyn Fn() -> bool,
    ) -> Result<(), CheckpointsError> {
        // Whoever comes later has another revision, or is asked for.
        let (_, revision) = self.read()?;
        if !is_mine() {
            return Err(CheckpointsError::Replaced);
        }
        self.archives.put(&self.name(record), file, &|| false)?;
        self.get(record, None, &|| false)?;
        self.write(std::slice::from_ref(record), revision)?;
        self.archives.keep_only(self.shard, &[self.name(record)], record.epoch)
    }

    /// One that comes too slowly may be whole, so that nothing is given up for it alone; a whole
    /// one before it is as good.
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
            // A sole writer may be refused, and what was not answered may have been written.
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

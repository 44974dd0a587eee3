//! Imports the data of a single node into a cluster that nobody has used yet.
//!
//! A mark in the bucket says that an import is under way. No node starts until the mark says that
//! the import was finished, so the remains of a process that dies midway are never served. Each
//! shard is claimed, so that two imports cannot both write one. All data of a shard is at that
//! claim, in a checkpoint, and the log is trimmed behind it. Without the checkpoint no engine can
//! start.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use postrider_log::body::DATA_FORMAT;
use postrider_log::{
    AppendError, CheckpointNote, Claim, ClaimError, EncodeError, Kind, Log as _, LogError, LogId,
    Mark, Position, claim, encode_commit,
};
use serde::{Deserialize, Serialize};

use crate::checkpoints::{CheckpointRecord, CheckpointsError, Digest, ShardCheckpoints};
use crate::clock::BootClock;
use crate::cluster_record::{Access, ClusterRecord, JoinError, Opened, open};
use crate::coordination::{Coordination, CoordinationError, decode, encode, read_nodes};
use crate::log::{ReplicatedLog, ReplicatedOptions};
use crate::name::NodeName;
use crate::nats::preflight::Monitor;

/// The key of the mark.
const MARK: &str = "import";
/// The prefix of the keys that name the homes of API keys.
const HOMES: &str = "homes.";
/// The node name under which an import claims shards.
const IMPORTER: &str = "import";
/// The maximum number of bytes of an entry, more than the note of a checkpoint needs.
const NOTE_BYTES_MAX: usize = 4_096;

/// The first bytes of the hash of an API key, which names its home.
pub type KeyMark = [u8; 8];

/// The stage of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Stage {
    /// The import was given up before it wrote anything.
    Withdrawn,
    Unfinished,
    Finished,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct MarkRecord {
    stage: Stage,
    incarnation: [u8; 16],
    /// The keys that name the homes of API keys.
    homes: Vec<String>,
}

/// The reason why data is not imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The cluster cannot be reached, or does not meet the requirements.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The bucket did not answer.
    #[error("NATS_UNREACHABLE: {0}")]
    Bucket(#[from] CoordinationError),
    /// A node is running.
    #[error("IN_USE: the node {0} runs; stop all nodes, and wait until its lease has ended (13 s)")]
    InUse(NodeName),
    /// The cluster has data already.
    #[error(
        "NOT_EMPTY: shard {0} has been used: an import needs a cluster that no node has served; \
         make one of another cluster.name with `postrider cluster init`"
    )]
    NotEmpty(u16),
    /// Another import has started since.
    #[error("IN_USE: another import into the cluster has begun; this one has ended")]
    Replaced,
    /// A log cannot be read.
    #[error("LOST: the log of shard {shard} cannot be read: {error}")]
    Log {
        /// The shard.
        shard: u16,
        /// Why.
        error: LogError,
    },
    /// A log cannot be written.
    #[error("NOT_STORED: the log of shard {shard} cannot be written: {what}")]
    Append {
        /// The shard.
        shard: u16,
        /// Why.
        what: String,
    },
    /// A checkpoint was not stored.
    #[error("NOT_STORED: the checkpoint of shard {shard} was not stored: {error}")]
    Checkpoint {
        /// The shard.
        shard: u16,
        /// Why.
        error: CheckpointsError,
    },
}

fn mark_of(bucket: &dyn Coordination) -> Result<Option<(MarkRecord, u64)>, CoordinationError> {
    let Some(kept) = bucket.read(MARK)? else { return Ok(None) };
    Ok(Some((decode(MARK, &kept.value)?, kept.revision)))
}

/// Returns an error while an import is unfinished: the cluster then holds only a part of it.
pub(crate) fn must_be_finished(bucket: &dyn Coordination) -> Result<(), JoinError> {
    match mark_of(bucket)? {
        Some((MarkRecord { stage: Stage::Unfinished, .. }, _)) => Err(JoinError::ImportUnfinished),
        _ => Ok(()),
    }
}

/// Reads the homes of the imported API keys, which do not carry their homes.
pub(crate) fn homes_of_keys(
    bucket: &dyn Coordination,
) -> Result<HashMap<KeyMark, u16>, CoordinationError> {
    let mut homes = HashMap::new();
    for key in mark_of(bucket)?.map(|(mark, _)| mark.homes).unwrap_or_default() {
        let Some(kept) = bucket.read(&key)? else { continue };
        let some: Vec<(KeyMark, u16)> = decode(&key, &kept.value)?;
        homes.extend(some);
    }
    Ok(homes)
}

/// An import that is under way.
#[derive(Debug)]
pub struct ClusterImport {
    opened: Opened,
    incarnation: [u8; 16],
    mark: MarkRecord,
    revision: u64,
    /// The last position of each shard that is done.
    ends: BTreeMap<u16, Position>,
}

/// A shard that is claimed for an import.
#[derive(Debug)]
pub struct ShardClaim {
    /// The shard.
    pub shard: u16,
    /// Its log's identity.
    pub id: LogId,
    /// The claim, at which all data of the shard is.
    pub at: Mark,
    log: ReplicatedLog,
    time_ms: u64,
}

impl ClusterImport {
    /// Starts an import into a cluster that is empty, or in which an import was not finished.
    ///
    /// `incarnation` belongs to this import alone.
    ///
    /// # Errors
    /// [`ImportError::InUse`], [`ImportError::NotEmpty`], and others of [`ImportError`].
    pub fn begin(
        access: &Access,
        monitor: &dyn Monitor,
        incarnation: [u8; 16],
    ) -> Result<Self, ImportError> {
        let opened = open(access, monitor)?;
        let mark = MarkRecord { stage: Stage::Unfinished, incarnation, homes: Vec::new() };
        let before = mark_of(&*opened.bucket)?;
        let goes_on = before.as_ref().is_some_and(|(it, _)| it.stage == Stage::Unfinished);
        let revision = before.map_or(0, |(_, revision)| revision);
        let mut import = Self { opened, incarnation, mark, revision, ends: BTreeMap::new() };
        match import.must_be_unused(goes_on) {
            // The unfinished import ended before it noticed that a node has served.
            Err(error @ ImportError::NotEmpty(_)) if goes_on => {
                import.withdraw()?;
                return Err(error);
            }
            unused => unused?,
        }
        import.note(Stage::Unfinished)?;
        // A node that started meanwhile has its key by now, or sees the mark.
        if let Err(error) = import.must_be_unused(goes_on) {
            import.withdraw()?;
            return Err(error);
        }
        Ok(import)
    }

    /// Returns the record of the cluster.
    #[must_use]
    pub const fn cluster(&self) -> &ClusterRecord {
        &self.opened.record
    }

    fn must_be_unused(&self, goes_on: bool) -> Result<(), ImportError> {
        // The key of a stopped node exists for one more second.
        let mut nodes = read_nodes(&*self.opened.bucket)?.into_iter();
        if let Some((node, _)) = nodes.find(|(_, record)| !record.is_draining) {
            return Err(ImportError::InUse(node));
        }
        for shard in 0..self.opened.record.shards {
            let failed = |error| ImportError::Log { shard, error };
            let log = self.log(shard).map_err(failed)?;
            if !is_unused(&log, goes_on).map_err(failed)? {
                return Err(ImportError::NotEmpty(shard));
            }
        }
        Ok(())
    }

    /// Lets nodes start, unless the cluster holds a part of an import, which must never be served.
    fn withdraw(&mut self) -> Result<(), ImportError> {
        for shard in 0..self.opened.record.shards {
            let failed = |error| ImportError::Checkpoint { shard, error };
            let listed = self.checkpoints(shard).list().map_err(failed)?;
            if listed.iter().any(|it| it.node == IMPORTER) {
                return Ok(());
            }
        }
        self.note(Stage::Withdrawn)
    }

    fn log(&self, shard: u16) -> Result<ReplicatedLog, LogError> {
        let missing = || LogError::Failed("there is no such shard".to_owned());
        let stream = self.opened.streams.get(usize::from(shard)).ok_or_else(missing)?.clone();
        let (id, options) = (stream.id(), ReplicatedOptions::default());
        ReplicatedLog::open(id, shard, stream, Arc::new(BootClock), options)
    }

    /// Writes the mark, if its revision is the one that this import knows.
    fn note(&mut self, stage: Stage) -> Result<(), ImportError> {
        self.mark.stage = stage;
        let value = encode(MARK, &self.mark)?;
        match self.opened.bucket.write(MARK, value, self.revision, None) {
            Ok(Some(revision)) => {
                self.revision = revision;
                return Ok(());
            }
            // The only writer may still be refused, and an unanswered write may have succeeded.
            Ok(None) | Err(CoordinationError::Silent(_)) => {}
            Err(error) => return Err(error.into()),
        }
        match mark_of(&*self.opened.bucket)? {
            Some((there, revision))
                if (there.incarnation, there.stage) == (self.incarnation, stage) =>
            {
                self.revision = revision;
                Ok(())
            }
            _ => Err(ImportError::Replaced),
        }
    }

    /// Returns an error if another import has started since.
    fn must_be_mine(&self) -> Result<(), ImportError> {
        match mark_of(&*self.opened.bucket)? {
            Some((mark, _)) if mark.incarnation == self.incarnation => Ok(()),
            _ => Err(ImportError::Replaced),
        }
    }

    /// Claims a shard, at this engine time.
    ///
    /// # Errors
    /// See [`ImportError`].
    pub fn claim(&self, shard: u16, time_ms: u64) -> Result<ShardClaim, ImportError> {
        self.must_be_mine()?;
        let log = self.log(shard).map_err(|error| ImportError::Log { shard, error })?;
        let body = Claim {
            node: IMPORTER.to_owned(),
            incarnation: self.incarnation,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            readable_from: DATA_FORMAT,
        };
        let tail = claim(&log, &body, time_ms).map_err(|error| match error {
            ClaimError::Append(AppendError::Taken(_)) => ImportError::Replaced,
            error => ImportError::Append { shard, what: error.to_string() },
        })?;
        let at = Mark { position: tail.last, epoch: tail.epoch, hash: tail.hash };
        Ok(ShardClaim { shard, id: log.id(), at, log, time_ms })
    }

    /// Stores a shard's archive, made at its claim, as its only checkpoint.
    ///
    /// # Errors
    /// See [`ImportError`]; the shard may be imported again.
    pub fn keep(&mut self, claimed: &ShardClaim, file: &Path) -> Result<(), ImportError> {
        let ShardClaim { shard, at, log, time_ms, .. } = claimed;
        let shard = *shard;
        let failed = |error| ImportError::Checkpoint { shard, error };
        let checkpoints = self.checkpoints(shard);
        let record = CheckpointRecord {
            position: at.position.0,
            epoch: at.epoch,
            hash: at.hash.0,
            time_ms: *time_ms,
            node: IMPORTER.to_owned(),
            incarnation: self.incarnation,
            digest: Digest::of_file(file).map_err(failed)?,
        };
        let still = || self.must_be_mine().is_ok();
        checkpoints.keep_alone(&record, file, &still).map_err(failed)?;
        let end = note(log, &record, checkpoints.name(&record), *time_ms);
        let end = end.map_err(|what| ImportError::Append { shard, what })?;
        log.trim(at.position).map_err(|error| ImportError::Log { shard, error })?;
        self.ends.insert(shard, end);
        Ok(())
    }

    fn checkpoints(&self, shard: u16) -> ShardCheckpoints {
        let Opened { bucket, archives, record, .. } = &self.opened;
        let bytes_max = record.stream_bytes_max.unsigned_abs();
        ShardCheckpoints::new(shard, bucket.clone(), archives.clone(), bytes_max)
    }

    /// Stores the homes of API keys that do not carry them.
    ///
    /// # Errors
    /// See [`ImportError`].
    pub fn keep_homes(&mut self, homes: &[(KeyMark, u16)]) -> Result<(), ImportError> {
        let mut parts: BTreeMap<u8, Vec<(KeyMark, u16)>> = BTreeMap::new();
        for (mark, home) in homes {
            parts.entry(mark[0]).or_default().push((*mark, *home));
        }
        self.mark.homes.clear();
        let incarnation = u128::from_be_bytes(self.incarnation);
        let incarnation = format!("{incarnation:032x}");
        for (first, mut part) in parts {
            part.sort_unstable();
            // Another import that has started since writes none of these keys.
            let key = format!("{HOMES}{incarnation}.{first:02x}");
            let revision = self.opened.bucket.read(&key)?.map_or(0, |kept| kept.revision);
            let value = encode(&key, &part)?;
            let written = self.opened.bucket.write(&key, value, revision, None)?;
            written.ok_or(ImportError::Replaced)?;
            self.mark.homes.push(key);
        }
        Ok(())
    }

    /// Finishes the import: from here on nodes may start.
    ///
    /// # Errors
    /// See [`ImportError`]; the import is not finished then.
    pub fn finish(mut self) -> Result<(), ImportError> {
        for shard in 0..self.opened.record.shards {
            let log = self.log(shard).and_then(|log| log.tail());
            let tail = log.map_err(|error| ImportError::Log { shard, error })?;
            if self.ends.get(&shard) != Some(&tail.last) {
                return Err(ImportError::Replaced);
            }
        }
        self.note(Stage::Finished)
    }
}

/// Returns whether a log has nothing, or only entries of an unfinished import.
fn is_unused(log: &ReplicatedLog, goes_on: bool) -> Result<bool, LogError> {
    let tail = log.tail()?;
    if tail.last == Position::START || !goes_on {
        return Ok(tail.last == Position::START);
    }
    let mut is_unused = true;
    log.read(tail.first, &mut |entry| {
        is_unused = match entry.header.kind {
            Kind::Claim => Claim::decode(entry.body()).is_ok_and(|it| it.node == IMPORTER),
            Kind::Checkpoint => true,
            Kind::Group | Kind::Handoff => false,
        };
        if is_unused {
            std::ops::ControlFlow::Continue(())
        } else {
            std::ops::ControlFlow::Break(())
        }
    })?;
    Ok(is_unused)
}

/// Notes a checkpoint in the log. Returns the position of the note.
fn note(
    log: &ReplicatedLog,
    record: &CheckpointRecord,
    archive: String,
    time_ms: u64,
) -> Result<Position, String> {
    let Digest { sha256, bytes } = record.digest;
    let note = CheckpointNote { position: Position(record.position), archive, sha256, bytes };
    let tail = log.tail().map_err(|error| error.to_string())?;
    if tail.last != note.position {
        return Err("another writer has claimed it".to_owned());
    }
    let next = tail.next(tail.epoch);
    let encoded = |error: EncodeError| error.to_string();
    let body = note.encode().map_err(encoded)?;
    let entries = encode_commit(&next, Kind::Checkpoint, time_ms, &body, NOTE_BYTES_MAX);
    let appended = log.append(next.position, &entries.map_err(encoded)?);
    appended.map_err(|error| error.to_string())?;
    Ok(next.position)
}

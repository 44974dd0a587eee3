//! The record of a cluster in its bucket, and the functions that make and open a cluster.
//!
//! It owns the facts that are fixed when a cluster is made: its identity, its shards, its master
//! key.

use std::sync::Arc;

use postrider_log::LogId;
use serde::{Deserialize, Serialize};

use crate::archive_store::{CheckpointStore, CheckpointsIn, archives_of, make_archives};
use crate::checkpoints::{Archives, CheckpointsError, checkpoints_key};
use crate::coordination::{ASSIGNMENT, Coordination, CoordinationError, decode, encode};
use crate::files::make_files;
use crate::name::NodeName;
use crate::nats::preflight::{Monitor, PreflightError, Requirements, preflight};
use crate::nats::{Nats, NatsBucket, NatsError, NatsOptions, NatsStream, StreamSpec};

/// The key of the record.
const META: &str = "meta";

/// The fixed facts of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// 16 random bytes, as hexadecimal digits.
    pub id: String,
    /// The number of shards.
    pub shards: u16,
    /// The number of servers that store each stream.
    pub replicas: usize,
    /// The maximum number of bytes of a stream.
    pub stream_bytes_max: i64,
    /// The fingerprint of the master key with which the cluster was made.
    pub key: String,
    /// The kind of store of its checkpoints.
    #[serde(default, skip_serializing_if = "CheckpointsIn::is_nats")]
    pub checkpoints: CheckpointsIn,
}

/// The parameters with which a cluster is reached.
#[derive(Debug, Clone)]
pub struct Access {
    /// The name of the cluster.
    pub cluster: NodeName,
    /// The addresses and options of NATS.
    pub nats: NatsOptions,
    /// The requirements that NATS must meet.
    pub requirements: Requirements,
    /// The fingerprints of the master keys, the current one first.
    pub keys: Vec<String>,
    /// The version of the current master key.
    pub key_version: u8,
    /// The maximum number of bytes of the contents of files, used when their stream is made.
    pub files_bytes_max: i64,
    /// The store of the checkpoints.
    pub checkpoints: CheckpointStore,
}

impl Access {
    /// Returns the form in which a node reports its current master key to others.
    pub(crate) fn current_key(&self) -> String {
        format!("{}-{}", self.key_version, self.keys.first().map_or("", String::as_str))
    }
}

/// The reason why a cluster cannot be made or joined.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The servers do not meet the requirements.
    #[error(transparent)]
    Preflight(#[from] PreflightError),
    /// NATS did not carry out a request.
    #[error(transparent)]
    Nats(#[from] NatsError),
    /// The bucket did not answer.
    #[error("NATS_UNREACHABLE: {0}")]
    Bucket(#[from] CoordinationError),
    /// There is no such cluster.
    #[error("CLUSTER_MISSING: there is no cluster {0}; `postrider cluster init` makes it")]
    Missing(NodeName),
    /// The stream of a shard is missing.
    #[error(
        "CLUSTER_MISSING: the stream of shard {0} is not there; `postrider cluster repair --shard \
         {0}` makes it anew of what is kept (`postrider cluster init` if it did not come to its \
         end, and nothing was ever kept in the cluster)"
    )]
    StreamMissing(u16),
    /// The stream of the contents of files is missing.
    #[error(
        "CLUSTER_MISSING: the stream OBJ_PR_{0}_files, which had the contents of files, is not \
         there; `postrider cluster init` makes it anew without them"
    )]
    FilesMissing(NodeName),
    /// The stream of the contents of files was never made, and cannot be made now.
    #[error(
        "FILES_NOT_MADE: NATS does not make the stream for the contents of files, for which it \
         reserves {bytes} bytes ({what}); give its servers room, or lower cluster.files_bytes_max"
    )]
    FilesNotMade {
        /// The number of bytes that it reserves.
        bytes: i64,
        /// The error of NATS.
        what: String,
    },
    /// The directory of the checkpoints is missing, or belongs to another cluster.
    #[error("CLUSTER_MISSING: {0}; `postrider cluster init` makes one for a new cluster")]
    Checkpoints(CheckpointsError),
    /// The cluster is not the requested one.
    #[error("CLUSTER_MISMATCH: {0}")]
    Mismatch(String),
    /// The cluster was made with another master key.
    #[error(
        "MASTER_KEY_MISMATCH: the cluster was made with another master key; every node needs the \
         same secrets.master_key (the earlier one may be in secrets.previous_master_keys)"
    )]
    Key,
    /// A node runs with another master key.
    #[error(
        "MASTER_KEY_MISMATCH: the node {0} runs with another current master key, or calls it \
         another version; stop all nodes before the first one starts with a new key, and give \
         all of them the same secrets.master_key and secrets.master_key_version"
    )]
    OtherKey(NodeName),
    /// The cluster holds only a part of an import.
    #[error(
        "IMPORT_UNFINISHED: an import into the cluster was not finished, so it has a part of the \
         data; run `postrider import --cluster` again"
    )]
    ImportUnfinished,
    /// Another node has the name.
    #[error("NODE_NAME_TAKEN: a live node of another directory is called {0}; set cluster.node")]
    NameTaken(NodeName),
}

impl ClusterRecord {
    /// Returns the specification of the stream of one shard.
    #[must_use]
    pub fn stream(&self, cluster: &NodeName, shard: u16) -> StreamSpec {
        let (cluster, replicas) = (cluster.clone(), self.replicas);
        StreamSpec { cluster, shard, replicas, bytes_max: self.stream_bytes_max }
    }

    /// Returns the shard of a workspace with this home.
    #[must_use]
    pub fn shard_of(&self, home: u16) -> u16 {
        // Both counts are powers of two, and there are at least two shards.
        home.checked_shr(16 - self.shards.trailing_zeros()).unwrap_or(0)
    }

    /// Returns the identity of a shard's log: that of the cluster, combined with the shard.
    pub(crate) fn log_id(&self, shard: u16) -> Option<LogId> {
        let byte = |at: usize| u8::from_str_radix(self.id.get(at * 2..at * 2 + 2)?, 16).ok();
        let mut id: [u8; 16] = (0..16).map(byte).collect::<Option<Vec<_>>>()?.try_into().ok()?;
        let [high, low] = shard.to_be_bytes();
        (id[14], id[15]) = (id[14] ^ high, id[15] ^ low);
        Some(LogId(id))
    }

    /// Reads the record of a cluster.
    ///
    /// # Errors
    /// [`JoinError::Missing`] when there is none; [`JoinError::Key`] for another master key.
    pub fn read(bucket: &dyn Coordination, access: &Access) -> Result<Self, JoinError> {
        let kept = bucket.read(META)?;
        let kept = kept.ok_or_else(|| JoinError::Missing(access.cluster.clone()))?;
        let record: Self = decode(META, &kept.value)?;
        if !access.keys.contains(&record.key) {
            return Err(JoinError::Key);
        }
        Ok(record)
    }
}

/// Makes a cluster, unless it exists with the same settings.
///
/// Returns its record, and whether this call made it. It may be called again after a failure. If a
/// stream of a used cluster is missing, it is not made: the shard would seem to be empty.
///
/// # Errors
/// See [`JoinError`].
pub fn init(
    access: &Access,
    wanted: &ClusterRecord,
    monitor: &dyn Monitor,
) -> Result<(ClusterRecord, bool), JoinError> {
    preflight(&access.nats, &access.requirements, &[], monitor)?;
    let nats = Nats::connect(&access.nats)?;
    NatsBucket::create(&nats, &access.cluster, wanted.replicas)?;
    let bucket = NatsBucket::open(&nats, &access.cluster)?;
    let created = bucket.write(META, encode(META, wanted)?, 0, None)?.is_some();
    let record = ClusterRecord::read(&bucket, access)?;
    for (what, there, asked) in [
        ("cluster.shards", u64::from(record.shards), u64::from(wanted.shards)),
        ("replicas (cluster.allow_unreplicated)", record.replicas as u64, wanted.replicas as u64),
        (
            "cluster.stream_bytes_max",
            record.stream_bytes_max.unsigned_abs(),
            wanted.stream_bytes_max.unsigned_abs(),
        ),
    ] {
        if there != asked {
            let cluster = &access.cluster;
            let why = format!("the cluster {cluster} is there with {what} = {there}, not {asked}");
            return Err(JoinError::Mismatch(why));
        }
    }
    // An earlier run may have failed before this point.
    let is_new = created || !was_used(&bucket, 0)?;
    make_archives(&nats, access, &record, is_new)?;
    for shard in 0..record.shards {
        let id = record.log_id(shard);
        let id = id.ok_or_else(|| JoinError::Mismatch("the cluster's id is none".to_owned()))?;
        if was_used(&bucket, shard)? {
            stream_of(&nats, access, &record, shard)?;
        }
        NatsStream::create(&nats, &record.stream(&access.cluster, shard), id)?;
    }
    make_files(&nats, access, &record, &bucket)?;
    Ok((record, created))
}

/// Returns whether a shard may have had data: shards were assigned, or a checkpoint was stored.
fn was_used(bucket: &dyn Coordination, shard: u16) -> Result<bool, CoordinationError> {
    let has = |key: &str| bucket.read(key).map(|kept| kept.is_some());
    Ok(has(ASSIGNMENT)? || has(&checkpoints_key(shard))?)
}

/// Everything of NATS that a node needs, checked.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) bucket: Arc<NatsBucket>,
    pub(crate) archives: Arc<dyn Archives>,
    pub(crate) record: ClusterRecord,
    pub(crate) streams: Vec<Arc<NatsStream>>,
    pub(crate) version: String,
}

/// Opens an existing cluster.
pub(crate) fn open(access: &Access, monitor: &dyn Monitor) -> Result<Opened, JoinError> {
    let nats = Nats::connect(&access.nats)?;
    let (bucket, record) = bucket_of(&nats, access)?;
    let shards = 0..record.shards;
    let streams = shards.map(|shard| stream_of(&nats, access, &record, shard));
    let streams = streams.collect::<Result<_, _>>()?;
    opened(&nats, access, monitor, (bucket, record, streams))
}

/// Opens a cluster of which streams may be missing.
///
/// Returns the existing streams, and beside them the stream of the shard `without`.
pub(crate) fn open_without(
    access: &Access,
    monitor: &dyn Monitor,
    without: u16,
) -> Result<(Opened, Result<Arc<NatsStream>, MissingStream>), JoinError> {
    let nats = Nats::connect(&access.nats)?;
    let (bucket, record) = bucket_of(&nats, access)?;
    let (access_to, of) = (access.clone(), record.clone());
    let mut own =
        Err(MissingStream { nats: nats.clone(), access: access_to, record: of, shard: without });
    let mut streams = Vec::new();
    for shard in 0..record.shards {
        match stream_of(&nats, access, &record, shard) {
            // The missing ones are repaired one after the other.
            Err(JoinError::StreamMissing(_)) => {}
            Err(error) => return Err(error),
            Ok(stream) => {
                if shard == without {
                    own = Ok(stream.clone());
                }
                streams.push(stream);
            }
        }
    }
    Ok((opened(&nats, access, monitor, (bucket, record, streams))?, own))
}

/// The missing stream of a shard.
#[derive(Debug)]
pub(crate) struct MissingStream {
    nats: Arc<Nats>,
    access: Access,
    record: ClusterRecord,
    shard: u16,
}

impl MissingStream {
    /// Makes the stream again.
    pub(crate) fn make(&self) -> Result<Arc<NatsStream>, JoinError> {
        let Self { nats, access, record, shard } = self;
        let id = record.log_id(*shard);
        let id = id.ok_or_else(|| JoinError::Mismatch("the cluster's id is none".to_owned()))?;
        NatsStream::create(nats, &record.stream(&access.cluster, *shard), id)?;
        stream_of(nats, access, record, *shard)
    }
}

pub(crate) fn bucket_of(
    nats: &Arc<Nats>,
    access: &Access,
) -> Result<(Arc<NatsBucket>, ClusterRecord), JoinError> {
    let bucket = match NatsBucket::open(nats, &access.cluster) {
        Err(NatsError::Missing(_)) => return Err(JoinError::Missing(access.cluster.clone())),
        bucket => Arc::new(bucket?),
    };
    let record = ClusterRecord::read(&*bucket, access)?;
    Ok((bucket, record))
}

fn stream_of(
    nats: &Arc<Nats>,
    access: &Access,
    record: &ClusterRecord,
    shard: u16,
) -> Result<Arc<NatsStream>, JoinError> {
    let stream = match NatsStream::open(nats, &record.stream(&access.cluster, shard)) {
        Err(NatsError::Missing(_)) => return Err(JoinError::StreamMissing(shard)),
        stream => stream?,
    };
    if Some(stream.id()) != record.log_id(shard) {
        let why = format!("the stream of shard {shard} is of another cluster");
        return Err(JoinError::Mismatch(why));
    }
    Ok(Arc::new(stream))
}

fn opened(
    nats: &Arc<Nats>,
    access: &Access,
    monitor: &dyn Monitor,
    (bucket, record, streams): (Arc<NatsBucket>, ClusterRecord, Vec<Arc<NatsStream>>),
) -> Result<Opened, JoinError> {
    let all: Vec<_> = streams.iter().map(Arc::as_ref).collect();
    preflight(&access.nats, &access.requirements, &all, monitor)?;
    let version = nats.server().version;
    let archives = archives_of(nats, access, &record)?;
    Ok(Opened { bucket, archives, record, streams, version })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shard_has_a_log_of_its_own() {
        let record = ClusterRecord {
            id: "00112233445566778899aabbccddeeff".to_owned(),
            shards: 512,
            replicas: 3,
            stream_bytes_max: 1,
            key: String::new(),
            checkpoints: CheckpointsIn::Nats,
        };
        let ids: std::collections::BTreeSet<_> =
            (0..512).map(|shard| record.log_id(shard).unwrap().0).collect();
        assert_eq!(ids.len(), 512);
        assert_eq!(ClusterRecord { id: "0".to_owned(), ..record }.log_id(0), None);
    }
}

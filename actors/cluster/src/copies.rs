//! The shards of a cluster, opened for copying: nothing is claimed and nothing is written.

use std::sync::Arc;

use postrider_log::LogError;

use crate::checkpoints::ShardCheckpoints;
use crate::clock::BootClock;
use crate::cluster_record::{Access, JoinError, open};
use crate::import::must_be_finished;
use crate::log::{ReplicatedLog, ReplicatedOptions};
use crate::nats::preflight::Monitor;

/// One shard, opened for reading.
#[derive(Debug)]
pub struct ShardCopy {
    /// Its number.
    pub shard: u16,
    /// Its log.
    pub log: ReplicatedLog,
    /// Its checkpoints.
    pub checkpoints: ShardCheckpoints,
}

/// The reason why shards cannot be copied.
#[derive(Debug, thiserror::Error)]
pub enum ShardCopyError {
    /// The cluster does not exist, or NATS does not meet the requirements.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The log of a shard cannot be read.
    #[error("LOST: the log of shard {shard} cannot be read: {error}")]
    Log {
        /// The shard.
        shard: u16,
        /// Why.
        error: LogError,
    },
}

/// Opens all shards of a cluster.
///
/// # Errors
/// See [`ShardCopyError`].
pub fn shard_copies(
    access: &Access,
    monitor: &dyn Monitor,
) -> Result<Vec<ShardCopy>, ShardCopyError> {
    let opened = open(access, monitor)?;
    must_be_finished(&*opened.bucket)?;
    let bytes_max = opened.record.stream_bytes_max.unsigned_abs();
    let mut shards = Vec::new();
    for (shard, stream) in (0..).zip(opened.streams) {
        let (bucket, archives) = (opened.bucket.clone(), opened.archives.clone());
        let checkpoints = ShardCheckpoints::new(shard, bucket, archives, bytes_max);
        let (id, options) = (stream.id(), ReplicatedOptions::default());
        let log = ReplicatedLog::open(id, shard, stream, Arc::new(BootClock), options);
        let log = log.map_err(|error| ShardCopyError::Log { shard, error })?;
        shards.push(ShardCopy { shard, log, checkpoints });
    }
    Ok(shards)
}

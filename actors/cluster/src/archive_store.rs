//! The store of a cluster's checkpoints: NATS, or a directory that all nodes share.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::checkpoints::{Archives, DirectoryArchives};
use crate::cluster_record::{Access, ClusterRecord, JoinError};
use crate::nats::{Nats, NatsArchives};

/// The kind of store in which a cluster keeps its checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckpointsIn {
    /// An object store of NATS.
    #[default]
    Nats,
    /// A directory.
    Directory,
}

impl CheckpointsIn {
    pub(crate) const fn is_nats(&self) -> bool {
        matches!(self, Self::Nats)
    }
}

/// The store of a cluster's checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CheckpointStore {
    /// In NATS, beside the logs.
    #[default]
    Nats,
    /// Below a directory that all nodes share.
    Directory(PathBuf),
}

impl CheckpointStore {
    /// Returns the kind of the store.
    #[must_use]
    pub const fn kind(&self) -> CheckpointsIn {
        match self {
            Self::Nats => CheckpointsIn::Nats,
            Self::Directory(_) => CheckpointsIn::Directory,
        }
    }
}

/// Returns the directory of the settings, if the checkpoints are in one.
///
/// The record of the cluster must name the same kind of store.
fn directory_of(
    access: &Access,
    record: &ClusterRecord,
) -> Result<Option<DirectoryArchives>, JoinError> {
    if access.checkpoints.kind() != record.checkpoints {
        let where_ = match record.checkpoints {
            CheckpointsIn::Nats => "NATS: set cluster.checkpoints = \"nats\"",
            CheckpointsIn::Directory => "a directory: set cluster.checkpoints to it",
        };
        let cluster = &access.cluster;
        let why = format!("the cluster {cluster} keeps its checkpoints in {where_}");
        return Err(JoinError::Mismatch(why));
    }
    let CheckpointStore::Directory(dir) = &access.checkpoints else { return Ok(None) };
    let dir = dir.join(format!("postrider-{}", access.cluster));
    Ok(Some(DirectoryArchives::new(dir, record.id.clone())))
}

/// Makes the store of the checkpoints.
///
/// A directory is made only for a new cluster. The directory of an existing cluster has data that
/// the logs no longer have.
pub(crate) fn make_archives(
    nats: &Nats,
    access: &Access,
    record: &ClusterRecord,
    is_new: bool,
) -> Result<(), JoinError> {
    match directory_of(access, record)? {
        None => Ok(NatsArchives::create(nats, &access.cluster, record.replicas)?),
        Some(directory) if is_new => directory.create().map_err(JoinError::Checkpoints),
        Some(directory) => directory.check().map_err(JoinError::Checkpoints),
    }
}

/// Opens the store of the checkpoints.
pub(crate) fn archives_of(
    nats: &Nats,
    access: &Access,
    record: &ClusterRecord,
) -> Result<Arc<dyn Archives>, JoinError> {
    if let Some(directory) = directory_of(access, record)? {
        directory.check().map_err(JoinError::Checkpoints)?;
        return Ok(Arc::new(directory));
    }
    // A cluster that an earlier version made has no store of checkpoints.
    NatsArchives::create(nats, &access.cluster, record.replicas)?;
    Ok(Arc::new(NatsArchives::open(Nats::connect(&access.nats)?, &access.cluster)?))
}

//! A shard of a cluster on this node: its data, and the store of its checkpoints for other nodes.

use std::sync::Arc;

use postrider_domain::Timestamp;
use postrider_store::blobs::Blobs;
use postrider_store::checkpoints::Made;
use postrider_store::replica::OpenedReplica;
use postrider_store::{CheckpointError, LogStore, Position};

use crate::copies::DataSource;

/// A stored checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptCheckpoint {
    /// The position of the checkpoint.
    pub position: Position,
    /// The length of the checkpoint.
    pub bytes: u64,
    /// The engine time of its creation.
    pub made: Timestamp,
}

/// Stores checkpoints where other nodes find them. Its methods block.
pub trait CheckpointKeeper: Send + Sync {
    /// Returns the newest stored checkpoint, and the position after which the stored ones need the
    /// log.
    ///
    /// # Errors
    /// [`CheckpointError`]: it is not known.
    fn kept(&self) -> Result<(Option<KeptCheckpoint>, Position), CheckpointError>;

    /// Returns the bytes of log since the last checkpoint at which the next one is made at the
    /// latest.
    fn log_bytes_max(&self) -> u64;

    /// Returns the bytes of the whole log above which the next checkpoint is made in any case.
    fn whole_log_bytes_max(&self) -> u64;

    /// Stores a checkpoint durably, and records it in the log of the store. Returns the position
    /// after which the stored ones need the log. It ends early when `gives_up` returns `true`.
    ///
    /// # Errors
    /// [`CheckpointError`]: it is not stored, and no earlier one is lost.
    fn keep(
        &self,
        made: &Made,
        store: &LogStore,
        gives_up: &dyn Fn() -> bool,
    ) -> Result<Position, CheckpointError>;
}

/// The data of an engine of a cluster's node.
#[derive(Clone)]
pub struct Replica {
    pub(super) data: DataSource,
    pub(super) keeper: Arc<dyn CheckpointKeeper>,
    /// The store of the contents of files; `None` if there is none.
    pub(super) files: Option<Arc<dyn Blobs>>,
}

impl Replica {
    /// Returns the bytes of the whole log above which the next snapshot is taken.
    pub(super) fn whole_log_bytes_max(&self) -> u64 {
        self.keeper.whole_log_bytes_max()
    }

    /// Creates a replica from the opened data and the keeper of its checkpoints.
    #[must_use]
    pub fn new(opened: OpenedReplica, keeper: Arc<dyn CheckpointKeeper>) -> Self {
        let (store, snapshots, checkpoints) = opened;
        let data = DataSource::new(Arc::new(store), Arc::new(snapshots), checkpoints);
        Self { data, keeper, files: None }
    }

    /// Returns the replica with a store of the contents of files, which the next owner has too.
    #[must_use]
    pub fn with_files(self, files: Arc<dyn Blobs>) -> Self {
        Self { files: Some(files), ..self }
    }
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Replica")
    }
}

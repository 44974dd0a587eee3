//! A shard of a cluster on this node: its data, and where its checkpoints are kept for others.

use std::sync::Arc;

use postrider_domain::Timestamp;
use postrider_store::blobs::Blobs;
use postrider_store::checkpoints::Made;
use postrider_store::replica::OpenedReplica;
use postrider_store::{CheckpointError, LogStore, Position};

use crate::copies::DataSource;

/// A checkpoint that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptCheckpoint {
    /// Its position.
    pub position: Position,
    /// Its length.
    pub bytes: u64,
    /// Engine time when it was made.
    pub made: Timestamp,
}

/// Keeps checkpoints where other nodes find them. Its methods block.
pub trait CheckpointKeeper: Send + Sync {
    /// The newest one that is kept, and after which position the log is needed for all that are.
    ///
    /// # Errors
    /// [`CheckpointError`]: it is not known.
    fn kept(&self) -> Result<(Option<KeptCheckpoint>, Position), CheckpointError>;

    /// The log since the last one at which the next one is made at the latest.
    fn log_bytes_max(&self) -> u64;

    /// The whole log above which the next one is made, however little came since the last one.
    fn whole_log_bytes_max(&self) -> u64;

    /// Keeps one, durably, says so in the log of the store, and returns after which position the
    /// log is needed for the ones that are kept. It ends early when `gives_up` says so.
    ///
    /// # Errors
    /// [`CheckpointError`]: it is not kept, and none that was is lost.
    fn keep(
        &self,
        made: &Made,
        store: &LogStore,
        gives_up: &dyn Fn() -> bool,
    ) -> Result<Position, CheckpointError>;
}

/// What an engine of a cluster's node runs over.
#[derive(Clone)]
pub struct Replica {
    pub(super) data: DataSource,
    pub(super) keeper: Arc<dyn CheckpointKeeper>,
    /// Where the contents of files are; `None`: none are kept.
    pub(super) files: Option<Arc<dyn Blobs>>,
}

impl Replica {
    /// The whole log above which the next snapshot is taken.
    pub(super) fn whole_log_bytes_max(&self) -> u64 {
        self.keeper.whole_log_bytes_max()
    }

    /// What was opened, and what keeps its checkpoints.
    #[must_use]
    pub fn new(opened: OpenedReplica, keeper: Arc<dyn CheckpointKeeper>) -> Self {
        let (store, snapshots, checkpoints) = opened;
        let data = DataSource::new(Arc::new(store), Arc::new(snapshots), checkpoints);
        Self { data, keeper, files: None }
    }

    /// The same with a place for the contents of files, which the next owner has too.
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

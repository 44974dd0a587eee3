//! What a start has read before anything runs.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use postrider_broadcast::recover;
use postrider_channel::number_facts::NumberFacts;
use postrider_domain::{NumberId, Timestamp, WorkspaceId};
use postrider_number::record::Stored;
use postrider_store::snapshot::SnapshotDir;
use postrider_store::{Change, Position, Store, Writer};
use postrider_workspace::core::hot::HotState;
use postrider_workspace::snapshots::Rebases;

use crate::copies::DataSource;
use crate::metrics::RecentCommits;

/// What was read from the disk.
pub(super) struct Opened {
    pub(super) store: Arc<dyn Store>,
    /// The same, if it is in a directory.
    pub(super) data: Option<DataSource>,
    /// How long its last commits took, if it is in a directory.
    pub(super) commits: Option<Arc<RecentCommits>>,
    /// The snapshots and where the newest stands.
    pub(super) snapshots: Option<(Arc<SnapshotDir>, Position)>,
    /// The rebases of the clock that the journal comes past.
    pub(super) rebases: Rebases,
    pub(super) writer: Writer,
    /// The hot states, of those workspaces that have one.
    pub(super) hot: HashMap<WorkspaceId, HotState>,
    /// Those whose events cannot be read: their actors find that out, and say so.
    pub(super) damaged: Vec<WorkspaceId>,
    pub(super) workspaces: Vec<WorkspaceId>,
    /// Deleted ones of which rows are left.
    pub(super) removed: Vec<WorkspaceId>,
    /// Those in which conversations are being deleted.
    pub(super) deleting: Vec<WorkspaceId>,
    pub(super) numbers: Vec<Stored>,
    /// What their providers say of them.
    pub(super) facts: Vec<(NumberId, NumberFacts)>,
    /// What is to be noted of the master keys.
    pub(super) fingerprints: Vec<Change>,
    /// Secrets under the current master key that were under an earlier one.
    pub(super) resealed: Vec<Change>,
    pub(super) clock_offset: Duration,
    /// The latest moment of what is durable.
    pub(super) durable: Option<Timestamp>,
    pub(super) broadcasts: recover::Found,
}

impl Opened {
    /// What copies and checkpoints are made of.
    pub(super) fn data(&self) -> Option<DataSource> {
        self.data.clone()
    }
}

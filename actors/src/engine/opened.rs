//! The data that a start reads before anything runs.

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

/// The data read from the disk.
pub(super) struct Opened {
    pub(super) store: Arc<dyn Store>,
    /// The same store, if it is in a directory.
    pub(super) data: Option<DataSource>,
    /// The durations of its last commits, if it is in a directory.
    pub(super) commits: Option<Arc<RecentCommits>>,
    /// The snapshots and the position of the newest one.
    pub(super) snapshots: Option<(Arc<SnapshotDir>, Position)>,
    /// The rebases of the clock in the journal.
    pub(super) rebases: Rebases,
    pub(super) writer: Writer,
    /// The hot states of the workspaces that have one.
    pub(super) hot: HashMap<WorkspaceId, HotState>,
    /// Workspaces whose events cannot be read: their actors find and report the damage.
    pub(super) damaged: Vec<WorkspaceId>,
    pub(super) workspaces: Vec<WorkspaceId>,
    /// Deleted workspaces of which rows are left.
    pub(super) removed: Vec<WorkspaceId>,
    /// Workspaces in which conversations are being deleted.
    pub(super) deleting: Vec<WorkspaceId>,
    pub(super) numbers: Vec<Stored>,
    /// The providers' facts about them.
    pub(super) facts: Vec<(NumberId, NumberFacts)>,
    /// The changes that store fingerprints of the master keys.
    pub(super) fingerprints: Vec<Change>,
    /// Changes that encrypt secrets under the current master key instead of an earlier one.
    pub(super) resealed: Vec<Change>,
    pub(super) clock_offset: Duration,
    /// The latest time in the durable data.
    pub(super) durable: Option<Timestamp>,
    pub(super) broadcasts: recover::Found,
}

impl Opened {
    /// Returns the source of copies and checkpoints.
    pub(super) fn data(&self) -> Option<DataSource> {
        self.data.clone()
    }
}

//! What a workspace's hot state is rebuilt from.

mod rebuilds;

use std::sync::Arc;

use hashbrown::HashMap;
use postrider_domain::WorkspaceId;
use postrider_store::{Log, SnapshotDir};

use crate::core::hot::HotState;
use crate::snapshots::Rebases;

pub(crate) use rebuilds::RebuildError;
use rebuilds::Rebuilds;

/// The hot states that the start of the engine read from the journal, until their actors take
/// them, and what a later rebuild starts from.
pub struct Recovered {
    states: parking_lot::Mutex<HashMap<WorkspaceId, HotState>>,
    rebuilds: Arc<Rebuilds>,
}

impl Recovered {
    /// What a start has read: the hot states, and where a later rebuild finds log and snapshots,
    /// and the rebases of the clock that it comes past.
    pub fn new(
        states: HashMap<WorkspaceId, HotState>,
        log: Arc<dyn Log>,
        snapshots: Option<Arc<SnapshotDir>>,
        rebases: Rebases,
    ) -> Self {
        Self {
            states: parking_lot::Mutex::new(states),
            rebuilds: Arc::new(Rebuilds::new(log, snapshots, rebases)),
        }
    }

    /// The log that a rebuild reads.
    pub fn log(&self) -> &dyn Log {
        self.rebuilds.log()
    }

    /// The workspaces that wait for their actors.
    pub fn ids(&self) -> Vec<WorkspaceId> {
        self.states.lock().keys().cloned().collect()
    }

    pub(crate) fn take(&self, id: &WorkspaceId) -> Option<HotState> {
        self.states.lock().remove(id)
    }

    /// Rebuilds the state of one workspace, together with all others that are waited for. What it
    /// has queued must be settled.
    pub(crate) async fn rebuild(&self, id: &WorkspaceId) -> Result<HotState, RebuildError> {
        Rebuilds::rebuild(&self.rebuilds, id).await
    }
}

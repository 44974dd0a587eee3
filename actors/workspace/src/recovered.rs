//! The sources from which a workspace's hot state is rebuilt.

mod rebuilds;

use std::sync::Arc;

use hashbrown::HashMap;
use postrider_domain::WorkspaceId;
use postrider_store::{Log, SnapshotDir};

use crate::core::hot::HotState;
use crate::snapshots::Rebases;

pub(crate) use rebuilds::RebuildError;
use rebuilds::Rebuilds;

/// The hot states that the engine's start read from the journal, until their actors take them.
///
/// It also has the sources of later rebuilds.
pub struct Recovered {
    states: parking_lot::Mutex<HashMap<WorkspaceId, HotState>>,
    rebuilds: Arc<Rebuilds>,
}

impl Recovered {
    /// Returns the result of a start: the hot states, and the sources of later rebuilds.
    ///
    /// These are the log, the snapshots, and the rebases of the clock that the log passes.
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

    /// Returns the log that a rebuild reads.
    pub fn log(&self) -> &dyn Log {
        self.rebuilds.log()
    }

    /// Returns the workspaces that wait for their actors.
    pub fn ids(&self) -> Vec<WorkspaceId> {
        self.states.lock().keys().cloned().collect()
    }

    pub(crate) fn take(&self, id: &WorkspaceId) -> Option<HotState> {
        self.states.lock().remove(id)
    }

    /// Rebuilds the state of one workspace, together with all other waiting ones.
    ///
    /// Its queued changes must be settled.
    pub(crate) async fn rebuild(&self, id: &WorkspaceId) -> Result<HotState, RebuildError> {
        Rebuilds::rebuild(&self.rebuilds, id).await
    }
}

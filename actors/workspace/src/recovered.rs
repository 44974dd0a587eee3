//! What a workspace's hot state is rebuilt from.

use std::sync::Arc;

use hashbrown::HashMap;
use postrider_domain::WorkspaceId;
use postrider_store::{Log, Position, SnapshotDir};

use crate::core::hot::HotState;
use crate::snapshots::{self, BaseError, Rebases};

/// The hot states that the start of the engine read from the journal, until their actors take
/// them, and what a later rebuild starts from.
pub struct Recovered {
    pub(crate) states: parking_lot::Mutex<HashMap<WorkspaceId, HotState>>,
    /// The log that follows them.
    pub(crate) log: Arc<dyn Log>,
    /// Where the newest snapshots are, for rebuilding one workspace.
    pub(crate) snapshots: Option<Arc<SnapshotDir>>,
    pub(crate) rebases: Rebases,
    /// Held while one workspace is rebuilt.
    pub(crate) rebuilding: parking_lot::Mutex<()>,
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
            log,
            snapshots,
            rebases,
            rebuilding: parking_lot::Mutex::default(),
        }
    }

    /// The log that a rebuild reads.
    pub fn log(&self) -> &dyn Log {
        self.log.as_ref()
    }

    /// The workspaces that wait for their actors.
    pub fn ids(&self) -> Vec<WorkspaceId> {
        self.states.lock().keys().cloned().collect()
    }

    pub(crate) fn take(&self, id: &WorkspaceId) -> Option<HotState> {
        self.states.lock().remove(id)
    }

    /// The workspace's state in the newest good snapshot, and the position it stands at.
    pub(crate) fn base(&self, id: &WorkspaceId) -> Result<(Position, HotState), BaseError> {
        let Some(snapshots) = &self.snapshots else {
            return Ok((Position::START, HotState::default()));
        };
        let (position, mut state) = snapshots::base_of(snapshots, id)?;
        self.rebases.apply(position.previous(), position, &mut state);
        Ok((position, state))
    }
}

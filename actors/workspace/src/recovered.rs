//! The sources from which a workspace's hot state is rebuilt, and its rebuilds.
//!
//! A failed commit rebuilds many workspaces at once, so one pass over snapshot and journal serves
//! all that wait. The first request starts a thread, which makes passes as long as workspaces wait.
//! A request during a pass waits for the next one, since the pass may already be beyond the needed
//! entries. No thread of a pool waits meanwhile.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use postrider_domain::WorkspaceId;
use postrider_store::{Log, SnapshotDir, StoreError};
use tokio::sync::oneshot;

use crate::core::hot_state::HotState;
use crate::snapshots::{self, Rebases, Replay};

/// The hot states that the engine's start read from the journal, until their actors take them.
///
/// It also has the sources of later rebuilds.
pub struct Recovered {
    states: Mutex<HashMap<WorkspaceId, HotState>>,
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
            states: Mutex::new(states),
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

/// The reason why a hot state could not be rebuilt.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum RebuildError {
    /// Log or snapshots cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Their data of this workspace is damaged.
    #[error("{0}")]
    Damaged(String),
    /// The pass ended before its end.
    #[error("the rebuild stopped half-way")]
    Interrupted,
}

type RebuildAnswer = oneshot::Sender<Result<HotState, RebuildError>>;

/// The sources of rebuilds, and the waiting workspaces.
struct Rebuilds {
    log: Arc<dyn Log>,
    snapshots: Option<Arc<SnapshotDir>>,
    rebases: Rebases,
    waiting: Mutex<WaitingWorkspaces>,
}

#[derive(Default)]
struct WaitingWorkspaces {
    all: Vec<(WorkspaceId, RebuildAnswer)>,
    is_running: bool,
}

impl Rebuilds {
    fn new(log: Arc<dyn Log>, snapshots: Option<Arc<SnapshotDir>>, rebases: Rebases) -> Self {
        Self { log, snapshots, rebases, waiting: Mutex::default() }
    }

    fn log(&self) -> &dyn Log {
        self.log.as_ref()
    }

    /// Waits for the next pass.
    async fn rebuild(this: &Arc<Self>, id: &WorkspaceId) -> Result<HotState, RebuildError> {
        let (answer, rebuilt) = oneshot::channel();
        let begins = {
            let mut waiting = this.waiting.lock();
            waiting.all.push((id.clone(), answer));
            !std::mem::replace(&mut waiting.is_running, true)
        };
        if begins {
            let running = RebuildThread { rebuilds: Arc::clone(this), has_ended: false };
            let thread = std::thread::Builder::new().name("rebuild".to_owned());
            let started = thread.spawn(move || running.run());
            started
                .map_err(|error| StoreError::Failed(format!("no thread to rebuild: {error}")))?;
        }
        rebuilt.await.unwrap_or(Err(RebuildError::Interrupted))
    }

    /// Returns the workspaces that wait for the next pass; `None` at the end of this series.
    fn next(&self) -> Option<Vec<(WorkspaceId, RebuildAnswer)>> {
        let mut waiting = self.waiting.lock();
        if waiting.all.is_empty() {
            waiting.is_running = false;
            return None;
        }
        Some(std::mem::take(&mut waiting.all))
    }

    /// Reads snapshot and journal once, for these workspaces.
    fn pass(&self, of: HashSet<WorkspaceId>) -> Result<Replay, StoreError> {
        let rebases = self.rebases.clone();
        let mut replay = match &self.snapshots {
            None => Replay::from_start(rebases).only(of),
            Some(dir) => {
                let loaded = dir.load();
                let loaded = loaded.map_err(|error| StoreError::Failed(error.to_string()))?;
                snapshots::replay_of_some(&loaded, rebases, of)
            }
        };
        replay.catch_up(self.log())?;
        Ok(replay)
    }
}

/// The work of the thread.
///
/// If the thread ends before the last pass, or did not start, all waiting workspaces ask again.
struct RebuildThread {
    rebuilds: Arc<Rebuilds>,
    has_ended: bool,
}

impl RebuildThread {
    fn run(mut self) {
        while let Some(mut waiting) = self.rebuilds.next() {
            // A request that was cancelled while it waited takes nothing from its successor.
            waiting.retain(|(_, answer)| !answer.is_closed());
            let ids = waiting.iter().map(|(id, _)| id.clone()).collect();
            match self.rebuilds.pass(ids) {
                Ok(mut replay) => waiting.into_iter().for_each(|(id, answer)| {
                    let state = replay.take(&id).map_err(RebuildError::Damaged);
                    // The receiver may have been dropped.
                    drop(answer.send(state));
                }),
                Err(error) => waiting.into_iter().for_each(|(_, answer)| {
                    drop(answer.send(Err(error.clone().into())));
                }),
            }
        }
        self.has_ended = true;
    }
}

impl Drop for RebuildThread {
    fn drop(&mut self) {
        if !self.has_ended {
            let mut waiting = self.rebuilds.waiting.lock();
            waiting.is_running = false;
            waiting.all.clear();
        }
    }
}

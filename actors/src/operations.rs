//! An operator's view of a whole server: its state, and each workspace at a glance.
//!
//! Nothing here scans records: an overview costs a question to each running actor, and a look-up
//! for each workspace without one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{AuditContext, AuditEntry, Timestamp, WorkspaceId};
use postrider_number::figures::WorkspaceNumbers;
use postrider_runtime::supervise::Placement;
use postrider_runtime::task::detached;
use postrider_store::DirectorySpace;
use postrider_store::snapshot::SnapshotDir;
use postrider_workspace::Workspace;
use postrider_workspace::core::records;
use postrider_workspace::mailbox::slot::Slot;
use postrider_workspace::services::Services;
use tokio::task::JoinSet;

use crate::admin::{AdminError, WorkspaceState};
use crate::audit::record_of;
use crate::metrics::RecentCommits;

/// The time for which an overview waits for the actors that it asks.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The place of an engine's data.
pub(crate) struct OnDisk {
    pub(crate) dir: PathBuf,
    pub(crate) snapshots: Arc<SnapshotDir>,
    pub(crate) commits: Arc<RecentCommits>,
}

/// An operator's view of a whole server. Cheap to clone.
#[derive(Clone)]
pub struct Operations {
    shared: Arc<Services>,
    /// `None` if the data is not in a directory.
    disk: Option<Arc<OnDisk>>,
    started_at: Timestamp,
}

impl std::fmt::Debug for Operations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Operations")
    }
}

/// The figures of an engine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SystemFigures {
    /// The engine time at which it started.
    pub started_at: Timestamp,
    /// Set if commits become durable.
    pub storage_works: bool,
    /// The time within which 99 of 100 of the last commits were durable; `None` if there was none.
    pub commit_p99: Option<Duration>,
    /// The free bytes of the disk with the data, if they are measured.
    pub disk_free_bytes: Option<u64>,
    /// The bytes of all files in the data directory, if there is one.
    pub data_bytes: Option<u64>,
    /// The time of the newest snapshot, in real time, and its bytes.
    pub snapshot: Option<(Timestamp, u64)>,
    /// The number of workspaces whose actor runs.
    pub workspaces_live: usize,
    /// The number of workspaces that cannot start.
    pub workspaces_parked: usize,
}

/// A workspace at a glance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceGlance {
    /// Its id.
    pub id: WorkspaceId,
    /// The state of its actor.
    pub state: WorkspaceState,
    /// The workspace's balance; `None` if it cannot be read.
    pub credits: Option<u64>,
    /// The number of codes that it sent within an hour; `None` if its actor does not answer.
    pub codes_last_hour: Option<usize>,
    /// The state of its numbers.
    pub numbers: WorkspaceNumbers,
    /// The number of endpoints that are not called because they keep failing.
    pub webhooks_failing: usize,
}

impl Operations {
    pub(crate) fn new(shared: Arc<Services>, disk: Option<OnDisk>) -> Self {
        let started_at = shared.clock.now();
        Self { shared, disk: disk.map(Arc::new), started_at }
    }

    /// Returns the figures of the engine.
    pub async fn system(&self) -> SystemFigures {
        let (mut live, mut parked) = (0, 0);
        self.shared.workspaces.for_each(|_, slot| match slot.placement() {
            Placement::Live(_) => live += 1,
            Placement::Parked(_) => parked += 1,
            Placement::Idle | Placement::Down { .. } => {}
        });
        let (data_bytes, snapshot) = match &self.disk {
            None => (None, None),
            Some(disk) => measure_disk(Arc::clone(disk)).await,
        };
        SystemFigures {
            started_at: self.started_at,
            storage_works: self.shared.writer.is_healthy(),
            commit_p99: self.disk.as_ref().and_then(|disk| disk.commits.p99()),
            disk_free_bytes: self.shared.disk.free(),
            data_bytes,
            snapshot,
            workspaces_live: live,
            workspaces_parked: parked,
        }
    }

    /// Returns at most `limit` workspaces after the first `skip`, by id, and their total number. It
    /// asks running actors, and starts none.
    pub async fn overview(&self, skip: usize, limit: usize) -> (Vec<WorkspaceGlance>, usize) {
        let mut slots = self.shared.workspaces.slots();
        slots.sort_by(|one, other| one.id.cmp(&other.id));
        let total = slots.len();
        let mut numbers = self.shared.numbers.by_workspace();
        let mut failing = self.shared.webhooks.failing();
        let mut rows: Vec<_> = slots.into_iter().skip(skip).take(limit).collect();
        let balances = self.balances(&rows).await;
        let rows = rows.drain(..).zip(balances).map(|(slot, (credits, codes_last_hour))| {
            let numbers = numbers.remove(&slot.id).unwrap_or_default();
            let webhooks_failing = failing.remove(&slot.id).unwrap_or_default();
            let (id, state) = (slot.id.clone(), slot.placement().into());
            WorkspaceGlance { id, state, credits, codes_last_hour, numbers, webhooks_failing }
        });
        (rows.collect(), total)
    }

    /// Returns the balance and the codes of the last hour of each of these workspaces.
    async fn balances(&self, slots: &[Arc<Slot>]) -> Vec<(Option<u64>, Option<usize>)> {
        let mut balances = vec![(None, None); slots.len()];
        let mut asked = JoinSet::new();
        for (place, slot) in slots.iter().enumerate().filter(|(_, slot)| slot.is_live()) {
            let workspace = Workspace::new(Arc::clone(&self.shared), Arc::clone(slot));
            asked.spawn(async move {
                let settings = tokio::time::timeout(ANSWER_WITHIN, workspace.settings()).await;
                let settings = settings.ok()?.ok()?;
                Some((place, settings.credits, settings.otps_last_hour))
            });
        }
        while let Some(answer) = asked.join_next().await {
            if let Ok(Some((place, credits, codes))) = answer {
                balances[place] = (Some(credits), Some(codes));
            }
        }
        let silent = slots.iter().enumerate().filter(|(place, _)| balances[*place].0.is_none());
        let silent: Vec<_> =
            silent.map(|(place, slot)| (place, slot.id.clone(), slot.is_idle())).collect();
        let store = Arc::clone(&self.shared.store);
        let read = tokio::task::spawn_blocking(move || {
            let read = silent.into_iter().map(|(place, id, is_idle)| {
                let credits = records::credits(store.as_ref(), &id).ok();
                // A passivated workspace has sent none: codes of the last hour keep it awake.
                (place, credits, is_idle.then_some(0))
            });
            read.collect::<Vec<_>>()
        });
        for (place, credits, codes) in read.await.unwrap_or_default() {
            balances[place] = (credits, codes);
        }
        balances
    }

    /// Tries to start a parked workspace again, and records the caller. It changes nothing on a
    /// workspace that is not parked.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace, or it cannot be started now.
    pub async fn unpark(
        &self,
        id: &WorkspaceId,
        caller: Arc<AuditContext>,
    ) -> Result<(), AdminError> {
        let (operations, id) = (self.clone(), id.clone());
        detached(async move { operations.unpark_attached(&id, &caller).await }).await
    }

    async fn unpark_attached(
        &self,
        id: &WorkspaceId,
        caller: &AuditContext,
    ) -> Result<(), AdminError> {
        let shared = &self.shared;
        let slot = shared.workspaces.slot(id).ok_or(AdminError::NoSuchWorkspace)?;
        let entry = AuditEntry::new("workspace.unpark").target(id).workspace(id);
        let change = record_of(shared.clock.now(), caller, entry);
        shared.writer.commit(vec![change]).await.map_err(Unavailable::from)?;
        // The workspace may have been deleted meanwhile: then its slot stays parked.
        if shared.workspaces.contains(id) && slot.unpark() {
            shared.workspaces.start_and_wait(id.clone()).await;
            // It reads its data before it answers; the answer itself is not needed.
            let workspace = Workspace::new(Arc::clone(shared), slot);
            drop(tokio::time::timeout(ANSWER_WITHIN, workspace.settings()).await);
        }
        Ok(())
    }
}

impl<M> From<Placement<M>> for WorkspaceState {
    fn from(placement: Placement<M>) -> Self {
        match placement {
            Placement::Idle => Self::Idle,
            Placement::Live(_) => Self::Live,
            Placement::Down { .. } => Self::Restarting,
            Placement::Parked(reason) => Self::Parked(reason.to_string()),
        }
    }
}

/// Returns the bytes of the data directory, and the newest snapshot, if they can be read.
async fn measure_disk(disk: Arc<OnDisk>) -> (Option<u64>, Option<(Timestamp, u64)>) {
    let measuring = tokio::task::spawn_blocking(move || {
        let snapshot = disk.snapshots.newest().unwrap_or_else(|error| {
            tracing::warn!(%error, "the newest snapshot is not known");
            None
        });
        (Some(DirectorySpace(disk.dir.clone()).used_bytes()), snapshot)
    });
    measuring.await.unwrap_or_default()
}

//! The directory of workspaces.

use std::sync::{Arc, OnceLock};

use dashmap::DashMap;
use ractor::{Actor, ActorRef};

use crate::actor::WorkspaceActor;
use crate::services::Services;

use crate::actor::WorkspaceMessage;
use crate::mailbox::slot::Slot;
use postrider_domain::WorkspaceId;
use postrider_runtime::supervise::{ChildSpec, Placement, SupervisorMessage};

/// The directory of workspaces and the way to their supervisor.
#[derive(Default)]
pub struct Workspaces {
    slots: DashMap<WorkspaceId, Arc<Slot>>,
    supervisor: OnceLock<ActorRef<SupervisorMessage<WorkspaceId>>>,
}

impl Workspaces {
    /// The workspace's entry, if there is such a workspace.
    pub fn slot(&self, id: &WorkspaceId) -> Option<Arc<Slot>> {
        self.slots.get(id).map(|slot| Arc::clone(&slot))
    }

    /// Every workspace's entry.
    pub fn all(&self) -> Vec<Arc<Slot>> {
        self.slots.iter().map(|slot| Arc::clone(&slot)).collect()
    }

    /// Adds a workspace that is durable.
    pub fn add(&self, id: WorkspaceId) {
        self.slots.entry(id.clone()).or_insert_with(|| Arc::new(Slot::new(id)));
    }

    /// Connects the supervisor; only the first call counts.
    pub fn set_supervisor(&self, supervisor: ActorRef<SupervisorMessage<WorkspaceId>>) {
        drop(self.supervisor.set(supervisor));
    }

    /// Has the workspace's actor started, if it can be; returns when that was seen to.
    pub async fn start(&self, id: WorkspaceId) {
        let Some(supervisor) = self.supervisor.get() else { return };
        let (done, seen) = tokio::sync::oneshot::channel();
        if supervisor.cast(SupervisorMessage::Start(id, Some(done))).is_ok() {
            // Dropped unanswered: the engine is stopping, and the caller finds no actor.
            drop(seen.await);
        }
    }

    /// Tells the actors that run; the message is made for each.
    pub fn tell_live(&self, message: impl Fn() -> WorkspaceMessage) {
        for slot in self.all() {
            if let Some(actor) = slot.live() {
                // One that has gone has nothing to be told.
                drop(actor.cast(message()));
            }
        }
    }
}

/// The workspaces as a supervisor's children.
pub struct WorkspaceSpec(pub Arc<Services>);

impl ChildSpec for WorkspaceSpec {
    type Key = WorkspaceId;
    type Message = WorkspaceMessage;

    const NAME: &'static str = "workspace";

    async fn spawn(
        &self,
        id: &WorkspaceId,
        supervisor: ractor::ActorCell,
    ) -> Result<ActorRef<WorkspaceMessage>, ractor::SpawnErr> {
        let Some(slot) = self.0.workspaces.slot(id) else {
            let error = format!("there is no workspace {id}");
            return Err(ractor::SpawnErr::StartupFailed(error.into()));
        };
        let actor = WorkspaceActor { shared: Arc::clone(&self.0), slot };
        let (actor, _) = Actor::spawn_linked(None, actor, (), supervisor).await?;
        Ok(actor)
    }

    fn is_wanted(&self, id: &WorkspaceId) -> bool {
        self.0.workspaces.slot(id).is_some()
    }

    fn is_live(&self, id: &WorkspaceId) -> bool {
        self.0.workspaces.slot(id).is_some_and(|slot| slot.live().is_some())
    }

    fn publish(&self, id: &WorkspaceId, placement: Placement<WorkspaceMessage>) {
        if let Some(slot) = self.0.workspaces.slot(id) {
            slot.set_placement(placement);
        }
    }

    /// A workspace hands over what is unsent whenever it starts.
    fn restarted(&self, _id: &WorkspaceId) {}
}

//! The directory of workspaces.

use std::sync::{Arc, OnceLock};

use dashmap::DashMap;
use ractor::ActorRef;

use crate::workspace::actor::WorkspaceMessage;
use crate::workspace::slot::Slot;
use postrider_domain::WorkspaceId;
use postrider_runtime::supervise::NurseryMessage;

/// The directory of workspaces and the way to their supervisor.
#[derive(Default)]
pub(crate) struct Workspaces {
    slots: DashMap<WorkspaceId, Arc<Slot>>,
    supervisor: OnceLock<ActorRef<NurseryMessage<WorkspaceId>>>,
}

impl Workspaces {
    /// The workspace's entry, if there is such a workspace.
    pub(crate) fn slot(&self, id: &WorkspaceId) -> Option<Arc<Slot>> {
        self.slots.get(id).map(|slot| Arc::clone(&slot))
    }

    /// Every workspace's entry.
    pub(crate) fn all(&self) -> Vec<Arc<Slot>> {
        self.slots.iter().map(|slot| Arc::clone(&slot)).collect()
    }

    /// Adds a workspace that is durable.
    pub(crate) fn add(&self, id: WorkspaceId) {
        self.slots.entry(id.clone()).or_insert_with(|| Arc::new(Slot::new(id)));
    }

    /// Connects the supervisor; only the first call counts.
    pub(crate) fn set_supervisor(&self, supervisor: ActorRef<NurseryMessage<WorkspaceId>>) {
        drop(self.supervisor.set(supervisor));
    }

    /// Has the workspace's actor started, if it can be; returns when that was seen to.
    pub(crate) async fn start(&self, id: WorkspaceId) {
        let Some(supervisor) = self.supervisor.get() else { return };
        let (done, seen) = tokio::sync::oneshot::channel();
        if supervisor.cast(NurseryMessage::Start(id, Some(done))).is_ok() {
            // Dropped unanswered: the engine is stopping, and the caller finds no actor.
            drop(seen.await);
        }
    }

    /// Tells the actors that run; the message is made for each.
    pub(crate) fn tell_live(&self, message: impl Fn() -> WorkspaceMessage) {
        for slot in self.all() {
            if let Some(actor) = slot.live() {
                // One that has gone has nothing to be told.
                drop(actor.cast(message()));
            }
        }
    }
}

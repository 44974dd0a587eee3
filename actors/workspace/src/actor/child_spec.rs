//! The specification by which the supervisor starts a workspace's actor.

use std::sync::Arc;

use postrider_domain::WorkspaceId;
use postrider_runtime::supervise::{ChildSpec, LoadedActor, Placement};
use ractor::ActorRef;

use crate::actor::WorkspaceActor;
use crate::directory::Workspaces;
use crate::mailbox::message::WorkspaceMessage;
use crate::mailbox::slot::WorkspaceEntry;
use crate::services::Services;

/// The workspaces as a supervisor's children.
pub struct WorkspaceSpec(pub Arc<Services>);

impl ChildSpec for WorkspaceSpec {
    type Key = WorkspaceId;
    type Message = WorkspaceMessage;
    type Kept = WorkspaceEntry;

    const NAME: &'static str = "workspace";

    fn directory(&self) -> &Workspaces {
        &self.0.workspaces
    }

    fn publish(&self, id: &WorkspaceId, placement: Placement<WorkspaceMessage>) {
        match (self.0.workspaces.slot(id), placement) {
            (Some(slot), placement) => slot.publish(placement),
            // The workspace was deleted while its actor started. Nothing else would stop the actor.
            (None, Placement::Live(actor)) => actor.stop(None),
            (None, _) => {}
        }
    }

    async fn spawn(
        &self,
        id: &WorkspaceId,
        supervisor: ractor::ActorCell,
    ) -> Result<ActorRef<WorkspaceMessage>, ractor::SpawnErr> {
        let Some(slot) = self.0.workspaces.slot(id) else {
            let error = format!("there is no workspace {id}");
            return Err(ractor::SpawnErr::StartupFailed(error.into()));
        };
        WorkspaceActor { shared: Arc::clone(&self.0), slot }.spawn(supervisor).await
    }
}

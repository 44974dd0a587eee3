//! How the supervisor starts a workspace's actor.

use std::sync::Arc;

use postrider_domain::WorkspaceId;
use postrider_runtime::supervise::{ChildSpec, Placement};
use ractor::{Actor, ActorRef};

use crate::actor::WorkspaceActor;
use crate::mailbox::message::WorkspaceMessage;
use crate::services::Services;

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
        self.0.workspaces.contains(id)
    }

    fn is_live(&self, id: &WorkspaceId) -> bool {
        self.0.workspaces.is_live(id)
    }

    fn publish(&self, id: &WorkspaceId, placement: Placement<WorkspaceMessage>) {
        self.0.workspaces.publish(id, placement);
    }

    /// A workspace hands over what is unsent whenever it starts.
    fn restarted(&self, _id: &WorkspaceId) {}
}

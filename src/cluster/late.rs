//! The other shards, for engines that start before their node is a member.

use std::sync::{Arc, OnceLock};

use postrider_actors::Person;
use postrider_actors::domain::{AuditContext, PersonId, WorkspaceId};

use super::settled::no_answer;
use crate::http::ApiError;
use crate::http::elsewhere::{
    Asked, ClusterAnswer, DrainAnswer, Elsewhere, Found, KnownWorkspace, MoveAnswer, ServerFigures,
};

/// Access to the other shards that returns errors until it is set.
#[derive(Debug, Clone, Default)]
pub(super) struct LateShards(Arc<OnceLock<Box<dyn Elsewhere>>>);

impl LateShards {
    /// Sets the access that engines use.
    pub(super) fn set(&self, others: Box<dyn Elsewhere>) {
        // It is set once.
        drop(self.0.set(others));
    }
}

impl Elsewhere for LateShards {
    fn people(&self, ids: Vec<PersonId>) -> Asked<'_, Result<Vec<Person>, ApiError>> {
        match self.0.get() {
            Some(others) => others.people(ids),
            None => Box::pin(async { Err(no_answer(0)) }),
        }
    }

    fn workspaces(&self, ids: Option<Vec<WorkspaceId>>) -> Asked<'_, Found<KnownWorkspace>> {
        match self.0.get() {
            Some(others) => others.workspaces(ids),
            None => Box::pin(async { (Vec::new(), Some(no_answer(0))) }),
        }
    }

    fn node(&self) -> Asked<'_, Result<ServerFigures, ApiError>> {
        match self.0.get() {
            Some(others) => others.node(),
            None => Box::pin(async { Err(no_answer(0)) }),
        }
    }

    fn cluster(&self) -> Result<ClusterAnswer, ApiError> {
        self.0.get().ok_or_else(|| no_answer(0))?.cluster()
    }

    fn drain(
        &self,
        node: String,
        drains: bool,
        by: Arc<AuditContext>,
    ) -> Asked<'_, Result<DrainAnswer, ApiError>> {
        match self.0.get() {
            Some(others) => others.drain(node, drains, by),
            None => Box::pin(async { Err(no_answer(0)) }),
        }
    }

    fn move_shard(
        &self,
        shard: u16,
        to: String,
        by: Arc<AuditContext>,
    ) -> Asked<'_, Result<MoveAnswer, ApiError>> {
        match self.0.get() {
            Some(others) => others.move_shard(shard, to, by),
            None => Box::pin(async { Err(no_answer(0)) }),
        }
    }
}

//! What an engine of a cluster knows of others: people are in the first one, workspaces in all.
//!
//! A node asks before a request reaches its engine, and puts the answers into the request's
//! extensions. What only a handler finds out to be needed is asked by [`Elsewhere`].

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use postrider_actors::domain::{AuditContext, PersonId, WorkspaceId};
use postrider_actors::{AdminError, BucketState, Engine, Person, SignedIn, SystemFigures};
use serde::{Deserialize, Serialize};

use super::cluster_answers::{ClusterAnswer, DrainAnswer, MoveAnswer};
use super::pipeline::error::ApiError;

/// Most workspaces of one engine that are listed without their ids.
pub(crate) const WORKSPACES_MAX: usize = 200;

/// A workspace, of whatever engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownWorkspace {
    pub(crate) id: WorkspaceId,
    pub(crate) name: String,
    /// Whether its members need an authenticator.
    pub(crate) requires_totp: bool,
}

/// How a server does.
#[derive(Debug, Clone)]
pub(crate) struct ServerFigures {
    /// Its name, if it is a node of a cluster.
    pub(crate) node: Option<String>,
    /// Whether it takes work.
    pub(crate) is_ready: bool,
    /// What its engines do together.
    pub(crate) figures: SystemFigures,
}

/// What was found, and the refusal of an engine that did not answer.
pub(crate) type Found<T> = (Vec<T>, Option<ApiError>);

/// An answer that is waited for.
pub(crate) type Asked<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Asks the other engines.
pub(crate) trait Elsewhere: fmt::Debug + Send + Sync {
    /// Those people of these ids who are there, without their secrets.
    fn people(&self, ids: Vec<PersonId>) -> Asked<'_, Result<Vec<Person>, ApiError>>;

    /// Those workspaces of these ids that are there; `None`: any, of each engine the first ones.
    fn workspaces(&self, ids: Option<Vec<WorkspaceId>>) -> Asked<'_, Found<KnownWorkspace>>;

    /// How this node does.
    fn node(&self) -> Asked<'_, Result<ServerFigures, ApiError>>;

    /// How the cluster is.
    fn cluster(&self) -> Result<ClusterAnswer, ApiError>;

    /// Has the node of this name own nothing, or lets it own shards again.
    fn drain(
        &self,
        node: String,
        drains: bool,
        by: Arc<AuditContext>,
    ) -> Asked<'_, Result<DrainAnswer, ApiError>>;

    /// Has the node of this name own a shard.
    fn move_shard(
        &self,
        shard: u16,
        to: String,
        by: Arc<AuditContext>,
    ) -> Asked<'_, Result<MoveAnswer, ApiError>>;
}

/// The session that a request shows, as the engine of people says: whose it is, how long it has to
/// wait, and its bucket. `None`: it has ended.
#[derive(Debug, Clone)]
pub(crate) struct RemoteVisit(pub(crate) Option<(SignedIn, Option<Duration>, Option<BucketState>)>);

/// The id and name of the admin token that a request shows, as the engine of people says. `None`:
/// it is none.
#[derive(Debug, Clone)]
pub(crate) struct RemoteToken(pub(crate) Option<(Box<str>, Box<str>)>);

/// The workspace that the path of a request about people names, as its engine says. `None`: it is
/// not there.
#[derive(Debug, Clone)]
pub(crate) struct RemoteWorkspace(pub(crate) Option<KnownWorkspace>);

/// A callback came to the address of a number of another engine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallbackBeside;

/// The workspaces of an engine.
///
/// # Errors
/// [`AdminError`]: not now.
pub(crate) async fn workspaces_of(
    engine: &Engine,
    ids: Option<&[WorkspaceId]>,
) -> Result<Vec<KnownWorkspace>, AdminError> {
    let admin = engine.admin();
    let known = |id: WorkspaceId, name| {
        let requires_totp = engine.people().requires_totp(&id);
        KnownWorkspace { id, name, requires_totp }
    };
    let Some(ids) = ids else {
        let (all, _) = admin.workspaces(0, WORKSPACES_MAX).await?;
        return Ok(all.into_iter().map(|info| known(info.id, info.name)).collect());
    };
    let mut found = Vec::new();
    for id in ids {
        match admin.workspace(id).await {
            Ok(info) => found.push(known(info.id, info.name)),
            // There is none, or it is being deleted.
            Err(AdminError::NoSuchWorkspace) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The people of an engine.
pub(crate) fn people_of(engine: &Engine, ids: &[PersonId]) -> Vec<Arc<Person>> {
    ids.iter().filter_map(|id| engine.people().person(*id)).collect()
}

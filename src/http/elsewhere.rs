//! The view of a cluster's other engines: people are in the first one, workspaces in all.
//!
//! A node asks the other engines before a request reaches its own engine, and puts the answers into
//! the request's extensions. A handler that needs more asks for it through [`Elsewhere`].

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use postrider_actors::domain::{AuditContext, PersonId, WorkspaceId};
use postrider_actors::{AdminError, BucketState, Engine, Person, SignedIn, SystemFigures};
use serde::{Deserialize, Serialize};

use super::cluster_answers::{ClusterAnswer, DrainAnswer, MoveAnswer};
use super::pipeline::error::ApiError;

/// The maximum number of workspaces of one engine that are listed without their ids.
pub(crate) const WORKSPACES_MAX: usize = 200;

/// A workspace, of whatever engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownWorkspace {
    pub(crate) id: WorkspaceId,
    pub(crate) name: String,
    /// `true` if its members need an authenticator.
    pub(crate) requires_totp: bool,
}

/// The figures of a server.
#[derive(Debug, Clone)]
pub(crate) struct ServerFigures {
    /// The server's name, if it is a node of a cluster.
    pub(crate) node: Option<String>,
    /// `true` if the server accepts work.
    pub(crate) is_ready: bool,
    /// The combined figures of its engines.
    pub(crate) figures: SystemFigures,
}

/// The items that were found, and the refusal of an engine that did not answer.
pub(crate) type Found<T> = (Vec<T>, Option<ApiError>);

/// The future of an answer from another engine.
pub(crate) type Asked<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Access to the other engines.
pub(crate) trait Elsewhere: fmt::Debug + Send + Sync {
    /// Returns the people with these ids, without their secrets. Unknown ids are left out.
    fn people(&self, ids: Vec<PersonId>) -> Asked<'_, Result<Vec<Person>, ApiError>>;

    /// Returns the workspaces with these ids; `None` returns the first ones of each engine. Unknown
    /// ids are left out.
    fn workspaces(&self, ids: Option<Vec<WorkspaceId>>) -> Asked<'_, Found<KnownWorkspace>>;

    /// Returns the figures of this node.
    fn node(&self) -> Asked<'_, Result<ServerFigures, ApiError>>;

    /// Returns the state of the cluster.
    fn cluster(&self) -> Result<ClusterAnswer, ApiError>;

    /// Makes the node of this name give up all shards, or lets it own shards again.
    fn drain(
        &self,
        node: String,
        drains: bool,
        by: Arc<AuditContext>,
    ) -> Asked<'_, Result<DrainAnswer, ApiError>>;

    /// Makes the node of this name own a shard.
    fn move_shard(
        &self,
        shard: u16,
        to: String,
        by: Arc<AuditContext>,
    ) -> Asked<'_, Result<MoveAnswer, ApiError>>;
}

/// The session of a request, as the engine of people reports it; `None` if it has ended.
///
/// It has the person, the time that they have to wait, and their bucket.
#[derive(Debug, Clone)]
pub(crate) struct RemoteVisit(pub(crate) Option<(SignedIn, Option<Duration>, Option<BucketState>)>);

/// The id and name of a request's admin token, as the engine of people reports it. `None` if the
/// token is not valid.
#[derive(Debug, Clone)]
pub(crate) struct RemoteToken(pub(crate) Option<(Box<str>, Box<str>)>);

/// The workspace that the path of a request about people names, as its engine reports it. `None` if
/// it does not exist.
#[derive(Debug, Clone)]
pub(crate) struct RemoteWorkspace(pub(crate) Option<KnownWorkspace>);

/// Marks a callback that came to the address of a number of another engine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallbackBeside;

/// Returns the workspaces of an engine.
///
/// # Errors
/// [`AdminError`]: the engine cannot report them now.
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
            // The workspace does not exist, or is being deleted.
            Err(AdminError::NoSuchWorkspace) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Returns the people of an engine with these ids.
pub(crate) fn people_of(engine: &Engine, ids: &[PersonId]) -> Vec<Arc<Person>> {
    ids.iter().filter_map(|id| engine.people().person(*id)).collect()
}

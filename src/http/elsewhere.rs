//! The view of a cluster's other engines: people are in the first one, workspaces in all.
//!
//! A node asks the other engines before a request reaches its own engine, and puts the answers
//! into the request's extensions. A handler that needs more asks for it through [`Elsewhere`],
//! which also answers operators: the state of the cluster and the changes made to it.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use postrider_actors::domain::{AuditContext, PersonId, WorkspaceId};
use postrider_actors::{AdminError, BucketState, Engine, Person, SignedIn, SystemFigures};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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

/// How a cluster is, as one of its nodes sees it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Cluster)]
pub(crate) struct ClusterAnswer {
    /// Its name.
    #[schema(example = "postrider")]
    pub(crate) cluster: String,
    /// Its identity, which was made with it.
    #[schema(example = "9f86d081884c7d659a2feaa0c55ad015")]
    pub(crate) id: String,
    /// How many shards it has.
    #[schema(example = 32)]
    pub(crate) shards_total: u16,
    /// Whether each shard is owned.
    #[schema(example = true)]
    pub(crate) ready: bool,
    /// Where its logs are.
    pub(crate) log: ClusterLogAnswer,
    /// Its nodes, by name: those whose lease is alive, and those that shards are placed on.
    pub(crate) nodes: Vec<ClusterNodeAnswer>,
    /// What an operator must look at, each as a text.
    #[schema(example = json!([]))]
    pub(crate) problems: Vec<String>,
    /// Its shards, by number.
    pub(crate) shards: Vec<ClusterShardAnswer>,
}

/// Where the logs of a cluster are.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ClusterLog)]
pub(crate) struct ClusterLogAnswer {
    /// Always `nats`.
    #[schema(example = "nats")]
    pub(crate) backend: &'static str,
    /// The version of the server that the node is connected to.
    #[schema(example = "2.15.1")]
    pub(crate) version: String,
    /// How many servers keep each log.
    #[schema(example = 3)]
    pub(crate) replicas: usize,
    /// Whether the node has seen that each of them syncs every message; `false` where the settings
    /// say so instead (`cluster.assume_synced`).
    #[schema(example = true)]
    pub(crate) synced: bool,
    /// Whether NATS answered the node within the last three seconds.
    #[schema(example = true)]
    pub(crate) reachable: bool,
}

/// A node of a cluster. What is not known of it is null.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ClusterNode)]
pub(crate) struct ClusterNodeAnswer {
    /// Its name.
    #[schema(example = "pr-1")]
    pub(crate) node: String,
    /// Its zone; empty without one.
    #[schema(example = "a")]
    pub(crate) zone: Option<String>,
    /// Where other nodes reach it.
    #[schema(example = "10.0.0.1:8082")]
    pub(crate) advertise: Option<String>,
    /// `ready`; `draining`, until it is undrained; or `unreachable`: its lease has ended.
    #[schema(example = "ready")]
    pub(crate) state: &'static str,
    /// Its version.
    #[schema(example = "0.1.0")]
    pub(crate) version: Option<String>,
    /// How many shards it owns.
    #[schema(example = 11)]
    pub(crate) owned: usize,
    /// How many shards it stands by for.
    #[schema(example = 11)]
    pub(crate) following: usize,
    /// How long it may own shards without another renewal, in milliseconds: of the node that
    /// answers.
    #[schema(example = 10_990)]
    pub(crate) lease_ms: Option<u64>,
    /// What its clock was ahead by when it was last read, in milliseconds, up to a second too low.
    #[schema(example = -312)]
    pub(crate) clock_ms: Option<i64>,
}

/// A shard of a cluster. What is not known of it is null.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ClusterShard)]
pub(crate) struct ClusterShardAnswer {
    /// Its number, from 0.
    #[schema(example = 0)]
    pub(crate) shard: u16,
    /// `owned`; `claiming`: a node is about to own it; `unowned`; or `stopped`: its log has lost
    /// something.
    #[schema(example = "owned")]
    pub(crate) state: &'static str,
    /// The node that owns it.
    #[schema(example = "pr-1")]
    pub(crate) owner: Option<String>,
    /// The nodes that shall stand by for it.
    #[schema(example = json!(["pr-2"]))]
    pub(crate) standbys: Vec<String>,
    /// How often it was claimed.
    #[schema(example = 4)]
    pub(crate) epoch: Option<u64>,
    /// The last position of its log.
    #[schema(example = 5120)]
    pub(crate) position: Option<u64>,
    /// How far the records of each node are that reports it.
    #[schema(value_type = Object, example = json!({"pr-1": 5120, "pr-2": 5102}))]
    pub(crate) applied: BTreeMap<String, u64>,
    /// The position of its newest checkpoint.
    #[schema(example = 4711)]
    pub(crate) checkpoint_position: Option<u64>,
    /// Why nobody owns it.
    pub(crate) reason: Option<String>,
}

/// What became of the wish that a node drains, or drains no more.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DrainedNode)]
pub(crate) struct DrainAnswer {
    /// The node.
    #[schema(example = "pr-2")]
    pub(crate) node: String,
    /// `draining`, `ready`, or `unreachable`: it does not run.
    #[schema(example = "draining")]
    pub(crate) state: &'static str,
    /// How many shards it owns still.
    #[schema(example = 3)]
    pub(crate) shards_left: usize,
}

/// Which node shall own a shard.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ShardTarget {
    /// The node.
    #[schema(example = "pr-2")]
    pub(crate) to: String,
}

/// A shard that was moved.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MovedShard)]
pub(crate) struct MoveAnswer {
    /// Its number.
    #[schema(example = 7)]
    pub(crate) shard: u16,
    /// The node that owned it; null if there was none.
    #[schema(example = "pr-1")]
    pub(crate) from: Option<String>,
    /// The node that owns it now.
    #[schema(example = "pr-2")]
    pub(crate) to: String,
    /// How often it was claimed, this time included.
    #[schema(example = 5)]
    pub(crate) epoch: u64,
    /// How long that took, in milliseconds.
    #[schema(example = 240)]
    pub(crate) milliseconds: u64,
}

//! Shows operators the cluster that a server is a node of, and carries out their requests to it.
//!
//! A node checks the token of its settings before it asks any engine, so it answers even without
//! one.

use std::sync::Arc;

use crate::http::elsewhere::{ClusterAnswer, DrainAnswer, Elsewhere, MoveAnswer, ShardTarget};
use crate::http::pipeline::{Administrator, Answer, ApiError, Call, Reply, Routes, route};

const NO_NODE: &str = "the cluster has no such node";
const NO_SHARD: &str = "the cluster has no such shard";

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(read).guarded(Administrator))
        .routes(route!(drain).guarded(Administrator))
        .routes(route!(undrain).guarded(Administrator))
        .routes(route!(move_shard).guarded(Administrator))
}

/// Returns the access to the other engines of the cluster, or 404 if this server is no node.
fn cluster(call: &Call<()>) -> Result<Arc<dyn Elsewhere>, ApiError> {
    let none = || ApiError::not_found("this server is no node of a cluster").because("no_cluster");
    call.edge.options.elsewhere.clone().ok_or_else(none)
}

#[utoipa::path(
    get,
    path = "/admin/v1/cluster",
    operation_id = "readCluster",
    tag = "Administration",
    summary = "How the cluster is",
    description = "Its nodes, its shards with their owners, and its problems, as the node that \
                   answers sees them. On a server that is no node of a cluster this is 404 with \
                   the reason `no_cluster`, and so is all below it.",
    responses((status = 200, description = "The cluster", body = ClusterAnswer))
)]
async fn read(call: Call<()>) -> Answer {
    Ok(Reply::ok(&cluster(&call)?.cluster()?))
}

#[utoipa::path(
    post,
    path = "/admin/v1/cluster/nodes/{node}/drain",
    operation_id = "drainNode",
    tag = "Administration",
    summary = "Have a node hand its shards to the others",
    description = "It owns none until it is undrained, over restarts too. This answers at once: \
                   ask again until `shards_left` is 0. 409 if no other node could own anything.",
    params(("node" = String, Path, description = "The node's name")),
    responses((status = 200, description = "It drains", body = DrainAnswer))
)]
async fn drain(mut call: Call<()>) -> Answer {
    let (cluster, node) = (cluster(&call)?, call.path::<String>("node", NO_NODE).await?);
    Ok(Reply::ok(&cluster.drain(node, true, call.audit_context()).await?))
}

#[utoipa::path(
    post,
    path = "/admin/v1/cluster/nodes/{node}/undrain",
    operation_id = "undrainNode",
    tag = "Administration",
    summary = "Let a node own shards again",
    params(("node" = String, Path, description = "The node's name")),
    responses((status = 200, description = "It drains no more", body = DrainAnswer))
)]
async fn undrain(mut call: Call<()>) -> Answer {
    let (cluster, node) = (cluster(&call)?, call.path::<String>("node", NO_NODE).await?);
    Ok(Reply::ok(&cluster.drain(node, false, call.audit_context()).await?))
}

#[utoipa::path(
    post,
    path = "/admin/v1/cluster/shards/{shard}/move",
    operation_id = "moveShard",
    tag = "Administration",
    summary = "Hand a shard to a node",
    description = "This answers when the node owns it, and 503 with the reason `no_owner` when that \
                   takes longer than 30 s. The shard stays there until the node drains or its \
                   lease ends. 409 where it cannot be done now, such as while two shards are on \
                   their way.",
    params(("shard" = i64, Path, minimum = 0, description = "The shard's number")),
    request_body = ShardTarget,
    responses((status = 200, description = "The node owns it", body = MoveAnswer))
)]
async fn move_shard(mut call: Call<()>) -> Answer {
    let ShardTarget { to } = call.json()?;
    let (cluster, shard) = (cluster(&call)?, call.path("shard", NO_SHARD).await?);
    Ok(Reply::ok(&cluster.move_shard(shard, to, call.audit_context()).await?))
}

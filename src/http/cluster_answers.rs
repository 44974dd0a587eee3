//! The answers of a cluster's node to operators: the state of the cluster and the changes made to
//! it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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

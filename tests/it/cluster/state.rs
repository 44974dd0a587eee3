//! A node's view of its cluster: the owners of shards, and the commands that change them.

use std::process::{Command, Output};

use serde_json::Value;

use super::nodes::{TOKEN, admin, read, workspace};
use crate::faults::Process;
use crate::support::eventually;

/// At least one workspace in each of four shards.
pub const WORKSPACES: [&str; 6] = ["acme", "globex", "initech", "umbrella", "hooli", "stark"];
pub const NODES: [&str; 3] = ["pr-1", "pr-2", "pr-3"];

/// Returns the entry of a node.
pub fn about<'a>(state: &'a Value, node: &str) -> &'a Value {
    let nodes = state["nodes"].as_array().unwrap();
    nodes.iter().find(|it| it["node"] == node).unwrap_or(&Value::Null)
}

/// Returns the number of shards that a node owns.
pub fn owned(state: &Value, node: &str) -> u64 {
    about(state, node)["owned"].as_u64().unwrap_or(0)
}

/// Returns the owner of a shard; empty if there is none.
pub fn owner(state: &Value, shard: usize) -> &str {
    state["shards"][shard]["owner"].as_str().unwrap_or_default()
}

/// Returns whether every shard is owned, and this node has so many of them.
pub fn owns(state: &Value, node: &str, shards: u64) -> bool {
    state["ready"] == true && owned(state, node) == shards
}

/// Returns whether every shard is owned, and each of three nodes has one.
pub fn is_spread(state: &Value) -> bool {
    state["ready"] == true && NODES.iter().all(|node| owned(state, node) > 0)
}

/// The number of checks before the failure shows the last state: about a minute and a half.
const LOOKS: usize = 1_000;

/// Returns the state of the cluster, as soon as it is as wished.
pub async fn once(node: &Process, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let mut client = admin(node);
    let mut looks = 0;
    eventually(what, async || {
        let state = read(&mut client, "/admin/v1/cluster").await;
        looks += 1;
        assert!(looks < LOOKS || is_so(&state), "{what} never came: {state}");
        is_so(&state).then_some(state)
    })
    .await
}

/// Creates the workspaces of a test through a node; returns their ids and keys.
pub async fn workspaces(node: &Process) -> Vec<(String, String)> {
    let mut made = Vec::new();
    for id in WORKSPACES {
        made.push((id.to_owned(), workspace(node, id).await.1));
    }
    made
}

/// Runs `postrider cluster … --json` at a node.
pub async fn postrider(node: &Process, args: &[&str]) -> (Output, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    command.arg("cluster").args(args).arg("--json");
    command.args(["--server", &format!("http://{}", node.address())]);
    command.env("POSTRIDER_ADMIN_TOKEN", TOKEN);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let answer = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output, answer)
}

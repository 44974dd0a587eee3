//! Two nodes: requests through the one that does not own a shard, and the death of the other.

use serde_json::{Value, json};

use super::nodes::{Cluster, admin, read, send, verify, workspace};
use super::state::{once, owned};
use crate::faults::{Client, Process};

const WORKSPACES: [&str; 4] = ["acme", "globex", "initech", "umbrella"];

async fn both_own(node: &Process) -> Value {
    let is_so = |state: &Value| {
        state["ready"] == true && owned(state, "pr-1") == 2 && owned(state, "pr-2") == 2
    };
    once(node, "two shards for each of two nodes", is_so).await
}

/// The codes of one client, as the node answered.
struct Answered {
    key: String,
    open: (String, String),
    used: (String, String),
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_node_answers_for_one_that_was_killed() {
    let cluster = Cluster::made();
    let first = cluster.start("pr-1");
    once(&first, "all shards", |state| state["ready"] == true).await;
    let second = cluster.start("pr-2");
    both_own(&first).await;
    let mut answered = Vec::new();
    for id in WORKSPACES {
        // All of it goes through one node, whoever owns the shard.
        let (mut client, key) = workspace(&first, id).await;
        let open = send(&mut client, "+15550100001").await;
        let used = send(&mut client, "+15550100002").await;
        // The other node verifies it.
        let mut other = Client::new(second.address(), &key);
        assert_eq!(verify(&mut other, &used.0, &used.1).await.0, 200);
        answered.push(Answered { key, open, used });
    }
    for node in [&first, &second] {
        let listed = read(&mut admin(node), "/admin/v1/workspaces").await;
        let ids: Vec<_> = listed["data"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
        assert_eq!(ids, WORKSPACES, "{listed}");
    }
    let before = both_own(&second).await;
    first.kill();
    let is_whole = |state: &Value| state["ready"] == true && owned(state, "pr-2") == 4;
    let after = once(&second, "all shards of the node that is left", is_whole).await;
    for shard in 0..4 {
        let epoch = |state: &Value| state["shards"][shard]["epoch"].as_u64().unwrap();
        let had = before["shards"][shard]["owner"] == "pr-1";
        assert_eq!(epoch(&after) > epoch(&before), had, "only what was lost is claimed: {after}");
    }
    for it in &answered {
        let mut client = Client::new(second.address(), &it.key);
        let (status, body) = verify(&mut client, &it.used.0, &it.used.1).await;
        assert_ne!(status, 200, "a code was accepted twice: {body}");
        assert_eq!(verify(&mut client, &it.open.0, &it.open.1).await.0, 200);
    }
    let listed = read(&mut admin(&second), "/admin/v1/workspaces?limit=3&page=2").await;
    assert_eq!((&listed["total"], &listed["data"][0]["id"]), (&json!(4), &json!("umbrella")));
    let first = cluster.start("pr-1");
    both_own(&first).await;
    for it in &answered {
        let mut client = Client::new(first.address(), &it.key);
        let (status, body) = verify(&mut client, &it.open.0, &it.open.1).await;
        assert_ne!(status, 200, "a code was accepted twice: {body}");
    }
}

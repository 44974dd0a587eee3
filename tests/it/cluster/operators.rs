//! Operators' requests: each node answers for itself, and for the cluster.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::people::{admin, rig};
use super::state::NODES;
use crate::faults::Process;
use crate::support::{Api, Browser, eventually};

fn stranger(node: &Process) -> Api {
    Api::new(&Arc::new(Mutex::new(node.address())), None)
}

/// Returns the ids of an overview.
fn ids(overview: &Value) -> Vec<&str> {
    let rows = overview["data"].as_array().unwrap().iter();
    rows.map(|row| row["workspace"].as_str().unwrap()).collect()
}

/// Checks that a cluster refuses the operations of a single node with their reason.
async fn refuses_what_a_cluster_has_not(node: &Process) {
    let admin = admin(node);
    for (path, method) in [
        ("/admin/v1/archive", "GET"),
        ("/admin/v1/archive/log", "GET"),
        ("/admin/v1/archive/files", "GET"),
        ("/admin/v1/clock", "GET"),
        ("/admin/v1/clock/follow", "POST"),
        ("/admin/v1/release", "POST"),
    ] {
        let refused = admin.call(method, path, &[], b"").await.check(404, "NOT_FOUND");
        assert_eq!(refused["reason"], "in_cluster", "{path}: {refused}");
        stranger(node).call(method, path, &[], b"").await.check(401, "UNAUTHORIZED");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_node_tells_how_it_does_and_lists_all_workspaces() {
    let (_cluster, nodes, mut workspaces) = rig().await;
    workspaces.sort_unstable();
    let body = json!({"email": "ada@example.com", "operator": true});
    let link = admin(&nodes[1]).post("/admin/v1/users/link", body).await.ok();
    let mut operator = Browser::new(&Arc::new(Mutex::new(nodes[2].address())));
    operator.follow(link["url"].as_str().unwrap()).await.ok();
    let system = operator.get("/admin/v1/system").await.ok();
    assert_eq!(system["node"], "pr-3", "{system}");
    for (node, name) in nodes.iter().zip(NODES) {
        let admin = admin(node);
        let system = admin.get("/admin/v1/system").await.ok();
        assert_eq!((&system["node"], &system["ready"]), (&json!(name), &json!(true)), "{system}");
        assert_eq!(system["settings"]["cluster.node"], name);
        assert_eq!(system["storage"]["state"], "ok");
        assert!(system["storage"]["data_bytes"].as_u64().unwrap() > 0, "{system}");
        assert_eq!(ids(&admin.get("/admin/v1/overview").await.ok()), workspaces);
        let second = admin.get("/admin/v1/overview?limit=1&page=2").await.ok();
        assert_eq!((ids(&second), &second["total"]), (vec![workspaces[1]], &json!(2)));
        refuses_what_a_cluster_has_not(node).await;
        for path in ["/admin/v1/system", "/admin/v1/overview"] {
            stranger(node).get(path).await.check(401, "UNAUTHORIZED");
        }
    }
    // A workspace that gets a request stays in memory for a while.
    let counted = async || {
        for id in &workspaces {
            admin(&nodes[0]).get(&format!("/admin/v1/workspaces/{id}/numbers")).await.ok();
        }
        let mut live = 0;
        for node in &nodes {
            let system = admin(node).get("/admin/v1/system").await.ok();
            live += system["workspaces"]["live"].as_u64().unwrap();
        }
        assert!(live <= 2, "a workspace is counted by one node");
        (live == 2).then_some(())
    };
    eventually("each workspace is counted", counted).await;
    // A signed-in operator moves each shard, also the one whose engine has signed them in.
    for shard in 0..4 {
        let state = operator.get("/admin/v1/cluster").await.ok();
        let to = if state["shards"][shard]["owner"] == "pr-3" { "pr-1" } else { "pr-3" };
        let path = format!("/admin/v1/cluster/shards/{shard}/move");
        let moved = operator.post(&path, json!({"to": to})).await.ok();
        assert_eq!((&moved["shard"], &moved["to"]), (&json!(shard), &json!(to)), "{moved}");
    }
    // The log of the node that moved the shard has the operator.
    let told = async || {
        let logs = nodes.iter().map(Process::log).collect::<String>();
        let mut lines = logs.lines().filter(|it| it.contains("an operator moves a shard"));
        lines.next().map(|line| line.contains("usr_") && line.contains("req_"))
    };
    assert!(eventually("the line of the log", told).await);
}

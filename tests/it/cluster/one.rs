//! One node: the creation of a cluster, its refusals, and a kill that loses nothing.

use serde_json::json;

use super::nodes::{Cluster, admin, read, send, verify, workspace};
use super::state::once;
use crate::faults::Client;

const OTHER_KEY: &str = "7777777777777777777777777777777777777777777777777777777777777777";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_made_once_and_only_with_the_same_settings() {
    let cluster = Cluster::made();
    let (output, again) = cluster.init(&[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!((&again["created"], &again["shards"]), (&json!(false), &json!(4)));
    assert_eq!(again["replicas"], 1);
    for (setting, value, code) in [
        ("CLUSTER__SHARDS", "8", "CLUSTER_MISMATCH"),
        ("CLUSTER__MONITOR", "", "NATS_NOT_SYNCED"),
        ("CLUSTER__NAME", "other", "NATS_UNREPLICATED"),
        ("CLUSTER__NATS", "nats://127.0.0.1:1", "NATS_UNREACHABLE"),
        ("SECRETS__MASTER_KEY", OTHER_KEY, "MASTER_KEY_MISMATCH"),
    ] {
        let is_three = setting == "CLUSTER__NAME";
        let replicas = ("CLUSTER__ALLOW_UNREPLICATED", if is_three { "false" } else { "true" });
        let (output, answer) = cluster.init(&[replicas, (setting, value)]);
        assert_eq!(output.status.code(), Some(1), "{setting}: {output:?}");
        assert_eq!(answer["error"], code, "{setting}: {answer}");
        assert!(answer["message"].as_str().unwrap().starts_with(code), "{answer}");
    }
    let (output, answer) = cluster.init(&[("CLUSTER__SHARDS", "5")]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("cluster.shards") && text.contains("a power of two"), "{text}{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_does_not_fit_is_refused_and_says_what_helps() {
    let cluster = Cluster::new();
    let missing = cluster.try_start("pr-1", &cluster.directory("pr-1")).err().unwrap();
    assert!(missing.contains("CLUSTER_MISSING") && missing.contains("cluster init"), "{missing}");
    assert!(cluster.init(&[]).0.status.success());
    let single = cluster.directory("single");
    std::fs::create_dir_all(single.join("log")).unwrap();
    let refused = cluster.try_start("pr-1", &single).err().unwrap();
    assert!(refused.contains("NOT_EMPTY") && refused.contains("cluster.nats"), "{refused}");
    let first = cluster.start("pr-1");
    let taken = cluster.try_start("pr-1", &cluster.directory("another")).err().unwrap();
    assert!(taken.contains("NODE_NAME_TAKEN") && taken.contains("cluster.node"), "{taken}");
    drop(first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_node_answered_outlives_kill_9() {
    let cluster = Cluster::made();
    let mut node = cluster.start("pr-1");
    let state = once(&node, "all shards", |state| state["ready"] == true).await;
    assert_eq!(state["shards"].as_array().unwrap().len(), 4, "{state}");
    assert_eq!(state["nodes"][0]["owned"], 4, "{state}");
    assert_eq!(state["log"]["synced"], true, "{state}");
    let (mut client, key) = workspace(&node, "acme").await;
    assert_eq!(key.len(), "pr_".len() + 46, "a key tells its workspace's home");
    let (right, right_code) = send(&mut client, "+15550100001").await;
    let (used, used_code) = send(&mut client, "+15550100002").await;
    assert_eq!(verify(&mut client, &used, &used_code).await.0, 200);
    for round in 0..2 {
        let epochs = once(&node, "all shards", |state| state["ready"] == true).await;
        node.kill();
        node = cluster.start("pr-1");
        let state = once(&node, "all shards again", |state| state["ready"] == true).await;
        let epoch = |state: &serde_json::Value| state["shards"][0]["epoch"].as_u64().unwrap();
        assert!(epoch(&state) > epoch(&epochs), "{state}");
        client = Client::new(node.address(), &key);
        let listed = read(&mut admin(&node), "/admin/v1/workspaces").await;
        assert_eq!((&listed["total"], &listed["data"][0]["id"]), (&json!(1), &json!("acme")));
        let (status, body) = verify(&mut client, &used, &used_code).await;
        assert_ne!(status, 200, "round {round}: a code was accepted twice: {body}");
    }
    assert_eq!(verify(&mut client, &right, &right_code).await.0, 200);
    let ready = read(&mut admin(&node), "/readyz").await;
    assert_eq!((&ready["shards_owned"], &ready["node"]), (&json!(4), &json!("pr-1")), "{ready}");
    node.terminate();
    let ended = node.ended();
    assert!(ended.status.success(), "{ended:?}");
}

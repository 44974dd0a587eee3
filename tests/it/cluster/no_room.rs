//! A NATS without room for the contents of files keeps no node from starting.

use serde_json::{Value, json};

use super::jetstream::jetstream;
use super::nodes::{Cluster, admin, read, send, verify, workspace};
use super::state::once;
use crate::support::Api;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_a_cluster_without_room_for_files_does_all_the_rest() {
    let cluster = Cluster::made();
    let nats = &cluster.nats.address;
    // An older cluster had no contents of files.
    jetstream(nats, "STREAM.DELETE.OBJ_PR_test_files", &json!({}));
    jetstream(nats, "STREAM.PURGE.KV_PR_test", &json!({"filter": "$KV.PR_test.files"}));
    let large = [("CLUSTER__FILES_BYTES_MAX", "1125899906842624")];
    let node = cluster.start_with("pr-1", &cluster.directory("pr-1"), &large).unwrap();
    once(&node, "all shards", |state| state["ready"] == true).await;
    let (mut client, key) = workspace(&node, "acme").await;
    let code = send(&mut client, "+15550100001").await;
    assert_eq!(verify(&mut client, &code.0, &code.1).await.0, 200);
    let problems = read(&mut admin(&node), "/admin/v1/cluster").await["problems"].take();
    let is_told = |it: &Value| it.as_str().unwrap().contains("cluster.files_bytes_max");
    assert!(problems.as_array().unwrap().iter().any(is_told), "{problems}");
    let address = std::sync::Arc::new(std::sync::Mutex::new(node.address()));
    let png = [("Content-Type", "image/png")];
    let refused = Api::new(&address, Some(&key)).call("POST", "/v1/media", &png, b"file").await;
    assert_eq!(refused.status, 503);
}

//! The master key of a cluster is changed while no node runs, and the first one stays known.

use super::nodes::{Cluster, MASTER_KEY, send, verify, workspace};
use super::state::once;
use crate::faults::Client;

const NEW_KEY: &str = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_master_key_serves_what_the_first_one_made_as_long_as_that_is_given_too() {
    let cluster = Cluster::made();
    let node = cluster.start("pr-1");
    once(&node, "all shards", |state| state["ready"] == true).await;
    let (mut client, key) = workspace(&node, "acme").await;
    let (request, code) = send(&mut client, "+15550100001").await;
    let previous = format!("1={MASTER_KEY}");
    let new = [("SECRETS__MASTER_KEY", NEW_KEY), ("SECRETS__MASTER_KEY_VERSION", "2")];
    let both = [new[0], new[1], ("SECRETS__PREVIOUS_MASTER_KEYS", previous.as_str())];
    let second = cluster.start_with("pr-2", &cluster.directory("pr-2"), &both).err().unwrap();
    assert!(second.contains("MASTER_KEY_MISMATCH: the node pr-1 runs"), "{second}");
    node.terminate();
    assert!(node.ended().status.success());
    let data = cluster.directory("pr-1");
    let refused = cluster.start_with("pr-1", &data, &new).err().unwrap();
    assert!(refused.contains("MASTER_KEY_MISMATCH"), "{refused}");
    let node = cluster.start_with("pr-1", &data, &both).unwrap();
    once(&node, "all shards again", |state| state["ready"] == true).await;
    let mut client = Client::new(node.address(), &key);
    assert_eq!(verify(&mut client, &request, &code).await.0, 200);
    let (request, code) = send(&mut client, "+15550100002").await;
    assert_eq!(verify(&mut client, &request, &code).await.0, 200);
}

//! Each node is stopped and started again, one after the other, while clients work.

use serde_json::json;

use super::load::{Load, total};
use super::nodes::Cluster;
use super::state::{NODES, is_spread, once, postrider, workspaces};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_is_restarted_and_no_client_loses_an_answer() {
    // A shard changes hands in about a second, and in more where all nodes share a machine.
    let cluster = Cluster::with(&[("CLUSTER__HOLD_MS", "5000")]);
    let mut nodes: Vec<_> = NODES.iter().map(|node| cluster.start(node)).collect();
    once(&nodes[2], "shards for each", is_spread).await;
    let workspaces = workspaces(&nodes[2]).await;
    // Clients use the two others, as behind a balancer that checks `/readyz`.
    for (at, name) in NODES.iter().enumerate() {
        let others: Vec<_> = (0..3).filter(|other| *other != at).map(|it| &nodes[it]).collect();
        let load = Load::begin(&others, &workspaces);
        let (output, _) = postrider(&nodes[(at + 1) % 3], &["drain", name]).await;
        assert!(output.status.success(), "{output:?}");
        let old = nodes.remove(at);
        old.terminate();
        assert!(old.ended().status.success());
        nodes.insert(at, cluster.start(name));
        let (output, _) = postrider(&nodes[(at + 1) % 3], &["undrain", name]).await;
        assert!(output.status.success(), "{output:?}");
        once(&nodes[(at + 1) % 3], "shards for each again", is_spread).await;
        let reports = load.end().await;
        let (codes, unanswered, refused, slowest) = total(&reports);
        // After a refusal, nobody owned the shard for so long, and the request had no effect.
        println!("{name}: {codes} codes, {refused} refused, slowest {slowest:?}");
        assert!(codes > 6 && reports.iter().all(|it| it.acknowledged() > 0), "{reports:?}");
        assert_eq!(unanswered, 0, "everything that began is answered");
        for it in &reports {
            it.check(&nodes[at]).await;
        }
    }
    let state = once(&nodes[0], "all shards", |state| state["ready"] == true).await;
    assert_eq!(state["problems"], json!([]), "{state}");
}

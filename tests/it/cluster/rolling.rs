//! Each node is stopped and started again, one after the other, while clients work.

use serde_json::{Value, json};

use super::load::{Load, total};
use super::nodes::{Cluster, TOKEN, once, workspace};
use crate::faults::Process;

const WORKSPACES: [&str; 6] = ["acme", "globex", "initech", "umbrella", "hooli", "stark"];
const NODES: [&str; 3] = ["pr-1", "pr-2", "pr-3"];

fn of<'a>(state: &'a Value, node: &str) -> &'a Value {
    let nodes = state["nodes"].as_array().unwrap();
    nodes.iter().find(|it| it["node"] == node).unwrap_or(&Value::Null)
}

/// Every shard is owned, and every node has one.
fn is_spread(state: &Value) -> bool {
    let owns = |node: &&str| of(state, node)["owned"].as_u64() > Some(0);
    state["ready"] == true && NODES.iter().all(owns)
}

async fn postrider(node: &Process, args: &[&str]) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_postrider"));
    command.arg("cluster").args(args).arg("--json");
    command.args(["--server", &format!("http://{}", node.address())]);
    command.env("POSTRIDER_ADMIN_TOKEN", TOKEN);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_is_restarted_and_no_client_loses_an_answer() {
    // A shard changes hands in about a second, and in more where all nodes share a machine.
    let cluster = Cluster::with(&[("CLUSTER__HOLD_MS", "5000")]);
    let mut nodes: Vec<_> = NODES.iter().map(|node| cluster.start(node)).collect();
    once(&nodes[2], "shards for each", is_spread).await;
    let mut workspaces = Vec::new();
    for id in WORKSPACES {
        workspaces.push((id.to_owned(), workspace(&nodes[2], id).await.1));
    }
    // Clients are at the two others, as behind a balancer that looks at `/readyz`.
    for (at, name) in NODES.iter().enumerate() {
        let others: Vec<_> = (0..3).filter(|other| *other != at).map(|it| &nodes[it]).collect();
        let load = Load::begin(&others, &workspaces);
        postrider(&nodes[(at + 1) % 3], &["drain", name]).await;
        let old = nodes.remove(at);
        old.terminate();
        assert!(old.ended().status.success());
        nodes.insert(at, cluster.start(name));
        postrider(&nodes[(at + 1) % 3], &["undrain", name]).await;
        once(&nodes[(at + 1) % 3], "shards for each again", is_spread).await;
        let told = load.end().await;
        let (codes, unanswered, refused, slowest) = total(&told);
        // A refusal says that nobody owned the shard for so long, and that nothing was done.
        println!("{name}: {codes} codes, {refused} refused, slowest {slowest:?}");
        assert!(codes > 6 && told.iter().all(|it| it.acknowledged() > 0), "{told:?}");
        assert_eq!(unanswered, 0, "everything that began is answered");
        for it in &told {
            it.check(&nodes[at]).await;
        }
    }
    let state = once(&nodes[0], "all shards", |state| state["ready"] == true).await;
    assert_eq!(state["problems"], json!([]), "{state}");
}

//! A backup of a cluster becomes the data of a single node, shard by shard.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::nodes::{Cluster, admin, read, send, verify, workspace};
use super::state::once;
use crate::faults::{Client, Process};

const MASTER_KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// Returns the workspaces in the backup of a shard, restored into a directory of its own.
async fn restored(backup: &Path, dir: &Path) -> (Process, Vec<String>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    command.arg("restore").arg("--from").arg(backup).arg("--data-dir").arg(dir);
    let output = command.env("POSTRIDER__SECRETS__MASTER_KEY", MASTER_KEY).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let settings = [("SECRETS__MASTER_KEY", MASTER_KEY), ("ADMIN__TOKEN", super::nodes::TOKEN)];
    let node = Process::start_with(dir, &settings);
    let listed = read(&mut admin(&node), "/admin/v1/workspaces").await;
    let ids = listed["data"].as_array().unwrap().iter();
    let ids = ids.map(|it| it["id"].as_str().unwrap().to_owned());
    let ids = ids.filter(|id| id != "demo").collect();
    (node, ids)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_shard_is_backed_up_while_nodes_run_and_restored_into_a_single_node() {
    let cluster = Cluster::made();
    let node = cluster.start("pr-1");
    once(&node, "all shards", |state| state["ready"] == true).await;
    let (mut client, key) = workspace(&node, "acme").await;
    let used = send(&mut client, "+15550100001").await;
    assert_eq!(verify(&mut client, &used.0, &used.1).await.0, 200);
    let place = tempfile::tempdir().unwrap();
    let backup = place.path().join("backup");
    let (output, first) = cluster.backup(&backup);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(first["shards"].as_array().unwrap().len(), 4, "{first}");
    // A second backup adds the new records.
    let open = send(&mut client, "+15550100002").await;
    let (output, second) = cluster.backup(&backup);
    assert!(output.status.success(), "{output:?}");
    let grew = |shard: usize| {
        let position = |it: &serde_json::Value| it["shards"][shard]["position"].as_u64().unwrap();
        position(&second) > position(&first)
    };
    assert!((0..4).any(grew), "{first} {second}");
    let (output, refused) = cluster.backup(node_file(place.path()));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(refused["error"], "NOT_EMPTY", "{refused}");
    node.kill();
    let mut all = Vec::new();
    for shard in 0..4 {
        let dir = place.path().join(format!("restored-{shard}"));
        let from = backup.join(format!("shard-{shard:03}"));
        let (single, ids) = restored(&from, &dir).await;
        if ids == ["acme"] {
            let mut client = Client::new(single.address(), &key);
            let (status, body) = verify(&mut client, &used.0, &used.1).await;
            assert_ne!(status, 200, "a code was accepted twice: {body}");
            assert_eq!(verify(&mut client, &open.0, &open.1).await.0, 200);
        }
        all.extend(ids);
    }
    assert_eq!(json!(all), json!(["acme"]));
}

/// Puts another thing into the place of a directory's first shard.
fn node_file(place: &Path) -> &Path {
    let shard = place.join("shard-000");
    std::fs::create_dir_all(&shard).unwrap();
    std::fs::write(shard.join("something"), "else").unwrap();
    place
}

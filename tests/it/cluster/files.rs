//! A file that a node accepted outlives the node, and is removed when it is deleted.

use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::nodes::{Cluster, settled, workspace};
use super::state::{once, owner, owns};
use crate::faults::{Client, Process};
use crate::support::{Api, eventually};

/// More than two chunks.
const BYTES: usize = 1_200_000;

fn api(node: &Process, key: &str) -> Api {
    Api::new(&Arc::new(Mutex::new(node.address())), Some(key))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_outlives_the_node_that_took_it() {
    let cluster = Cluster::made();
    let mut nodes = vec![cluster.start("pr-1"), cluster.start("pr-2")];
    let both = |state: &Value| owns(state, "pr-1", 2) && owns(state, "pr-2", 2);
    let state = once(&nodes[0], "two shards each", both).await;
    let (_, key) = workspace(&nodes[0], "acme").await;
    let shard = usize::from(postrider_actors::home_of(&"acme".parse().unwrap()) >> 14);
    let owning = usize::from(owner(&state, shard) == "pr-2");
    let content: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
    let png = [("Content-Type", "image/png")];
    // Through the node that does not own the shard.
    let uploaded = api(&nodes[1 - owning], &key).call("POST", "/v1/media", &png, &content).await;
    assert_eq!(uploaded.status, 201, "{}", uploaded.text());
    let path = format!("/v1/media/{}", uploaded.json()["media_id"].as_str().unwrap());
    let whole = format!("{path}/content");
    for node in &nodes {
        let fetched = api(node, &key).get(&whole).await;
        assert!(fetched.status == 200 && fetched.body == content, "{}", fetched.status);
    }
    for node in ["pr-1", "pr-2"] {
        let left = cluster.directory(node).join("files").read_dir().unwrap().count();
        assert_eq!(left, 0, "{node} has what was on its way");
    }
    nodes.remove(owning).kill();
    let last = &nodes[0];
    let mut client = Client::new(last.address(), &key);
    assert_eq!(settled(&mut client, "GET", &path, &Value::Null).await.status, 200);
    let api = api(last, &key);
    let fetched = api.get(&whole).await;
    assert!(fetched.status == 200 && fetched.body == content, "{}", fetched.status);
    let part = api.call("GET", &whole, &[("Range", "bytes=600000-600002")], b"").await;
    assert_eq!((part.status, &part.body[..]), (206, &content[600_000..600_003]));
    // Many readers share one fetch, and none is refused.
    let readers = (0..100).map(|_| {
        let (api, whole) = (api.clone(), whole.clone());
        tokio::spawn(async move { api.call("GET", &whole, &[("Range", "bytes=7-8")], b"").await })
    });
    for reader in readers.collect::<Vec<_>>() {
        let fetched = reader.await.unwrap();
        assert_eq!((fetched.status, &fetched.body[..]), (206, &content[7..9]));
    }
    // The same content again is another file, which is not removed with the first.
    let uploaded = api.call("POST", "/v1/media", &png, &content).await;
    assert_eq!(uploaded.status, 201, "{}", uploaded.text());
    let again = format!("/v1/media/{}", uploaded.json()["media_id"].as_str().unwrap());
    // The previous owner stored it, and this one removes it.
    assert_eq!(api.delete(&path).await.status, 204);
    assert_eq!(api.get(&whole).await.status, 404);
    assert!(api.get(&format!("{again}/content")).await.body == content);
    assert_eq!(api.delete(&again).await.status, 204);
    let stored = || cluster.nats.messages_of("OBJ_PR_test_files");
    eventually("nothing is left in NATS", async || (stored() == Some(0)).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_are_full_hold_up_nothing_else() {
    let cluster = Cluster::with(&[("CLUSTER__FILES_BYTES_MAX", "16777216")]);
    let node = cluster.start("pr-1");
    once(&node, "all shards", |state| owns(state, "pr-1", 4)).await;
    let (_, key) = workspace(&node, "acme").await;
    let api = api(&node, &key);
    let png = [("Content-Type", "image/png")];
    let mut uploaded = Vec::new();
    for at in 0..20_u8 {
        let answer = api.call("POST", "/v1/media", &png, &vec![at; 3 << 20]).await;
        if answer.status == 201 {
            uploaded.push(answer.json()["media_id"].as_str().unwrap().to_owned());
            continue;
        }
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert_eq!(answer.json()["reason"], "storage_failed", "{}", answer.text());
        break;
    }
    assert_eq!(uploaded.len(), 5, "16 MiB have room for five files of 3 MiB");
    workspace(&node, "other").await;
    assert_eq!(api.delete(&format!("/v1/media/{}", uploaded[0])).await.status, 204);
    let answer = api.call("POST", "/v1/media", &png, &vec![99; 3 << 20]).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
}

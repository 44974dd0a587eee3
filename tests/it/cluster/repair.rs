//! A shard whose log lost entries stops, and is rebuilt from the data that is whole.

use std::path::Path;
use std::process::Output;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::jetstream::{jetstream, publish};
use super::nodes::{Cluster, admin, read, send, verify, workspace};
use super::state::once;
use crate::faults::{Client, Outcome, Process};
use crate::support::eventually;

/// Runs `postrider cluster repair --json`.
pub(super) fn repair(cluster: &Cluster, data: &Path, shard: u64, more: &[&str]) -> (Output, Value) {
    let shard = shard.to_string();
    let args = [&["cluster", "repair", "--shard", &shard], more].concat();
    cluster.run(&args, &[("SERVER__DATA_DIR", data.to_str().unwrap())])
}

/// Returns the shard whose log has grown since.
fn grown(before: &Value, after: &Value) -> u64 {
    let positions = |state: &Value| {
        let shards = state["shards"].as_array().unwrap().iter();
        shards.map(|it| it["position"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let pairs = positions(before).into_iter().zip(positions(after)).enumerate();
    pairs.max_by_key(|(_, (before, after))| after - before).unwrap().0 as u64
}

pub(super) fn last(cluster: &Cluster, shard: u64) -> u64 {
    let about = format!("STREAM.INFO.PR_test_{shard}");
    let about = jetstream(&cluster.nats.address, &about, &json!({}));
    about["state"]["last_seq"].as_u64().unwrap()
}

/// Has a log end earlier, as with servers that lose acknowledged entries.
pub(super) fn lose(cluster: &Cluster, shard: u64, last: u64) {
    let (address, name) = (&cluster.nats.address, format!("PR_test_{shard}"));
    let about = jetstream(address, &format!("STREAM.INFO.{name}"), &json!({}));
    let first = about["state"]["first_seq"].as_u64().unwrap();
    let mut config = about["config"].clone();
    config["first_seq"] = json!(first);
    let entry = |sequence: u64| {
        let what = format!("STREAM.MSG.GET.{name}");
        let found = jetstream(address, &what, &json!({"seq": sequence}));
        STANDARD.decode(found["message"]["data"].as_str().unwrap()).unwrap()
    };
    let kept: Vec<_> = (first..=last).map(entry).collect();
    jetstream(address, &format!("STREAM.DELETE.{name}"), &json!({}));
    jetstream(address, &format!("STREAM.CREATE.{name}"), &config);
    for bytes in &kept {
        publish(address, &format!("pr.test.{shard}"), bytes);
    }
}

pub(super) fn state_of(state: &Value, shard: u64) -> &Value {
    &state["shards"][usize::try_from(shard).unwrap()]["state"]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_log_has_lost_comes_from_nodes_that_run_or_have_ended() {
    let cluster = Cluster::made();
    let place = tempfile::tempdir().unwrap();
    let (node, mut client, key, shard) = started(&cluster).await;
    let used = send(&mut client, "+15550100001").await;
    let kept = last(&cluster, shard);
    assert_eq!(verify(&mut client, &used.0, &used.1).await.0, 200);
    let open = send(&mut client, "+15550100002").await;
    let written = last(&cluster, shard);
    lose(&cluster, shard, kept);
    let body = json!({"phone": "+15550100003"});
    if let Outcome::Answered(answer) = client.post("/v1/otp/send", &body).await {
        assert_eq!(answer.status, 503, "{answer:?}");
    }
    once(&node, "the stop", |state| state_of(state, shard) == "stopped").await;
    let whole = |repaired: &Value| {
        assert_eq!(repaired["state"], "repaired", "{repaired}");
        assert_eq!(
            (&repaired["given_up"], &repaired["unknown_behind"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(repaired["from_nodes"]["from"], kept + 1, "{repaired}");
        assert!(repaired["last"].as_u64() >= Some(written), "{repaired}");
    };
    // The repair asks the node that has stopped.
    let (output, repaired) = repair(&cluster, place.path(), shard, &[]);
    assert!(output.status.success(), "{output:?}");
    whole(&repaired);
    once(&node, "an owner", |state| state_of(state, shard) == "owned").await;
    client.close();
    let (status, body) = verify(&mut client, &used.0, &used.1).await;
    assert_ne!(status, 200, "a code was accepted twice: {body}");
    assert_eq!(verify(&mut client, &open.0, &open.1).await.0, 200, "nothing was lost");
    // It happens again, and this time the node is dead.
    let kept = last(&cluster, shard);
    let later = send(&mut client, "+15550100004").await;
    node.terminate();
    assert!(node.ended().status.success());
    lose(&cluster, shard, kept);
    let data = cluster.directory("pr-1");
    let dead = ["--node", data.to_str().unwrap()];
    // Its key claims for a second more that it serves the shard.
    let done = async || {
        let (output, repaired) = repair(&cluster, place.path(), shard, &dead);
        assert!(output.status.success() || repaired["error"] == "IN_USE", "{output:?}");
        (repaired["state"] == "repaired").then_some(repaired)
    };
    let repaired = eventually("the repair", done).await;
    assert_eq!(repaired["given_up"], Value::Null, "{repaired}");
    let node = cluster.start("pr-2");
    once(&node, "all shards", |state| state["ready"] == true).await;
    let mut client = Client::new(node.address(), &key);
    assert_eq!(verify(&mut client, &later.0, &later.1).await.0, 200, "nothing was lost");
    for code in [&used, &open] {
        assert_ne!(verify(&mut client, &code.0, &code.1).await.0, 200);
    }
}

/// Starts a node that owns everything, and creates a workspace; returns both with its shard.
async fn started(cluster: &Cluster) -> (Process, Client, String, u64) {
    let node = cluster.start("pr-1");
    let before = once(&node, "all shards", |state| state["ready"] == true).await;
    let (client, key) = workspace(&node, "acme").await;
    let after = read(&mut admin(&node), "/admin/v1/cluster").await;
    let shard = grown(&before, &after);
    (node, client, key, shard)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_lost_its_end_is_repaired_while_the_node_runs() {
    let cluster = Cluster::made();
    let place = tempfile::tempdir().unwrap();
    let (node, mut client, key, shard) = started(&cluster).await;
    let used = send(&mut client, "+15550100001").await;
    assert_eq!(verify(&mut client, &used.0, &used.1).await.0, 200);
    let open = send(&mut client, "+15550100002").await;
    let (output, whole) = repair(&cluster, place.path(), shard, &[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!((&whole["state"], &whole["given_up"]), (&json!("whole"), &Value::Null), "{whole}");
    let kept = last(&cluster, shard);
    let lost = send(&mut client, "+15550100003").await;
    lose(&cluster, shard, kept);
    // The owner sees the loss when it writes: no client gets a false answer.
    let body = json!({"phone": "+15550100004"});
    if let Outcome::Answered(answer) = client.post("/v1/otp/send", &body).await {
        assert_eq!(answer.status, 503, "{answer:?}");
    }
    once(&node, "the stop", |state| state_of(state, shard) == "stopped").await;
    // The node has not kept its writes.
    std::fs::remove_dir_all(cluster.directory("pr-1").join("entries")).unwrap();
    let (output, planned) = repair(&cluster, place.path(), shard, &[]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!((&planned["state"], &planned["last"]), (&json!("damaged"), &json!(kept)));
    assert_eq!(planned["given_up"]["from"], kept + 1, "{planned}");
    let (output, repaired) = repair(&cluster, place.path(), shard, &["--accept-loss"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!((&repaired["state"], &repaired["last"]), (&json!("repaired"), &json!(kept)));
    assert_eq!(repaired["given_up"], planned["given_up"]);
    assert_eq!(place.path().read_dir().unwrap().count(), 0, "what it worked with is gone");
    // The node that had stopped continues by itself.
    once(&node, "an owner", |state| state_of(state, shard) == "owned").await;
    client.close();
    assert_eq!(verify(&mut client, &open.0, &open.1).await.0, 200);
    let (status, body) = verify(&mut client, &used.0, &used.1).await;
    assert_ne!(status, 200, "a code was accepted twice: {body}");
    assert_ne!(verify(&mut client, &lost.0, &lost.1).await.0, 200, "it was given up");
    send(&mut client, "+15550100005").await;
    let (output, whole) = repair(&cluster, place.path(), shard, &[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(whole["state"], "whole", "{whole}");
    // After a crash, its own records, which went further than the log, are not continued either.
    node.kill();
    let node = cluster.start("pr-1");
    once(&node, "all shards", |state| state["ready"] == true).await;
    let mut client = Client::new(node.address(), &key);
    for code in [&used, &open, &lost] {
        assert_ne!(verify(&mut client, &code.0, &code.1).await.0, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_missing_is_made_anew_of_a_backup() {
    let cluster = Cluster::made();
    let place = tempfile::tempdir().unwrap();
    let (node, mut client, key, shard) = started(&cluster).await;
    let used = send(&mut client, "+15550100001").await;
    assert_eq!(verify(&mut client, &used.0, &used.1).await.0, 200);
    let open = send(&mut client, "+15550100002").await;
    let backup = place.path().join("backup");
    let (output, copied) = cluster.backup(&backup);
    assert!(output.status.success(), "{output:?}");
    let end = &copied["shards"][usize::try_from(shard).unwrap()]["position"];
    node.terminate();
    assert!(node.ended().status.success());
    let stream = format!("STREAM.DELETE.PR_test_{shard}");
    jetstream(&cluster.nats.address, &stream, &json!({}));
    let log = cluster.try_start("pr-1", &cluster.directory("pr-1")).err().unwrap();
    assert!(log.contains("CLUSTER_MISSING"), "{log}");
    // No repair starts without a source, whatever is accepted.
    let data = place.path().join("work");
    for more in [&[][..], &["--accept-loss"]] {
        let (output, refused) = repair(&cluster, &data, shard, more);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(refused["error"], "LOST", "{refused}");
    }
    let (_, refused) = repair(&cluster, &data, 4, &[]);
    assert_eq!(refused["error"], "NO_SUCH_SHARD", "{refused}");
    // An init would create an empty shard.
    let (output, refused) = cluster.init(&[]);
    assert_eq!((output.status.code(), &refused["error"]), (Some(1), &json!("CLUSTER_MISSING")));
    // The entries after the backup are not known.
    let from = ["--from", backup.to_str().unwrap()];
    let (output, planned) = repair(&cluster, &data, shard, &from);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!((&planned["state"], &planned["unknown_behind"]), (&json!("damaged"), end));
    let accepted = [&from[..], &["--accept-loss"]].concat();
    let (output, repaired) = repair(&cluster, &data, shard, &accepted);
    assert!(output.status.success(), "{output:?}");
    assert_eq!((&repaired["state"], &repaired["last"]), (&json!("repaired"), end), "{repaired}");
    let (_, refused) = repair(&cluster, &data, 4, &[]);
    assert_eq!(refused["error"], "NO_SUCH_SHARD", "{refused}");
    // First the node whose records went further than the new log, and then one without any.
    for name in ["pr-1", "pr-2"] {
        let node = cluster.start(name);
        once(&node, "all shards", |state| state["ready"] == true).await;
        let mut client = Client::new(node.address(), &key);
        let (status, body) = verify(&mut client, &used.0, &used.1).await;
        assert_ne!(status, 200, "a code was accepted twice: {body}");
        if name == "pr-1" {
            assert_eq!(verify(&mut client, &open.0, &open.1).await.0, 200);
        } else {
            assert_ne!(verify(&mut client, &open.0, &open.1).await.0, 200);
        }
        node.terminate();
        assert!(node.ended().status.success());
    }
}

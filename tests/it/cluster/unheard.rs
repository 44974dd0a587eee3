//! A shard that nobody serves.
//!
//! The answers to strangers and operators, and a repair that cannot ask a node.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::nodes::{Cluster, send, verify, workspace};
use super::people::{admin, shard_of};
use super::repair::{last, lose, repair, state_of};
use super::state::{WORKSPACES, once};
use crate::faults::{Client, Outcome, Process};
use crate::support::{Api, Browser, eventually};

/// A node that no other one reaches, and a workspace in a shard that it has stopped. The log has
/// lost the entries after a position.
struct Stopped {
    cluster: Cluster,
    node: Process,
    workspace: &'static str,
    shard: u64,
    key: String,
    /// A code that is in the log, and one that only the node has kept.
    codes: [(String, String); 2],
}

impl Stopped {
    async fn new() -> Self {
        let cluster = Cluster::with(&[("DASHBOARD__ENABLED", "true")]);
        let own = [("CLUSTER__ADVERTISE", "127.0.0.1:1")];
        let node = cluster.start_with("pr-1", &cluster.directory("pr-1"), &own).unwrap();
        once(&node, "all shards", |state| state["ready"] == true).await;
        // People are in the first shard.
        let id = WORKSPACES.into_iter().find(|id| shard_of(id) != 0).unwrap();
        let shard = shard_of(id) as u64;
        let (mut client, key) = workspace(&node, id).await;
        let first = send(&mut client, "+15550100001").await;
        let kept = last(&cluster, shard);
        let second = send(&mut client, "+15550100002").await;
        lose(&cluster, shard, kept);
        let body = json!({"phone": "+15550100003"});
        if let Outcome::Answered(answer) = client.post("/v1/otp/send", &body).await {
            assert_eq!(answer.status, 503, "{answer:?}");
        }
        once(&node, "the stop", |state| state_of(state, shard) == "stopped").await;
        Self { cluster, node, workspace: id, shard, key, codes: [first, second] }
    }

    fn address(&self) -> Arc<Mutex<std::net::SocketAddr>> {
        Arc::new(Mutex::new(self.node.address()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_asked_about_a_shard_for_a_stranger_and_an_operator_is_told_of_it() {
    let stopped = Stopped::new().await;
    let members = format!("/admin/v1/workspaces/{}/members", stopped.workspace);
    let stranger = Api::new(&stopped.address(), None);
    stranger.get(&members).await.check(401, "UNAUTHORIZED");
    // The server does not wait for a stranger's body.
    let mut stream = TcpStream::connect(stopped.node.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = "POST /admin/v1/workspaces HTTP/1.1\r\nHost: localhost\r\n\
                Content-Type: application/json\r\nContent-Length: 60000\r\n\r\n{";
    stream.write_all(head.as_bytes()).unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 401");
    let body = json!({"email": "ada@example.com", "operator": true});
    let link = admin(&stopped.node).post("/admin/v1/users/link", body).await.ok();
    let mut operator = Browser::new(&stopped.address());
    operator.follow(link["url"].as_str().unwrap()).await.ok();
    let me = operator.get("/v1/me").await.ok();
    assert_eq!(me["workspaces_incomplete"], true, "{me}");
    assert_eq!(me["workspaces"], json!([]), "{me}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_may_have_that_does_not_answer_is_not_given_up() {
    let Stopped { cluster, node, shard, key, codes, .. } = Stopped::new().await;
    let place = tempfile::tempdir().unwrap();
    for more in [&[][..], &["--accept-loss"]] {
        let (output, refused) = repair(&cluster, place.path(), shard, more);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert_eq!(refused["state"], "damaged", "{refused}");
        assert!(refused["given_up"].is_object(), "{refused}");
        assert_eq!(refused["not_heard"][0]["node"], "pr-1", "{refused}");
        let told = String::from_utf8_lossy(&output.stderr).contains("pr-1");
        assert!(more.is_empty() || told, "{output:?}");
    }
    // A stopped node's data can be read.
    node.terminate();
    assert!(node.ended().status.success());
    let data = cluster.directory("pr-1");
    let named = ["--node", data.to_str().unwrap()];
    let done = async || {
        let (_, repaired) = repair(&cluster, place.path(), shard, &named);
        (repaired["state"] == "repaired").then_some(repaired)
    };
    let repaired = eventually("the repair", done).await;
    // Its key may claim for a second more that it runs.
    assert_eq!(repaired["given_up"], Value::Null, "{repaired}");
    let node = cluster.start("pr-2");
    once(&node, "all shards", |state| state["ready"] == true).await;
    let mut client = Client::new(node.address(), &key);
    for code in &codes {
        assert_eq!(verify(&mut client, &code.0, &code.1).await.0, 200, "nothing was lost");
    }
}

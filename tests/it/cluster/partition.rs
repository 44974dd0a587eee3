//! Nodes that do not reach NATS, each cut off in another direction, while another one does.
//!
//! There are three servers of NATS, and clients work.

use postrider_actors::clock::Stopwatch;
use serde_json::{Value, json};

use super::load::Load;
use super::nats::Nats;
use super::nodes::{Cluster, send, verify, workspace};
use super::state::{is_spread, once, owned, workspaces};
use super::troubles::audit;
use super::ways::Way;
use crate::faults::{Client, Outcome, Process};

/// The number of codes that are acknowledged between two faults, with any owners.
const CODES: usize = 60;

/// Opens a way to each server.
async fn ways(cluster: &Cluster) -> Vec<Way> {
    let mut ways = Vec::new();
    for server in cluster.nats.address.split(',') {
        ways.push(Way::to(server.strip_prefix("nats://").unwrap().to_owned()).await);
    }
    ways
}

/// Submits a code that another node has reported as used, and returns the status. The node must
/// never accept it.
async fn is_not_accepted(node: &Process, key: &str, request: &str, code: &str) -> Option<u16> {
    let mut client = Client::new(node.address(), key);
    let body = json!({"request_id": request, "otp": code});
    match client.post("/v1/otp/verify", &body).await {
        Outcome::Answered(answer) => {
            assert!([422, 503].contains(&answer.status), "accepted twice: {answer:?}");
            Some(answer.status)
        }
        Outcome::Lost | Outcome::Refused => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_cut_off_from_nats_gives_up_in_time_whichever_way_is_cut() {
    let cluster = Cluster::made_over(Nats::three_unknown());
    let ways = [ways(&cluster).await, ways(&cluster).await];
    let start = |name: &str, ways: &[Way]| {
        let servers: Vec<_> = ways.iter().map(|way| format!("nats://{}", way.address)).collect();
        let servers = servers.join(",");
        let own = [("CLUSTER__NATS", servers.as_str())];
        cluster.start_with(name, &cluster.directory(name), &own).unwrap()
    };
    let (first, second) = (start("pr-1", &ways[0]), start("pr-2", &ways[1]));
    let third = cluster.start("pr-3");
    once(&third, "shards for each", is_spread).await;
    let workspaces = workspaces(&third).await;
    let nodes = [&first, &second, &third];
    let load = Load::begin(&nodes, &workspaces);
    load.acknowledges(CODES).await;
    let mut codes = Vec::new();
    for id in ["wayne", "tyrell", "cyberdyne", "soylent"] {
        let (mut client, key) = workspace(&third, id).await;
        let code = send(&mut client, "+15550100001").await;
        codes.push((key, code, send(&mut client, "+15550100002").await));
    }
    // One node cannot send NATS anything, and the other hears nothing.
    ways[0].iter().for_each(|way| way.set(0, true));
    ways[1].iter().for_each(|way| way.set(1, true));
    let clock = Stopwatch::start();
    let alone = |it: &Value| it["ready"] == true && owned(it, "pr-3") == 4;
    once(&third, "all shards of the node that reaches NATS", alone).await;
    println!("taken over {:?} after the cut", clock.elapsed());
    for (key, (request, code), _) in &codes {
        let mut client = Client::new(third.address(), key);
        assert_eq!(verify(&mut client, request, code).await.0, 200);
        for node in [&first, &second] {
            is_not_accepted(node, key, request, code).await;
        }
    }
    load.acknowledges(CODES).await;
    ways[0].iter().for_each(|way| way.set(0, false));
    ways[1].iter().for_each(|way| way.set(1, false));
    once(&third, "shards for each again", is_spread).await;
    load.acknowledges(CODES).await;
    for (key, (request, code), (other, other_code)) in &codes {
        for node in [&first, &second] {
            is_not_accepted(node, key, request, code).await;
        }
        let mut client = Client::new(first.address(), key);
        assert_eq!(verify(&mut client, other, other_code).await.0, 200, "nothing was lost");
    }
    println!("{}", audit(&load.end().await, &nodes).await);
}

//! Three nodes over three servers: nodes and servers are killed and paused while clients work.
//!
//! At the end every acknowledged change exists, and no code was accepted twice.

use serde_json::Value;

use super::load::{Load, total};
use super::nodes::Cluster;
use super::state::{NODES, is_spread, once, owns, workspaces};
use crate::faults::{Process, signal};

/// The number of codes that are acknowledged between two faults, with any owners.
const CODES: usize = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_was_acknowledged_is_lost_whatever_is_killed_or_paused() {
    let mut cluster = Cluster::of_three();
    let [first, second, third] = NODES.map(|node| cluster.start(node));
    once(&third, "shards for each", is_spread).await;
    let workspaces = workspaces(&third).await;
    let load = Load::begin(&[&third, &first, &second], &workspaces);
    load.acknowledges(CODES).await;
    // Two of three nodes at once: one is dead, and one comes back later and believes that it owns.
    first.kill();
    signal(second.id(), "STOP");
    once(&third, "all shards of the node that is left", |state| owns(state, "pr-3", 4)).await;
    load.acknowledges(CODES).await;
    signal(second.id(), "CONT");
    let first = cluster.start("pr-1");
    once(&second, "shards for each again", is_spread).await;
    // The server that leads the log of a shard is killed.
    let leader = tokio::task::block_in_place(|| cluster.nats.leader_of(0)).expect("a leader");
    cluster.nats.kill(std::slice::from_ref(&leader));
    load.acknowledges(CODES).await;
    let others = |state: &Value| state["log"]["reachable"] == true && is_spread(state);
    once(&third, "a log without that server", others).await;
    load.acknowledges(CODES).await;
    cluster.nats.start_again(&[leader]);
    let reports = load.end().await;
    let (codes, unanswered, refused, slowest) = total(&reports);
    println!("{codes} codes, {unanswered} unanswered, {refused} refused, slowest {slowest:?}");
    assert!(reports.iter().all(|it| it.acknowledged() > 10), "{reports:?}");
    // Everything is killed at once.
    [first, second, third].into_iter().for_each(Process::kill);
    let all = cluster.nats.names();
    cluster.nats.kill(&all);
    cluster.nats.start_again(&all);
    let nodes = cluster.start_all(NODES);
    once(&nodes[0], "all shards after a start of everything", |it| it["ready"] == true).await;
    for (at, it) in reports.iter().enumerate() {
        it.check(&nodes[at % nodes.len()]).await;
    }
}

//! Clocks that jump, disks that are full, and servers of NATS that hang, while clients work.
//!
//! At the end every acknowledged change exists, and no code was accepted twice.

use serde_json::Value;

use super::load::{Load, LoadReport, longest_gap, total};
use super::nodes::Cluster;
use super::state::{NODES, is_spread, once, owned, postrider, workspaces};
use crate::faults::Process;
use crate::machine::Machine;

/// The number of codes that are acknowledged between two faults, with any owners.
const CODES: usize = 60;
const HOUR_MS: i64 = 3_600_000;

/// Checks the clients' answers against the nodes. Returns a summary of the answers.
pub(super) async fn audit(reports: &[LoadReport], nodes: &[&Process]) -> String {
    let (codes, unanswered, refused, slowest) = total(reports);
    let gap = longest_gap(reports);
    assert!(reports.iter().all(|it| it.acknowledged() > 10), "{reports:?}");
    for (at, it) in reports.iter().enumerate() {
        it.check(nodes[at % nodes.len()]).await;
    }
    format!(
        "{codes} codes, {unanswered} unanswered, {refused} refused, slowest {slowest:?}, \
         longest without an answer {gap:?}"
    )
}

/// Three nodes with shards, the first of which has a machine of its own. They end before it does.
struct Trio {
    nodes: [Process; 3],
    workspaces: Vec<(String, String)>,
    _cluster: Cluster,
    machine: Machine,
    _dir: tempfile::TempDir,
}

impl Trio {
    async fn over(cluster: Cluster) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let machine = Machine::new(dir.path()).unwrap();
        let first = cluster.start_on(&machine, "pr-1");
        let [second, third] = ["pr-2", "pr-3"].map(|node| cluster.start(node));
        once(&third, "shards for each", is_spread).await;
        let workspaces = workspaces(&third).await;
        Self { nodes: [first, second, third], workspaces, _cluster: cluster, machine, _dir: dir }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_clock_jumps_an_hour_keeps_its_shards_and_takes_no_other() {
    let trio = Trio::over(Cluster::of_three()).await;
    let (machine, [first, second, third]) = (&trio.machine, &trio.nodes);
    let load = Load::begin(&[first, second, third], &trio.workspaces);
    for offset in [HOUR_MS, -HOUR_MS] {
        machine.set_wall_offset(offset).unwrap();
        let differs = |it: &Value| it["problems"].to_string().contains("clock");
        let state = once(first, "a clock that is wrong", differs).await;
        assert!(owned(&state, "pr-1") > 0, "what it owns it keeps: {state}");
        load.acknowledges(CODES).await;
        // The other nodes take its shards over with a time that does not go back.
        let (output, _) = postrider(second, &["drain", "pr-1"]).await;
        assert!(output.status.success(), "{output:?}");
        let (output, _) = postrider(second, &["undrain", "pr-1"]).await;
        assert!(output.status.success(), "{output:?}");
        load.acknowledges(CODES).await;
        let state = once(second, "the cluster", |_| true).await;
        assert_eq!(owned(&state, "pr-1"), 0, "it must claim nothing: {state}");
        machine.set_wall_offset(0).unwrap();
        once(second, "shards for each again", is_spread).await;
        load.acknowledges(CODES).await;
    }
    let reports = load.end().await;
    println!("{}", audit(&reports, &[first, second, third]).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_disk_is_full_gives_its_shards_to_others_until_there_is_room() {
    let trio = Trio::over(Cluster::made()).await;
    let (machine, [first, second, third]) = (&trio.machine, &trio.nodes);
    let load = Load::begin(&[second, third], &trio.workspaces);
    load.acknowledges(CODES).await;
    machine.set_full(true).unwrap();
    let given = |it: &Value| it["ready"] == true && owned(it, "pr-1") == 0;
    once(second, "shards for the others", given).await;
    load.acknowledges(CODES).await;
    machine.set_full(false).unwrap();
    once(second, "shards for each again", is_spread).await;
    load.acknowledges(CODES).await;
    let reports = load.end().await;
    println!("{}", audit(&reports, &[first, second, third]).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_nats_that_hang_or_lack_a_majority_cost_time_and_nothing_else() {
    let cluster = Cluster::of_three();
    let nodes = cluster.start_all(NODES);
    once(&nodes[2], "shards for each", is_spread).await;
    let workspaces = workspaces(&nodes[2]).await;
    let load = Load::begin(&[&nodes[0], &nodes[1], &nodes[2]], &workspaces);
    load.acknowledges(CODES).await;
    // It does not answer, and keeps all connections.
    let leader = tokio::task::block_in_place(|| cluster.nats.leader_of(0)).expect("a leader");
    cluster.nats.signal(std::slice::from_ref(&leader), "STOP");
    load.acknowledges(CODES).await;
    cluster.nats.signal(std::slice::from_ref(&leader), "CONT");
    once(&nodes[0], "shards for each again", is_spread).await;
    // One server of three cannot commit: each node's right to answer ends.
    let minority: Vec<_> = cluster.nats.names().into_iter().skip(1).collect();
    cluster.nats.signal(&minority, "STOP");
    let silent = |it: &Value| it["ready"] == false && it["log"]["reachable"] == false;
    once(&nodes[0], "no owner", silent).await;
    cluster.nats.signal(&minority, "CONT");
    once(&nodes[0], "shards for each after all", is_spread).await;
    load.acknowledges(CODES).await;
    let reports = load.end().await;
    let (codes, unanswered, refused, slowest) = total(&reports);
    println!("nats: {codes} codes, {unanswered} unanswered, {refused} refused, {slowest:?}");
    for (at, it) in reports.iter().enumerate() {
        it.check(&nodes[at % nodes.len()]).await;
    }
}

//! Servers of NATS that are restarted, whose disk is full, or whose files are damaged.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::load::{Load, total};
use super::nats::Nats;
use super::nodes::Cluster;
use super::state::{NODES, is_spread, once, workspaces};
use crate::faults::{Disk, Process, fill, skip};

/// The number of codes that are acknowledged between two faults, with any owners.
const CODES: usize = 60;

/// Three nodes with clients that work.
struct Working {
    cluster: Cluster,
    nodes: Vec<Process>,
    load: Load,
}

impl Working {
    async fn over(nats: Nats) -> Self {
        let cluster = Cluster::made_over(nats);
        let nodes = cluster.start_all(NODES);
        once(&nodes[0], "shards for each", is_spread).await;
        let workspaces = workspaces(&nodes[0]).await;
        let load = Load::begin(&[&nodes[0], &nodes[1], &nodes[2]], &workspaces);
        load.acknowledges(CODES).await;
        Self { cluster, nodes, load }
    }

    async fn is_whole(&self) {
        self.load.acknowledges(CODES).await;
        let is_so = |it: &Value| it["log"]["reachable"] == true && is_spread(it);
        once(&self.nodes[0], "all shards", is_so).await;
    }

    /// Ends the clients, and checks their answers against the nodes.
    async fn audit(self) {
        let state = once(&self.nodes[0], "all shards", is_spread).await;
        assert!(!state.to_string().contains("stopped"), "{state}");
        let reports = self.load.end().await;
        let (codes, unanswered, refused, slowest) = total(&reports);
        eprintln!("{codes} codes, {unanswered} unanswered, {refused} refused, slowest {slowest:?}");
        for (at, it) in reports.iter().enumerate() {
            it.check(&self.nodes[at % self.nodes.len()]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_server_is_restarted_and_nothing_is_lost() {
    let mut working = Working::over(Nats::three()).await;
    for name in working.cluster.nats.names() {
        tokio::task::block_in_place(|| working.cluster.nats.restart(&name));
        working.is_whole().await;
    }
    let is_calm = |it: &Value| is_spread(it) && it["problems"] == json!([]);
    once(&working.nodes[0], "no problem", is_calm).await;
    working.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_disk_is_full_holds_up_nothing_for_long() {
    let disk = match Disk::tmpfs(96) {
        Ok(disk) => disk,
        Err(why) => return skip("a_server_whose_disk_is_full_holds_up_nothing_for_long", &why),
    };
    let mut working = Working::over(Nats::three_on(&disk.root())).await;
    let ballast = fill(&disk.root());
    working.is_whole().await;
    working.is_whole().await;
    fs::remove_file(ballast).unwrap();
    tokio::task::block_in_place(|| working.cluster.nats.restart("n1"));
    working.is_whole().await;
    working.audit().await;
}

/// The damage to the files of a server.
#[derive(Debug, Clone, Copy)]
enum Damage {
    CutShort,
    Flipped,
    AllLost,
}

impl Damage {
    fn of(self, path: &Path) {
        let mut bytes = fs::read(path).unwrap();
        let half = bytes.len() / 2;
        match self {
            Self::CutShort => bytes.truncate(half),
            Self::Flipped => bytes.iter_mut().skip(half).take(64).for_each(|byte| *byte ^= 0x5a),
            Self::AllLost => return,
        }
        fs::write(path, bytes).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_server_has_damaged_the_others_still_have() {
    let mut working = Working::over(Nats::three()).await;
    let names = working.cluster.nats.names();
    let damages = [Damage::CutShort, Damage::Flipped, Damage::AllLost];
    for (name, damage) in names.iter().zip(damages) {
        let one = std::slice::from_ref(name);
        working.cluster.nats.kill(one);
        let blocks: Vec<_> =
            (0..4).flat_map(|shard| working.cluster.nats.blocks_of(name, shard)).collect();
        assert!(blocks.len() >= 4, "{blocks:?}");
        blocks.iter().for_each(|block| damage.of(block));
        if matches!(damage, Damage::AllLost) {
            working.cluster.nats.lose_all(name);
        }
        tokio::task::block_in_place(|| {
            working.cluster.nats.start_again(one);
            working.cluster.nats.is_healthy(name);
        });
        working.is_whole().await;
    }
    working.audit().await;
}

//! Tests of two nodes over a bucket in memory: one node's looks, writes, and inputs to its shards.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};

use parking_lot::Mutex;
use postrider_log::{Entry, Log, LogId, Position};

use super::*;
use crate::archive_store::CheckpointsIn;
use crate::checkpoints::{FakeArchives, ShardCheckpoints};
use crate::clock::{SteadyClock, StillClock};
use crate::cluster_record::ClusterRecord;
use crate::coordination::{ASSIGNMENT, FakeCoordination, node_key};
use crate::gate::{Gate, ShardTenure};
use crate::log::FakeStream;
use crate::name::Identity;
use crate::shard::ReleaseAnswer;
use crate::shared::{Counters, Host, NodeOptions};
use crate::tenure::Terms;

const WALL_MS: u64 = 1_000_000;
const SHARDS: u16 = 8;

fn name(node: &str) -> NodeName {
    NodeName::new(node).unwrap()
}

/// A host without engines, with a settable wall clock.
#[derive(Debug)]
struct Wall(AtomicU64);

impl Host for Wall {
    fn start(
        &self,
        _: u16,
        _: Arc<dyn Log>,
        _: ShardCheckpoints,
        _: ShardTenure,
    ) -> Result<(), String> {
        Err("there are no engines".to_owned())
    }

    fn follow(
        &self,
        _: u16,
        _: Arc<dyn Log>,
        _: ShardCheckpoints,
        _: &dyn Fn() -> bool,
    ) -> Result<Position, String> {
        Err("there are no records".to_owned())
    }

    fn keep(&self, _: u16, _: Entry) {}

    fn forget(&self, _: u16) -> bool {
        true
    }

    fn drain(&self, _: u16) {}

    fn abandon(&self, _: u16) {}

    fn ask_release(&self, _: &str, _: u16, _: &NodeName) -> Option<ReleaseAnswer> {
        None
    }

    fn wall_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn is_failing(&self) -> bool {
        false
    }

    fn lacks_space(&self) -> bool {
        false
    }
}

pub(crate) struct Cluster {
    pub(crate) inner: Arc<Inner>,
    wall: Arc<Wall>,
    heard: Receiver<Input>,
}

impl Cluster {
    /// Creates the view of the node a.
    pub(crate) fn new() -> Self {
        let clock: Arc<dyn SteadyClock> = Arc::new(StillClock::default());
        let wall = Arc::new(Wall(AtomicU64::new(WALL_MS)));
        let (sender, heard) = channel();
        let options = NodeOptions {
            node: name("a"),
            identity: Identity { directory: [1; 16], incarnation: [1; 16] },
            belongs_to: None,
            advertise: String::new(),
            zone: String::new(),
            version: String::new(),
            lease_seconds: 13,
            standbys: 1,
        };
        let record = ClusterRecord {
            id: String::new(),
            shards: SHARDS,
            replicas: 1,
            stream_bytes_max: 1,
            key: String::new(),
            checkpoints: CheckpointsIn::Nats,
        };
        let inner = Inner {
            archives: Arc::new(FakeArchives::default()),
            options,
            terms: Terms::DEFAULT,
            record,
            cluster: name("test"),
            key: "1-a".to_owned(),
            server_version: String::new(),
            bucket: Arc::new(FakeCoordination::new(clock.clone())),
            streams: vec![Arc::new(FakeStream::default())],
            logs: vec![LogId([7; 16])],
            gate: Gate::new(clock.clone(), SHARDS),
            clock,
            host: wall.clone(),
            seen: Mutex::default(),
            clocks: Mutex::default(),
            reports: Mutex::default(),
            apply_lags: Mutex::default(),
            lives: OnceLock::from(vec![sender]),
            is_stopping: Arc::default(),
            is_name_taken: AtomicBool::new(false),
            counters: Counters::default(),
            turns: Arc::default(),
            answered_ms: AtomicU64::new(0),
        };
        Self { inner: Arc::new(inner), wall, heard }
    }

    /// Writes the report of a node.
    fn report(&self, node: &str, renewal: u64, wall_ms: u64, owned: &[u16]) {
        self.says(node, &NodeRecord { renewal, wall_ms, ..NodeRecord::owning(owned) });
    }

    pub(crate) fn says(&self, node: &str, record: &NodeRecord) {
        let key = node_key(&name(node));
        let bucket = &self.inner.bucket;
        let revision = bucket.read(&key).unwrap().map_or(0, |kept| kept.revision);
        let value = encode(&key, record).unwrap();
        assert!(bucket.write(&key, value, revision, None).unwrap().is_some());
    }

    /// Returns the number of assigned shards of each node, after some looks.
    fn assigned(&self) -> (usize, usize) {
        // The node leads, assigns, and reads its assignment; and then once more.
        (0..4).for_each(|_| look(&self.inner).unwrap());
        let seen = self.inner.seen.lock().clone();
        let of =
            |node: &str| seen.assignment.iter().filter(|it| it.owner == Some(name(node))).count();
        (of("a"), of("b"))
    }
}

#[test]
fn no_more_shards_are_on_their_way_than_two_however_often_it_is_looked() {
    let cluster = Cluster::new();
    let all: Vec<u16> = (0..SHARDS).collect();
    cluster.report("a", 1, WALL_MS, &[]);
    assert_eq!(cluster.assigned(), (8, 0));
    cluster.report("a", 2, WALL_MS, &all);
    cluster.report("b", 1, WALL_MS, &[]);
    assert_eq!(cluster.assigned(), (6, 2));
    let owners = || {
        let kept = cluster.inner.bucket.read(ASSIGNMENT).unwrap().unwrap();
        let seen = cluster.inner.seen.lock().assignment.clone();
        let of_b = (0..SHARDS).zip(seen).filter(|(_, it)| it.owner == Some(name("b")));
        (kept.revision, of_b.map(|(shard, _)| shard).collect::<Vec<_>>())
    };
    let (revision, coming) = owners();
    // One of the shards has arrived, so one more may move.
    cluster.report("b", 2, WALL_MS, &coming[..1]);
    assert_eq!(cluster.assigned(), (5, 3));
    assert!(owners().0 > revision);
    cluster.report("b", 3, WALL_MS, &owners().1);
    assert_eq!(cluster.assigned(), (4, 4));
}

#[test]
fn a_clock_that_most_nodes_have_not_claims_nothing_until_it_is_set() {
    let cluster = Cluster::new();
    let inner = &cluster.inner;
    let look = || look(inner).map(|()| Doubts::found(inner)).unwrap();
    cluster.report("a", 1, WALL_MS, &[]);
    assert_eq!((look(), inner.clock_agrees()), (Doubts::default(), true));
    for (renewal, by) in [(1, 0), (2, 3_000), (3, 3_000), (4, 3_000)] {
        cluster.report("b", renewal, WALL_MS + by, &[]);
        look();
    }
    let doubts = look();
    let expected = Doubts { is_alone: true, ahead_ms: [(name("b"), -3_000)].into() };
    assert_eq!((&doubts, inner.clock_agrees()), (&expected, false));
    assert!(doubts.are_news(&Doubts::default()) && Doubts::default().are_news(&doubts));
    let further = Doubts { is_alone: true, ahead_ms: [(name("b"), -3_001)].into() };
    assert!(!further.are_news(&doubts));
    // The clock is set, which counts without another look.
    cluster.wall.0.store(WALL_MS + 2_000, Ordering::Relaxed);
    assert!(inner.clock_agrees());
    let doubts = look();
    assert_eq!((doubts.is_alone, doubts.ahead_ms[&name("b")]), (false, -1_000));
    assert!(doubts.are_news(&expected));
    assert!(cluster.heard.try_iter().all(|input| matches!(input, Input::Seen(_))));
}

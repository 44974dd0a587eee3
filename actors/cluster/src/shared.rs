//! The state that the threads of a node share, and the port to the host of its engines.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, SyncSender};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use postrider_log::{Entry, Log, LogError, Position};

use crate::checkpoints::{Archives, ShardCheckpoints};
use crate::clock::SteadyClock;
use crate::cluster_record::ClusterRecord;
use crate::coordination::skew::Clocks;
use crate::coordination::{Coordination, NodeRecord, ShardReport, Standing};
use crate::gate::{Gate, ShardTenure};
use crate::log::{AppendCounts, Appends, LogReport, ReplicatedLog, ReplicatedOptions, Stream};
use crate::name::{Identity, NodeName};
use crate::placement::Assignment;
use crate::shard::ReleaseAnswer;
use crate::tenure::Terms;
use crate::turns::Turns;

/// The time between two checks of an awaited condition.
pub(crate) const LOOK_EVERY_MS: u64 = 20;

/// The host of the engines. Its methods block, and are called from threads of the node.
pub trait Host: Debug + Send + Sync + 'static {
    /// Starts the engine of a shard over its log. It acts only while the tenure holds.
    ///
    /// The engine loads a checkpoint if its records are not on this node.
    ///
    /// # Errors
    /// The reason why it did not start.
    fn start(
        &self,
        shard: u16,
        log: Arc<dyn Log>,
        checkpoints: ShardCheckpoints,
        tenure: ShardTenure,
    ) -> Result<(), String>;

    /// Brings the records of a shard that another node owns towards the end of its log.
    ///
    /// It starts with a checkpoint if the records are not on this node, and continues until
    /// `gives_up` returns `true`. Returns the position of the records. They stay open until the
    /// engine starts, or the shard is forgotten.
    ///
    /// # Errors
    /// The reason why the records could not be brought up to date.
    fn follow(
        &self,
        shard: u16,
        log: Arc<dyn Log>,
        checkpoints: ShardCheckpoints,
        gives_up: &dyn Fn() -> bool,
    ) -> Result<Position, String>;

    /// Keeps an entry that was read from or written to the log of a shard, in case the log loses
    /// it.
    ///
    /// It does not block.
    fn keep(&self, shard: u16, entry: Entry);

    /// Removes the records of a shard with which the node has nothing to do any more.
    ///
    /// Returns whether they were removed completely.
    fn forget(&self, shard: u16) -> bool;

    /// Admits nothing new, and returns when all admitted work is in the log.
    fn drain(&self, shard: u16);

    /// Stops the engine at once, if there is one.
    fn abandon(&self, shard: u16);

    /// Asks the node at this address to hand a shard over; `None` when it did not answer.
    fn ask_release(&self, address: &str, shard: u16, by: &NodeName) -> Option<ReleaseAnswer>;

    /// Returns the wall clock, in milliseconds.
    fn wall_ms(&self) -> u64;

    /// Returns whether the disk accepts no writes, so that other nodes shall own the shards.
    ///
    /// It does not block.
    fn is_failing(&self) -> bool;

    /// Returns whether the disk fails only because too little of it is free. It does not block.
    fn lacks_space(&self) -> bool;
}

/// The options of a node.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// The name of the node.
    pub node: NodeName,
    /// The identity of the process.
    pub identity: Identity,
    /// The cluster that its directory belongs to, if it has belonged to one.
    pub belongs_to: Option<String>,
    /// The address at which other nodes reach it.
    pub advertise: String,
    /// The zone: the nodes that fail together with this one.
    pub zone: String,
    /// The version of its program.
    pub version: String,
    /// The time to live of its key without a renewal, in seconds.
    pub lease_seconds: u64,
    /// The number of standbys of each shard.
    pub standbys: usize,
}

/// The view that a node has of the cluster.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The nodes whose keys exist.
    pub nodes: BTreeMap<NodeName, NodeRecord>,
    /// The node that shall own each shard.
    pub assignment: Assignment,
    /// The nodes that shall own nothing.
    pub draining: BTreeSet<NodeName>,
}

impl Seen {
    /// Returns whether a node shall own nothing.
    #[must_use]
    pub fn drains(&self, node: &NodeName) -> bool {
        self.draining.contains(node) || self.nodes.get(node).is_some_and(|it| it.is_draining)
    }

    /// Returns the nodes whose current master key differs from this one.
    ///
    /// Neither can read the values that the other seals. Earlier versions report no key.
    pub fn other_keys<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a NodeName> {
        let differs = move |it: &NodeRecord| !it.key.is_empty() && it.key != key;
        self.nodes.iter().filter(move |(_, it)| differs(it)).map(|(name, _)| name)
    }

    /// Returns whether another node has a later master key: then this one is given nothing.
    #[must_use]
    pub fn has_earlier_key(&self, node: &NodeName) -> bool {
        let own = self.nodes.get(node).and_then(NodeRecord::key_version);
        let newest = self.nodes.values().filter_map(NodeRecord::key_version).max();
        own.is_some() && own < newest
    }

    /// Returns how many shards a node still has to give away before it owns nothing.
    #[must_use]
    pub fn left(&self, node: &NodeName) -> usize {
        let reports = self.nodes.get(node).map_or(&[][..], |record| &record.shards);
        let acts = |state| matches!(state, Standing::Owned | Standing::Claiming);
        let acting = reports.iter().filter(|it| acts(it.state)).map(|it| usize::from(it.shard));
        let placed = self.assignment.iter().enumerate();
        let placed = placed.filter(|(_, it)| it.owner.as_ref() == Some(node)).map(|(at, _)| at);
        acting.chain(placed).collect::<BTreeSet<_>>().len()
    }

    /// Returns the node that reports that it owns a shard.
    ///
    /// Of several, it is the one with the highest epoch.
    #[must_use]
    pub fn owner(&self, shard: u16) -> Option<(&NodeName, &NodeRecord, &ShardReport)> {
        let is_owned = |it: &&ShardReport| it.shard == shard && it.state == Standing::Owned;
        let owners = self.nodes.iter().filter_map(|(name, record)| {
            record.shards.iter().find(is_owned).map(|report| (name, record, report))
        });
        owners.max_by_key(|(_, _, report)| report.epoch)
    }
}

/// The counters of events of the shards of a node since it started.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) claims: AtomicU64,
    pub(crate) failovers: AtomicU64,
    pub(crate) fenced: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) appends: Arc<Appends>,
}

/// The values of the counters when they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// The number of shards that the node started to own.
    pub claims: u64,
    /// The number of claims of shards whose owner before had not handed them over.
    pub failovers: u64,
    /// The number of owners that found the position of their next entry taken.
    ///
    /// Another node had replaced them.
    pub fenced: u64,
    /// The number of shards that stopped because their log had lost something or was damaged.
    pub lost: u64,
    /// The counts of its appends by outcome.
    pub appends: AppendCounts,
}

/// An input of the thread of a shard.
pub(crate) enum Input {
    /// The view of the bucket.
    Seen(Arc<Seen>),
    /// A report of the log of the engine with this number.
    Log(u64, LogReport),
    /// The engine with this number has started, or failed to start.
    Started(u64, Result<(), String>),
    /// The position of the followed records, or the reason why they could not be updated.
    Followed(Result<Position, String>),
    /// The records of a shard that the node does not need were removed, or were not.
    Removed(bool),
    /// The engine has finished all admitted work.
    Drained,
    /// The engine has stopped.
    Stopped,
    /// Another node asks for the shard.
    Release { by: NodeName, reply: SyncSender<ReleaseAnswer> },
    /// The request to finish the current work, and to end.
    Quit,
}

/// The state that the threads of a node share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) options: NodeOptions,
    pub(crate) terms: Terms,
    pub(crate) record: ClusterRecord,
    pub(crate) cluster: NodeName,
    /// The form in which the current master key is reported to others.
    pub(crate) key: String,
    pub(crate) server_version: String,
    pub(crate) bucket: Arc<dyn Coordination>,
    pub(crate) archives: Arc<dyn Archives>,
    pub(crate) streams: Vec<Arc<dyn Stream>>,
    pub(crate) logs: Vec<postrider_log::LogId>,
    pub(crate) clock: Arc<dyn SteadyClock>,
    pub(crate) gate: Gate,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) seen: Mutex<Arc<Seen>>,
    /// The wall clocks of the other nodes.
    pub(crate) clocks: Mutex<Clocks>,
    /// By shard, the report of this node about it.
    pub(crate) reports: Mutex<Vec<Option<ShardReport>>>,
    /// By shard for which it is a standby, the age of its records, in milliseconds.
    pub(crate) apply_lags: Mutex<Vec<Option<u64>>>,
    pub(crate) counters: Counters,
    pub(crate) turns: Arc<Turns>,
    pub(crate) lives: OnceLock<Vec<Sender<Input>>>,
    pub(crate) is_stopping: Arc<AtomicBool>,
    pub(crate) is_name_taken: AtomicBool,
    /// The time of the last answer of the bucket, by the steady clock.
    pub(crate) answered_ms: AtomicU64,
}

impl Inner {
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    pub(crate) fn deliver(&self, shard: usize, input: Input) {
        if let Some(life) = self.lives.get().and_then(|lives| lives.get(shard)) {
            // A life that has ended needs no input.
            drop(life.send(input));
        }
    }

    /// Opens a handle of a shard's log.
    pub(crate) fn open_log(&self, shard: u16) -> Result<ReplicatedLog, LogError> {
        let (id, stream) = (self.logs[usize::from(shard)], &self.streams[usize::from(shard)]);
        let (stream, clock) = (stream.clone(), self.clock.clone());
        let log = ReplicatedLog::open(id, shard, stream, clock, ReplicatedOptions::default())?;
        Ok(log.counted_by(self.counters.appends.clone()))
    }

    /// Returns the checkpoints of a shard.
    pub(crate) fn checkpoints(&self, shard: u16) -> ShardCheckpoints {
        let bytes_max = self.record.stream_bytes_max.unsigned_abs();
        let (bucket, archives) = (self.bucket.clone(), self.archives.clone());
        let checkpoints = ShardCheckpoints::new(shard, bucket, archives, bytes_max);
        checkpoints.of_node(self.is_stopping.clone())
    }

    /// Returns whether this node's wall clock agrees with most nodes.
    pub(crate) fn clock_agrees(&self) -> bool {
        self.clocks.lock().may_claim(self.clock.now_ms(), self.host.wall_ms())
    }

    /// Waits, unless the node is stopped first. Returns whether the node continues.
    pub(crate) fn pause(&self, for_ms: u64) -> bool {
        let until = self.clock.now_ms() + for_ms;
        while !self.is_stopping() && self.clock.now_ms() < until {
            self.clock.wait_ms(LOOK_EVERY_MS);
        }
        !self.is_stopping()
    }
}

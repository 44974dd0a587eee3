//! What the threads of a node share, and the port to what runs its engines.

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

/// Between two looks at whether it is there.
pub(crate) const LOOK_EVERY_MS: u64 = 20;

/// What runs the engines. Its methods block, and are called from threads of the node.
pub trait Host: Debug + Send + Sync + 'static {
    /// Starts the engine of a shard over its log, and over a checkpoint where its records are not
    /// here. It acts only while the tenure holds.
    ///
    /// # Errors
    /// Why it did not start.
    fn start(
        &self,
        shard: u16,
        log: Arc<dyn Log>,
        checkpoints: ShardCheckpoints,
        tenure: ShardTenure,
    ) -> Result<(), String>;

    /// Brings the records of a shard that another node owns towards the end of its log, beginning
    /// with a checkpoint where they are not here, until it is given up. Returns the position that
    /// they have. They stay open until the engine starts, or the shard is forgotten.
    ///
    /// # Errors
    /// Why they are not there.
    fn follow(
        &self,
        shard: u16,
        log: Arc<dyn Log>,
        checkpoints: ShardCheckpoints,
        gives_up: &dyn Fn() -> bool,
    ) -> Result<Position, String>;

    /// Notes an entry that was read from or written to the log of a shard, for the time when that
    /// has lost it. It does not block.
    fn keep(&self, shard: u16, entry: Entry);

    /// Removes the records of a shard with which the node has nothing to do any more. Returns
    /// whether nothing is left of them.
    fn forget(&self, shard: u16) -> bool;

    /// Lets nothing new in, and returns when all that was admitted is in the log.
    fn drain(&self, shard: u16);

    /// Stops the engine at once, if there is one.
    fn abandon(&self, shard: u16);

    /// Asks the node at this address to hand a shard over; `None` when it did not answer.
    fn ask_release(&self, address: &str, shard: u16, by: &NodeName) -> Option<ReleaseAnswer>;

    /// The wall clock, in milliseconds.
    fn wall_ms(&self) -> u64;

    /// Whether the disk takes nothing, so that other nodes shall own the shards. It does not block.
    fn is_failing(&self) -> bool;

    /// Whether it does so only because too little of the disk is free. It does not block.
    fn lacks_space(&self) -> bool;
}

/// What a node is.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// Its name.
    pub node: NodeName,
    /// Who the process is.
    pub identity: Identity,
    /// The cluster that its directory belongs to, if it has belonged to one.
    pub belongs_to: Option<String>,
    /// Where other nodes reach it.
    pub advertise: String,
    /// What fails together with it.
    pub zone: String,
    /// The version of its program.
    pub version: String,
    /// How long its key lives without a renewal, in seconds.
    pub lease_seconds: u64,
    /// How many nodes stand by for each shard.
    pub standbys: usize,
}

/// What a node has seen of the cluster.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The nodes whose keys are there.
    pub nodes: BTreeMap<NodeName, NodeRecord>,
    /// Which node shall own which shard.
    pub assignment: Assignment,
    /// The nodes that shall own nothing.
    pub draining: BTreeSet<NodeName>,
}

impl Seen {
    /// Whether a node shall own nothing.
    #[must_use]
    pub fn drains(&self, node: &NodeName) -> bool {
        self.draining.contains(node) || self.nodes.get(node).is_some_and(|it| it.is_draining)
    }

    /// The nodes with another current master key than this one: neither can read what the other
    /// seals. Earlier versions do not name theirs.
    pub fn other_keys<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a NodeName> {
        let differs = move |it: &NodeRecord| !it.key.is_empty() && it.key != key;
        self.nodes.iter().filter(move |(_, it)| differs(it)).map(|(name, _)| name)
    }

    /// Whether another node has a later master key than this one: then this one is given nothing.
    #[must_use]
    pub fn has_earlier_key(&self, node: &NodeName) -> bool {
        let own = self.nodes.get(node).and_then(NodeRecord::key_version);
        let newest = self.nodes.values().filter_map(NodeRecord::key_version).max();
        own.is_some() && own < newest
    }

    /// How many shards a node still has to give away before it owns nothing.
    #[must_use]
    pub fn left(&self, node: &NodeName) -> usize {
        let reports = self.nodes.get(node).map_or(&[][..], |record| &record.shards);
        let acts = |state| matches!(state, Standing::Owned | Standing::Claiming);
        let acting = reports.iter().filter(|it| acts(it.state)).map(|it| usize::from(it.shard));
        let placed = self.assignment.iter().enumerate();
        let placed = placed.filter(|(_, it)| it.owner.as_ref() == Some(node)).map(|(at, _)| at);
        acting.chain(placed).collect::<BTreeSet<_>>().len()
    }

    /// The node that says of itself that it owns a shard: of several, the one with the highest
    /// epoch.
    #[must_use]
    pub fn owner(&self, shard: u16) -> Option<(&NodeName, &NodeRecord, &ShardReport)> {
        let is_owned = |it: &&ShardReport| it.shard == shard && it.state == Standing::Owned;
        let owners = self.nodes.iter().filter_map(|(name, record)| {
            record.shards.iter().find(is_owned).map(|report| (name, record, report))
        });
        owners.max_by_key(|(_, _, report)| report.epoch)
    }
}

/// What has happened to the shards of a node since it started.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) claims: AtomicU64,
    pub(crate) failovers: AtomicU64,
    pub(crate) fenced: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) appends: Arc<Appends>,
}

/// The same, as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Shards that the node began to own.
    pub claims: u64,
    /// Those of them that another node owned before, and had not handed over.
    pub failovers: u64,
    /// Owners that found the place of their next entry taken: another node had replaced them.
    pub fenced: u64,
    /// Shards that stopped, for their log had lost something or was damaged.
    pub lost: u64,
    /// What became of its appends.
    pub appends: AppendCounts,
}

/// What the thread of a shard hears.
pub(crate) enum Input {
    /// The bucket holds this.
    Seen(Arc<Seen>),
    /// The log of the engine with this number reports this.
    Log(u64, LogReport),
    /// The engine with this number has started, or did not.
    Started(u64, Result<(), String>),
    /// The records of a shard that another node owns have this position, or why they have not.
    Followed(Result<Position, String>),
    /// The records of a shard that the node has nothing to do with were removed, or were not.
    Removed(bool),
    /// The engine has finished all that was admitted.
    Drained,
    /// The engine has stopped.
    Stopped,
    /// Another node asks for the shard.
    Release { by: NodeName, reply: SyncSender<ReleaseAnswer> },
    /// Finish what is there, and end.
    Quit,
}

/// What the threads of a node share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) options: NodeOptions,
    pub(crate) terms: Terms,
    pub(crate) record: ClusterRecord,
    pub(crate) cluster: NodeName,
    /// What is reported to others of the current master key.
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
    /// By shard, what this node says of it.
    pub(crate) reports: Mutex<Vec<Option<ShardReport>>>,
    /// By shard that it stands by for, how old its records are, in milliseconds.
    pub(crate) apply_lags: Mutex<Vec<Option<u64>>>,
    pub(crate) counters: Counters,
    pub(crate) turns: Arc<Turns>,
    pub(crate) lives: OnceLock<Vec<Sender<Input>>>,
    pub(crate) is_stopping: Arc<AtomicBool>,
    pub(crate) is_name_taken: AtomicBool,
    /// When the bucket answered last, by the steady clock.
    pub(crate) answered_ms: AtomicU64,
}

impl Inner {
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    pub(crate) fn deliver(&self, shard: usize, input: Input) {
        if let Some(life) = self.lives.get().and_then(|lives| lives.get(shard)) {
            // One that has ended needs to know nothing.
            drop(life.send(input));
        }
    }

    /// A handle of a shard's log.
    pub(crate) fn open_log(&self, shard: u16) -> Result<ReplicatedLog, LogError> {
        let (id, stream) = (self.logs[usize::from(shard)], &self.streams[usize::from(shard)]);
        let (stream, clock) = (stream.clone(), self.clock.clone());
        let log = ReplicatedLog::open(id, shard, stream, clock, ReplicatedOptions::default())?;
        Ok(log.counted_by(self.counters.appends.clone()))
    }

    /// The checkpoints of a shard.
    pub(crate) fn checkpoints(&self, shard: u16) -> ShardCheckpoints {
        let bytes_max = self.record.stream_bytes_max.unsigned_abs();
        let (bucket, archives) = (self.bucket.clone(), self.archives.clone());
        let checkpoints = ShardCheckpoints::new(shard, bucket, archives, bytes_max);
        checkpoints.of_node(self.is_stopping.clone())
    }

    /// Whether this node's wall clock is that of most nodes.
    pub(crate) fn clock_agrees(&self) -> bool {
        self.clocks.lock().may_claim(self.clock.now_ms(), self.host.wall_ms())
    }

    /// Waits, unless the node is stopped first. Returns whether it goes on.
    pub(crate) fn pause(&self, for_ms: u64) -> bool {
        let until = self.clock.now_ms() + for_ms;
        while !self.is_stopping() && self.clock.now_ms() < until {
            self.clock.wait_ms(LOOK_EVERY_MS);
        }
        !self.is_stopping()
    }
}

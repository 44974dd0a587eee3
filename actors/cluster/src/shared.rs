//! What the threads of a node share, and the port to what runs its engines.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, SyncSender};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use postrider_log::Log;

use crate::checkpoints::{Archives, ShardCheckpoints};
use crate::clock::SteadyClock;
use crate::cluster_record::ClusterRecord;
use crate::coordination::skew::Clocks;
use crate::coordination::{Coordination, NodeRecord, ShardReport, Standing};
use crate::gate::{Gate, ShardTenure};
use crate::log::{Stream, Told};
use crate::name::{Identity, NodeName};
use crate::placement::Assignment;
use crate::shard::ReleaseAnswer;
use crate::tenure::Terms;

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

    /// Lets nothing new in, and returns when all that was admitted is in the log.
    fn drain(&self, shard: u16);

    /// Stops the engine at once, if there is one.
    fn abandon(&self, shard: u16);

    /// Asks the node at this address to hand a shard over; `None` when it did not answer.
    fn ask_release(&self, address: &str, shard: u16, by: &NodeName) -> Option<ReleaseAnswer>;

    /// The wall clock, in milliseconds.
    fn wall_ms(&self) -> u64;
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
    pub(crate) fenced: AtomicU64,
    pub(crate) lost: AtomicU64,
}

/// The same, as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Shards that the node began to own.
    pub claims: u64,
    /// Owners that found the place of their next entry taken: another node had replaced them.
    pub fenced: u64,
    /// Shards that stopped, for their log had lost something or was damaged.
    pub lost: u64,
}

/// What the thread of a shard hears.
pub(crate) enum Input {
    /// The bucket holds this.
    Seen(Arc<Seen>),
    /// The engine with this number tells of its log.
    Told(u64, Told),
    /// The engine with this number has started, or did not.
    Started(u64, Result<(), String>),
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
    pub(crate) counters: Counters,
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

    pub(crate) fn tell(&self, shard: usize, input: Input) {
        if let Some(life) = self.lives.get().and_then(|lives| lives.get(shard)) {
            // One that has ended needs to know nothing.
            drop(life.send(input));
        }
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

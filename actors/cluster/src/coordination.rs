//! The port to the bucket in which nodes have their keys, and what stands in it.
//!
//! It owns the names of the keys and the form of their values.
//! It promises compare-and-swap on each key, and that a key is gone when its time is over. Nothing
//! that is written to a log rests on it: it says who tries, and until when an owner may read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::bucket::Bucket;
use crate::clock::SteadyClock;
use crate::coordinator::BucketView;
use crate::name::{Identity, NodeName};
use crate::placement::{Assignment, Candidate, Placed};

pub mod skew;
#[cfg(test)]
pub(crate) mod tests;

/// The key of the coordinator, which has a time to live.
pub const COORDINATOR: &str = "coordinator";
/// The key of the assignment.
pub const ASSIGNMENT: &str = "assignment";
/// The key of the nodes that drain, over restarts too.
pub const DRAINING: &str = "draining";
/// What the keys of nodes begin with.
pub const NODES: &str = "node.";

/// The key of a node.
#[must_use]
pub fn node_key(node: &NodeName) -> String {
    format!("{NODES}{node}")
}

/// The bucket of a cluster. Every method blocks, for about a second at most.
pub trait Coordination: Debug + Send + Sync + 'static {
    /// Writes a key whose revision is `expected`, 0 for one that is not there, and returns its new
    /// revision; `None` when it has another one. The time to live has whole seconds, 1 at least.
    ///
    /// # Errors
    /// [`CoordinationError`] when it is not known whether that was done.
    fn write(
        &self,
        key: &str,
        value: Bytes,
        expected: u64,
        ttl_seconds: Option<u64>,
    ) -> Result<Option<u64>, CoordinationError>;

    /// The value of a key and its revision, from the server that leads.
    ///
    /// # Errors
    /// [`CoordinationError`] when the leader did not answer.
    fn read(&self, key: &str) -> Result<Option<KeyValue>, CoordinationError>;

    /// The keys that begin with this, with their values.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    fn keys(&self, prefix: &str) -> Result<BTreeMap<String, KeyValue>, CoordinationError>;
}

/// What a key holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// The number of the write that made it.
    pub revision: u64,
    /// The value.
    pub value: Bytes,
}

/// The bucket could not be asked, or holds what this version cannot read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CoordinationError {
    /// Nobody answered.
    #[error("the bucket of the cluster did not answer: {0}")]
    Silent(String),
    /// A value is not what this version writes.
    #[error("the key {key} of the bucket cannot be read: {what}")]
    Unreadable {
        /// The key.
        key: String,
        /// What is wrong.
        what: String,
    },
}

/// What a node says of itself in its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The identity of its data directory.
    pub directory: [u8; 16],
    /// The process.
    pub incarnation: [u8; 16],
    /// The number of the renewal that wrote this.
    pub renewal: u64,
    /// Where other nodes reach it.
    pub advertise: String,
    /// What fails together with it.
    pub zone: String,
    /// It has stopped, and shall own nothing.
    pub is_draining: bool,
    /// The version of its program.
    pub version: String,
    /// Its wall clock, in milliseconds, by which others see how far theirs are off.
    pub wall_ms: u64,
    /// What it has of each shard.
    #[serde(default)]
    pub shards: Vec<ShardReport>,
}

impl NodeRecord {
    /// Who wrote it.
    #[must_use]
    pub const fn identity(&self) -> Identity {
        Identity { directory: self.directory, incarnation: self.incarnation }
    }

    /// What a node that owns these shards says of itself.
    #[cfg(test)]
    pub(crate) fn owning(owned: &[u16]) -> Self {
        let report = |shard: &u16| ShardReport {
            checkpoint: None,
            shard: *shard,
            state: Standing::Owned,
            epoch: 1,
            position: 1,
            reason: None,
        };
        Self {
            directory: [1; 16],
            incarnation: [1; 16],
            renewal: 1,
            advertise: String::new(),
            zone: String::new(),
            is_draining: false,
            version: String::new(),
            wall_ms: 0,
            shards: owned.iter().map(report).collect(),
        }
    }
}

/// What a node says of one shard of which it has a replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardReport {
    /// The shard.
    pub shard: u16,
    /// Where its life on this node is.
    pub state: Standing,
    /// The epoch of what the node has applied.
    pub epoch: u64,
    /// The position of what the node has applied.
    pub position: u64,
    /// The position of the newest checkpoint, as far as the node knows.
    #[serde(default)]
    pub checkpoint: Option<u64>,
    /// Why it has stopped, if it has.
    pub reason: Option<String>,
}

/// Where a shard's life on a node is, as others are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// Its engine answers.
    Owned,
    /// The node is about to own it.
    Claiming,
    /// The node follows its log.
    Following,
    /// Its log lost something, and nothing goes on.
    Stopped,
}

/// The nodes of one shard, as they stand in the bucket.
#[derive(Serialize, Deserialize)]
struct PlacedRecord {
    owner: Option<String>,
    standbys: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_pinned: bool,
}

/// Writes a value as JSON.
///
/// # Errors
/// [`CoordinationError::Unreadable`] for a value that JSON cannot hold.
pub fn encode<T: Serialize>(key: &str, value: &T) -> Result<Bytes, CoordinationError> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|error| unreadable(key, &error))
}

/// Reads a value that was written as JSON. Fields that are not known are left out.
///
/// # Errors
/// [`CoordinationError::Unreadable`] for anything else.
pub fn decode<T: for<'a> Deserialize<'a>>(key: &str, value: &[u8]) -> Result<T, CoordinationError> {
    serde_json::from_slice(value).map_err(|error| unreadable(key, &error))
}

fn unreadable(key: &str, what: &dyn std::fmt::Display) -> CoordinationError {
    CoordinationError::Unreadable { key: key.to_owned(), what: what.to_string() }
}

/// Writes the assignment, if its revision is this one.
///
/// # Errors
/// Those of [`Coordination::write`].
pub fn write_assignment(
    bucket: &dyn Coordination,
    assignment: &[Placed],
    expected: u64,
) -> Result<Option<u64>, CoordinationError> {
    let record = |placed: &Placed| PlacedRecord {
        owner: placed.owner.as_ref().map(ToString::to_string),
        standbys: placed.standbys.iter().map(ToString::to_string).collect(),
        is_pinned: placed.is_pinned,
    };
    let records: Vec<_> = assignment.iter().map(record).collect();
    bucket.write(ASSIGNMENT, encode(ASSIGNMENT, &records)?, expected, None)
}

/// Reads what a node needs to know of the cluster.
///
/// # Errors
/// Those of [`Coordination::read`], and [`CoordinationError::Unreadable`].
pub fn read_view(bucket: &dyn Coordination) -> Result<BucketView, CoordinationError> {
    view_with(bucket, &read_nodes(bucket)?, &read_draining(bucket)?.0)
}

/// Reads which nodes drain, and the revision of their key.
///
/// # Errors
/// Those of [`read_view`].
pub fn read_draining(
    bucket: &dyn Coordination,
) -> Result<(BTreeSet<NodeName>, u64), CoordinationError> {
    let Some(kept) = bucket.read(DRAINING)? else { return Ok((BTreeSet::new(), 0)) };
    let names: Vec<String> = decode(DRAINING, &kept.value)?;
    let names = names.iter().map(|text| name(DRAINING, text)).collect::<Result<_, _>>()?;
    Ok((names, kept.revision))
}

/// Writes which nodes drain, if the revision of their key is this one.
///
/// # Errors
/// Those of [`Coordination::write`].
pub fn write_draining(
    bucket: &dyn Coordination,
    nodes: &BTreeSet<NodeName>,
    expected: u64,
) -> Result<Option<u64>, CoordinationError> {
    let names: Vec<_> = nodes.iter().map(NodeName::as_str).collect();
    bucket.write(DRAINING, encode(DRAINING, &names)?, expected, None)
}

/// Reads what the nodes say of themselves whose keys are there.
///
/// # Errors
/// Those of [`read_view`].
pub fn read_nodes(
    bucket: &dyn Coordination,
) -> Result<BTreeMap<NodeName, NodeRecord>, CoordinationError> {
    let mut nodes = BTreeMap::new();
    for (key, kept) in bucket.keys(NODES)? {
        let node = name(&key, key.strip_prefix(NODES).unwrap_or_default())?;
        nodes.insert(node, decode(&key, &kept.value)?);
    }
    Ok(nodes)
}

/// Reads the rest of what [`read_view`] reads.
///
/// # Errors
/// Those of [`read_view`].
pub fn view_with(
    bucket: &dyn Coordination,
    nodes: &BTreeMap<NodeName, NodeRecord>,
    draining: &BTreeSet<NodeName>,
) -> Result<BucketView, CoordinationError> {
    let candidate = |(node, record): (&NodeName, &NodeRecord)| Candidate {
        node: node.clone(),
        zone: record.zone.clone(),
        is_draining: record.is_draining || draining.contains(node),
    };
    let nodes = nodes.iter().map(candidate).collect();
    let coordinator = match bucket.read(COORDINATOR)? {
        Some(kept) => {
            let text: String = decode(COORDINATOR, &kept.value)?;
            Some((name(COORDINATOR, &text)?, kept.revision))
        }
        None => None,
    };
    let assignment = match bucket.read(ASSIGNMENT)? {
        Some(kept) => Some((read_assignment(&kept.value)?, kept.revision)),
        None => None,
    };
    Ok(BucketView { nodes, coordinator, assignment })
}

fn name(key: &str, text: &str) -> Result<NodeName, CoordinationError> {
    NodeName::new(text).map_err(|error| unreadable(key, &error))
}

fn read_assignment(value: &[u8]) -> Result<Assignment, CoordinationError> {
    let records: Vec<PlacedRecord> = decode(ASSIGNMENT, value)?;
    let placed = |record: PlacedRecord| {
        let owner = record.owner.map(|text| name(ASSIGNMENT, &text)).transpose()?;
        let standbys = record.standbys.iter().map(|text| name(ASSIGNMENT, text));
        let standbys = standbys.collect::<Result<_, _>>()?;
        Ok(Placed { owner, standbys, is_pinned: record.is_pinned })
    };
    records.into_iter().map(placed).collect()
}

/// A bucket in memory, which several nodes of one process may share.
#[derive(Debug, Clone)]
pub struct FakeCoordination {
    bucket: Arc<Mutex<Bucket<Bytes>>>,
    clock: Arc<dyn SteadyClock>,
}

impl FakeCoordination {
    /// An empty bucket whose keys live by this clock.
    #[must_use]
    pub fn new(clock: Arc<dyn SteadyClock>) -> Self {
        Self { bucket: Arc::default(), clock }
    }
}

impl Coordination for FakeCoordination {
    fn write(
        &self,
        key: &str,
        value: Bytes,
        expected: u64,
        ttl_seconds: Option<u64>,
    ) -> Result<Option<u64>, CoordinationError> {
        let (now, ttl_ms) = (self.clock.now_ms(), ttl_seconds.map(|ttl| ttl * 1_000));
        Ok(self.bucket.lock().write(now, key, value, expected, ttl_ms))
    }

    fn read(&self, key: &str) -> Result<Option<KeyValue>, CoordinationError> {
        let bucket = self.bucket.lock();
        let kept = bucket.read(self.clock.now_ms(), key);
        Ok(kept.map(|kept| KeyValue { revision: kept.revision, value: kept.value.clone() }))
    }

    fn keys(&self, prefix: &str) -> Result<BTreeMap<String, KeyValue>, CoordinationError> {
        let bucket = self.bucket.lock();
        let keys = bucket.keys(self.clock.now_ms(), prefix).map(|(key, kept)| {
            let kept = KeyValue { revision: kept.revision, value: kept.value.clone() };
            (key.to_owned(), kept)
        });
        Ok(keys.collect())
    }
}

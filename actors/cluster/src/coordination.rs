//! The port to the bucket in which nodes have their keys, and the values of these keys.
//!
//! It owns the names of the keys and the form of their values. It promises compare-and-swap on each
//! key, and that a key expires after its time to live. Nothing that is written to a log depends on
//! the bucket for safety. The bucket only decides which node tries, and until when an owner may
//! read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use self::formats::waited_for;
use crate::coordinator::BucketView;
use crate::name::{Identity, NodeName};
use crate::placement::{Assignment, Candidate, Placed};

mod fake;
pub mod formats;
pub mod skew;
#[cfg(test)]
pub(crate) mod tests;

pub use fake::FakeCoordination;

/// The key of the coordinator, which has a time to live.
pub const COORDINATOR: &str = "coordinator";
/// The key of the assignment.
pub const ASSIGNMENT: &str = "assignment";
/// The key of the nodes that drain. It outlives restarts.
pub const DRAINING: &str = "draining";
/// The prefix of the keys of nodes.
pub const NODES: &str = "node.";

/// Returns the key of a node.
#[must_use]
pub fn node_key(node: &NodeName) -> String {
    format!("{NODES}{node}")
}

/// The bucket of a cluster. Every method blocks for at most about a second.
pub trait Coordination: Debug + Send + Sync + 'static {
    /// Writes a key whose revision is `expected`, and returns its new revision.
    ///
    /// `expected` is 0 for a key that does not exist. Returns `None` if the key has another
    /// revision. The time to live is in whole seconds, at least 1.
    ///
    /// # Errors
    /// [`CoordinationError`] when it is not known whether the key was written.
    fn write(
        &self,
        key: &str,
        value: Bytes,
        expected: u64,
        ttl_seconds: Option<u64>,
    ) -> Result<Option<u64>, CoordinationError>;

    /// Returns the value of a key and its revision, from the server that leads.
    ///
    /// # Errors
    /// [`CoordinationError`] when the leader did not answer.
    fn read(&self, key: &str) -> Result<Option<KeyValue>, CoordinationError>;

    /// Returns the keys that begin with the prefix, with their values.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    fn keys(&self, prefix: &str) -> Result<BTreeMap<String, KeyValue>, CoordinationError>;

    /// Returns the time at which the bucket was made, in nanoseconds.
    ///
    /// A bucket that replaces a lost one has another time, and its revisions start again.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    fn made_at(&self) -> Result<u64, CoordinationError>;

    /// Returns the first keys with this prefix that were written after a revision, in that order.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    fn keys_after(
        &self,
        prefix: &str,
        revision: u64,
        keys_max: usize,
    ) -> Result<Vec<(String, KeyValue)>, CoordinationError> {
        let keys = self.keys(prefix)?.into_iter();
        let mut keys: Vec<_> = keys.filter(|(_, kept)| kept.revision > revision).collect();
        keys.sort_by_key(|(_, kept)| kept.revision);
        keys.truncate(keys_max);
        Ok(keys)
    }
}

/// The value of a key with its revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// The number of the write that made the value.
    pub revision: u64,
    /// The value.
    pub value: Bytes,
}

/// The bucket did not answer, or holds a value that this version cannot read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CoordinationError {
    /// The bucket did not answer.
    #[error("the bucket of the cluster did not answer: {0}")]
    Silent(String),
    /// A value is not in the form that this version writes.
    #[error("the key {key} of the bucket cannot be read: {what}")]
    Unreadable {
        /// The key.
        key: String,
        /// The error of the parser.
        what: String,
    },
}

/// The report of a node about itself in its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The identity of its data directory.
    pub directory: [u8; 16],
    /// The incarnation of its process.
    pub incarnation: [u8; 16],
    /// The number of the renewal that wrote this.
    pub renewal: u64,
    /// The address at which other nodes reach it.
    pub advertise: String,
    /// The zone: the nodes that fail together with this one.
    pub zone: String,
    /// Set if the node has stopped, and shall own nothing.
    pub is_draining: bool,
    /// Set if its disk accepts no writes, so that it shall own nothing meanwhile.
    #[serde(default)]
    pub is_failing: bool,
    /// Set if the disk fails only because too little space is free: existing data can be read.
    #[serde(default)]
    pub lacks_space: bool,
    /// The version and the fingerprint of its current master key; empty for earlier versions.
    #[serde(default)]
    pub key: String,
    /// The version of its program.
    pub version: String,
    /// Its wall clock, in milliseconds, with which others compare theirs.
    pub wall_ms: u64,
    /// The newest data format that it reads, which is also the one that it writes.
    #[serde(default = "formats::unreported")]
    pub reads: u16,
    /// The state of each shard on the node.
    #[serde(default)]
    pub shards: Vec<ShardReport>,
}

impl NodeRecord {
    /// Returns the identity of the writer.
    #[must_use]
    pub const fn identity(&self) -> Identity {
        Identity { directory: self.directory, incarnation: self.incarnation }
    }

    /// Returns the version of its current master key; `None` for an earlier version of the program.
    #[must_use]
    pub fn key_version(&self) -> Option<u64> {
        self.key.split_once('-').and_then(|(version, _)| version.parse().ok())
    }

    /// Returns whether the node can own shards, by its own report.
    #[must_use]
    pub const fn can_own(&self) -> bool {
        !self.is_draining && !self.is_failing
    }
}

/// The report of a node about one shard of which it has a replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardReport {
    /// The shard.
    pub shard: u16,
    /// The state of the shard on this node.
    pub state: Standing,
    /// The epoch of the last entry that the node has applied.
    pub epoch: u64,
    /// The position of the last entry that the node has applied.
    pub position: u64,
    /// The position of the newest checkpoint that the node knows.
    #[serde(default)]
    pub checkpoint: Option<u64>,
    /// The data format that a reader of the shard must know.
    #[serde(default)]
    pub format: u16,
    /// The reason why the shard has stopped, if it has.
    pub reason: Option<String>,
}

/// The state of a shard on a node, in the form that is reported to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// The engine of the shard answers.
    Owned,
    /// The node is about to own it.
    Claiming,
    /// The node follows the log of the shard.
    Following,
    /// The log of the shard lost something, and the shard has stopped.
    Stopped,
}

/// The nodes of one shard, in the form that the bucket holds.
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

/// Parses a value that was written as JSON. Unknown fields are ignored.
///
/// # Errors
/// [`CoordinationError::Unreadable`] for anything else.
pub fn decode<T: for<'a> Deserialize<'a>>(key: &str, value: &[u8]) -> Result<T, CoordinationError> {
    serde_json::from_slice(value).map_err(|error| unreadable(key, &error))
}

fn unreadable(key: &str, what: &dyn std::fmt::Display) -> CoordinationError {
    CoordinationError::Unreadable { key: key.to_owned(), what: what.to_string() }
}

/// Writes the assignment, if its revision is `expected`.
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

/// Reads the part of the bucket that a node needs.
///
/// # Errors
/// Those of [`Coordination::read`], and [`CoordinationError::Unreadable`].
pub fn read_view(bucket: &dyn Coordination) -> Result<BucketView, CoordinationError> {
    view_with(bucket, &read_nodes(bucket)?, &read_draining(bucket)?.0)
}

/// Reads the set of draining nodes, and the revision of its key.
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

/// Writes the set of draining nodes, if the revision of its key is `expected`.
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

/// Reads the reports of the nodes whose keys exist.
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

/// Reads the rest of the view that [`read_view`] returns.
///
/// # Errors
/// Those of [`read_view`].
pub fn view_with(
    bucket: &dyn Coordination,
    nodes: &BTreeMap<NodeName, NodeRecord>,
    draining: &BTreeSet<NodeName>,
) -> Result<BucketView, CoordinationError> {
    // A value that is sealed under a later master key can be read with that key alone.
    let newest = nodes.values().filter_map(NodeRecord::key_version).max();
    let candidate = |(node, record): (&NodeName, &NodeRecord)| {
        let is_earlier = record.key_version().is_some_and(|it| Some(it) < newest);
        let waits = waited_for(nodes, draining, record.reads).next().is_some();
        let goes = record.is_draining || is_earlier || waits || draining.contains(node);
        Candidate {
            node: node.clone(),
            zone: record.zone.clone(),
            is_draining: goes || !record.can_own(),
            lacks_space: record.lacks_space && !goes,
        }
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

//! The thread that reads the bucket: the existing nodes and the assignment of the shards.
//!
//! If this node coordinates, it writes the results of the placement rules. It also compares the
//! wall clocks of the nodes, and warns when they differ.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::coordination::skew::Sighting;
use crate::coordination::{
    COORDINATOR, CoordinationError, NodeRecord, Standing, encode, read_draining, read_nodes,
    view_with, write_assignment,
};
use crate::coordinator::{BucketView, CoordinatorWrite, coordinate};
use crate::name::NodeName;
use crate::placement::{Bounds, free_moves, moves_left};
use crate::shared::{Inner, Input, Seen};

#[cfg(test)]
pub(crate) mod tests;

/// The times between looks, in milliseconds, used in turn.
///
/// A node renews its key each second. If every look came equally late after that, its clock would
/// seem slow.
const LOOK_EVERY_MS: [u64; 3] = [500, 400, 300];
/// The maximum number of shards that move between living owners at a time.
const MOVES: usize = 2;

/// Runs until the node stops.
pub(crate) fn run(inner: &Arc<Inner>) {
    let (mut was_silent, mut doubts) = (false, Doubts::default());
    for pause in LOOK_EVERY_MS.into_iter().cycle() {
        let looked = look(inner);
        if let Err(error) = &looked
            && !was_silent
        {
            tracing::warn!(%error, "what the nodes of the cluster do is not known");
        }
        was_silent = looked.is_err();
        let found = Doubts::found(inner);
        found.report(&doubts);
        doubts = found;
        if !inner.pause(pause) {
            return;
        }
    }
}

/// The suspected faults of this node's wall clock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Doubts {
    /// Set if the clock disagrees with most nodes.
    is_alone: bool,
    /// The time by which it is ahead of each node whose clock differs, in milliseconds.
    ahead_ms: BTreeMap<NodeName, i64>,
}

impl Doubts {
    fn found(inner: &Inner) -> Self {
        let (now, wall_ms) = (inner.clock.now_ms(), inner.host.wall_ms());
        let clocks = inner.clocks.lock();
        let ahead_ms = clocks.suspicious(now, wall_ms).map(|(node, by)| (node.clone(), by));
        Self { is_alone: !clocks.may_claim(now, wall_ms), ahead_ms: ahead_ms.collect() }
    }

    /// Returns whether a doubt started or ended. The differences themselves change all the time.
    fn are_news(&self, before: &Self) -> bool {
        let differ = |nodes: &Self, other: &Self| {
            nodes.ahead_ms.keys().any(|node| !other.ahead_ms.contains_key(node))
        };
        self.is_alone != before.is_alone || differ(self, before) || differ(before, self)
    }

    fn report(&self, before: &Self) {
        if !self.are_news(before) {
            return;
        }
        let ahead_ms = &self.ahead_ms;
        if self.is_alone {
            tracing::warn!(?ahead_ms, "no shard is claimed: most nodes have another wall clock");
        } else if ahead_ms.is_empty() {
            tracing::info!("the wall clocks of the nodes agree again");
        } else {
            tracing::warn!(?ahead_ms, "the wall clocks of other nodes differ from this node's");
        }
    }
}

/// Returns whether a shard has arrived at its owner.
fn is_there(nodes: &BTreeMap<NodeName, NodeRecord>, shard: u16, owner: &NodeName) -> bool {
    let reports = nodes.get(owner).map_or(&[][..], |record| &record.shards);
    // A stopped shard waits for a repair, and the other moves do not wait for that.
    let done = |state| matches!(state, Standing::Owned | Standing::Stopped);
    reports.iter().any(|it| it.shard == shard && done(it.state))
}

/// Returns whether an operator may move a shard now: a moving shard may go elsewhere.
pub(crate) fn may_move(
    shard: u16,
    view: &BucketView,
    nodes: &BTreeMap<NodeName, NodeRecord>,
) -> bool {
    let is_there = |shard, owner: &NodeName| is_there(nodes, shard, owner);
    let current = view.assignment.as_ref().map_or(&[][..], |(assignment, _)| assignment);
    let owner = current.get(usize::from(shard)).and_then(|placed| placed.owner.as_ref());
    let is_coming = |owner: &NodeName| nodes.contains_key(owner) && !is_there(shard, owner);
    owner.is_some_and(is_coming) || moves_left(&view.nodes, current, is_there, MOVES) > 0
}

fn bounds(inner: &Inner, view: &BucketView, nodes: &BTreeMap<NodeName, NodeRecord>) -> Bounds {
    let is_there = |shard, owner: &NodeName| is_there(nodes, shard, owner);
    let current = view.assignment.as_ref().map_or(&[][..], |(assignment, _)| assignment);
    Bounds {
        shards: inner.record.shards,
        standbys: inner.options.standbys,
        moves: moves_left(&view.nodes, current, is_there, MOVES),
        free: free_moves(&view.nodes, current, is_there, MOVES),
    }
}

fn compare_clocks(inner: &Inner, nodes: &BTreeMap<NodeName, NodeRecord>) {
    let others = nodes.iter().filter(|(node, _)| **node != inner.options.node);
    let sighting = |(node, record): (&NodeName, &NodeRecord)| Sighting {
        node: node.clone(),
        renewal: record.renewal,
        wall_ms: record.wall_ms,
    };
    let others: Vec<_> = others.map(sighting).collect();
    inner.clocks.lock().read(inner.clock.now_ms(), &others);
}

fn look(inner: &Arc<Inner>) -> Result<(), CoordinationError> {
    let bucket = &*inner.bucket;
    let nodes = read_nodes(bucket)?;
    compare_clocks(inner, &nodes);
    let (draining, _) = read_draining(bucket)?;
    let view = view_with(bucket, &nodes, &draining)?;
    let me = &inner.options.node;
    let shards = inner.record.shards;
    for write in coordinate(me, &view, bounds(inner, &view, &nodes)) {
        match write {
            CoordinatorWrite::Lead { revision } => {
                let value = encode(COORDINATOR, &me.as_str())?;
                bucket.write(COORDINATOR, value, revision, Some(inner.terms.lease_ms / 1_000))?;
            }
            CoordinatorWrite::Assign { assignment, revision } => {
                write_assignment(bucket, &assignment, revision)?;
            }
        }
    }
    let assignment = view.assignment.map(|(assignment, _)| assignment).unwrap_or_default();
    let seen = Arc::new(Seen { nodes, assignment, draining });
    *inner.seen.lock() = seen.clone();
    for shard in 0..usize::from(shards) {
        inner.deliver(shard, Input::Seen(seen.clone()));
    }
    Ok(())
}

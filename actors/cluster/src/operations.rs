//! The operators' requests to a cluster: that a node owns nothing, and that a shard moves.
//!
//! It owns the changes of the bucket for these requests. The coordinator and the lives of the
//! shards carry them out, as with any other assignment. Every method blocks.

use crate::coordination::{
    Coordination, CoordinationError, read_draining, read_nodes, view_with, write_assignment,
    write_draining,
};
use crate::name::NodeName;
use crate::node::Node;
use crate::placement::Placed;
use crate::watch::may_move;

/// The number of attempts of a change while others change the same key.
const TRIES: usize = 20;

/// The reason why an operation was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// There is no such node.
    #[error("no node is called {0}")]
    NoNode(NodeName),
    /// There is no such shard.
    #[error("there is no shard {0}; shards are numbered from 0 to {1}")]
    NoShard(u16, u16),
    /// No other node could own the shards of this one.
    #[error("no other node could own the shards of {0}: start one, or undrain one")]
    Last(NodeName),
    /// A node that drains is given nothing.
    #[error("{0} drains; undrain it first")]
    Draining(NodeName),
    /// A node whose disk takes nothing is given nothing.
    #[error("the disk of {0} is full or fails")]
    Failing(NodeName),
    /// A node that does not run is given nothing.
    #[error("{0} is not running")]
    Away(NodeName),
    /// The maximum number of shards are moving.
    #[error("other shards are on their way; ask again when they have arrived")]
    Busy,
    /// It is not known whether the operation was done.
    #[error(transparent)]
    Bucket(#[from] CoordinationError),
}

/// A move that has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// The node that owned the shard.
    pub from: Option<NodeName>,
}

impl Node {
    /// Sets whether a node shall own nothing, until it is set otherwise.
    ///
    /// # Errors
    /// [`OperationError`].
    pub fn set_draining(&self, node: &NodeName, drains: bool) -> Result<(), OperationError> {
        set_draining(self.bucket(), &self.seen().assignment, node, drains)
    }

    /// Assigns a shard to a node, where it stays. The node owns it some time later.
    ///
    /// # Errors
    /// [`OperationError`].
    pub fn move_shard(&self, shard: u16, to: &NodeName) -> Result<Move, OperationError> {
        let shards = self.cluster().1.shards;
        if shard >= shards {
            return Err(OperationError::NoShard(shard, shards - 1));
        }
        move_shard(self.bucket(), shard, to)
    }
}

fn names(node: &NodeName) -> impl Fn(&Placed) -> bool {
    move |placed| placed.owner.iter().chain(&placed.standbys).any(|it| it == node)
}

fn set_draining(
    bucket: &dyn Coordination,
    assignment: &[Placed],
    node: &NodeName,
    drains: bool,
) -> Result<(), OperationError> {
    for _ in 0..TRIES {
        let (mut draining, revision) = read_draining(bucket)?;
        let nodes = read_nodes(bucket)?;
        let is_known = nodes.contains_key(node) || draining.contains(node);
        if !is_known && !assignment.iter().any(names(node)) {
            return Err(OperationError::NoNode(node.clone()));
        }
        let could_own = |(name, record): (&NodeName, &crate::coordination::NodeRecord)| {
            name != node && record.can_own() && !draining.contains(name)
        };
        if drains && !nodes.iter().any(could_own) {
            return Err(OperationError::Last(node.clone()));
        }
        let is_news = if drains { draining.insert(node.clone()) } else { draining.remove(node) };
        if !is_news || write_draining(bucket, &draining, revision)?.is_some() {
            return Ok(());
        }
    }
    Err(OperationError::Busy)
}

fn move_shard(
    bucket: &dyn Coordination,
    shard: u16,
    to: &NodeName,
) -> Result<Move, OperationError> {
    for _ in 0..TRIES {
        let nodes = read_nodes(bucket)?;
        let (draining, _) = read_draining(bucket)?;
        let Some(record) = nodes.get(to) else {
            let is_known = draining.contains(to);
            let away = OperationError::Away(to.clone());
            return Err(if is_known { away } else { OperationError::NoNode(to.clone()) });
        };
        if record.is_draining || draining.contains(to) {
            return Err(OperationError::Draining(to.clone()));
        }
        if record.is_failing {
            return Err(OperationError::Failing(to.clone()));
        }
        let view = view_with(bucket, &nodes, &draining)?;
        let may_move = may_move(shard, &view, &nodes);
        let Some((mut assignment, revision)) = view.assignment else {
            return Err(OperationError::Busy);
        };
        let Some(placed) = assignment.get_mut(usize::from(shard)) else {
            return Err(OperationError::Busy);
        };
        let from = placed.owner.replace(to.clone());
        let stays = from.as_ref() == Some(to);
        if stays && placed.is_pinned {
            return Ok(Move { from });
        }
        if !stays && !may_move {
            return Err(OperationError::Busy);
        }
        placed.is_pinned = true;
        placed.standbys.retain(|it| it != to);
        if write_assignment(bucket, &assignment, revision)?.is_some() {
            return Ok(Move { from });
        }
    }
    Err(OperationError::Busy)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::*;
    use crate::clock::StillClock;
    use crate::coordination::{FakeCoordination, NodeRecord, encode, node_key, read_view};
    use crate::placement::{Bounds, place};

    fn name(node: &str) -> NodeName {
        NodeName::new(node).unwrap()
    }

    fn report(bucket: &dyn Coordination, node: &str, owned: &[u16]) {
        let record = NodeRecord::owning(owned);
        let key = node_key(&name(node));
        let before = bucket.read(&key).unwrap().map_or(0, |kept| kept.revision);
        let written = bucket.write(&key, encode(&key, &record).unwrap(), before, None);
        assert!(written.unwrap().is_some());
    }

    /// Returns a bucket with two nodes, each with the shards that it shall own.
    fn two() -> FakeCoordination {
        let bucket = FakeCoordination::new(Arc::new(StillClock::default()));
        report(&bucket, "a", &[]);
        report(&bucket, "b", &[]);
        let nodes = read_view(&bucket).unwrap().nodes;
        let bounds = Bounds { shards: 4, standbys: 1, moves: 2, free: BTreeSet::new() };
        let assignment = place(&nodes, &[], bounds);
        write_assignment(&bucket, &assignment, 0).unwrap();
        for node in ["a", "b"] {
            let owned = |shard: &u16| assignment[usize::from(*shard)].owner == Some(name(node));
            report(&bucket, node, &(0..4).filter(owned).collect::<Vec<_>>());
        }
        bucket
    }

    #[test]
    fn a_node_drains_unless_it_is_the_last_one() {
        let bucket = two();
        let drains = |node: &str, drains| set_draining(&bucket, &[], &name(node), drains);
        let draining = || read_draining(&bucket).unwrap().0.into_iter().collect::<Vec<_>>();
        assert_eq!(drains("c", true), Err(OperationError::NoNode(name("c"))));
        assert_eq!(drains("c", false), Err(OperationError::NoNode(name("c"))));
        for _ in 0..2 {
            assert_eq!(drains("a", true), Ok(()));
            assert_eq!(draining(), [name("a")]);
        }
        let view = read_view(&bucket).unwrap();
        assert_eq!(view.nodes.iter().map(|it| it.is_draining).collect::<Vec<_>>(), [true, false]);
        assert_eq!(drains("b", true), Err(OperationError::Last(name("b"))));
        assert_eq!(drains("a", false), Ok(()));
        assert_eq!((drains("b", true), draining()), (Ok(()), vec![name("b")]));
    }

    #[test]
    fn two_shards_move_at_a_time_and_only_to_a_node_that_takes_them() {
        let bucket = two();
        let assignment = || read_view(&bucket).unwrap().assignment.unwrap().0;
        let of_b = assignment();
        let of_b: Vec<u16> =
            (0..4).filter(|it| of_b[usize::from(*it)].owner == Some(name("b"))).collect();
        let to = |shard, node: &str| move_shard(&bucket, shard, &name(node));
        assert_eq!(to(of_b[0], "c"), Err(OperationError::NoNode(name("c"))));
        let moved = Ok(Move { from: Some(name("b")) });
        assert_eq!((to(of_b[0], "a"), to(of_b[1], "a")), (moved.clone(), moved));
        let placed = &assignment()[usize::from(of_b[0])];
        assert_eq!((&placed.owner, placed.is_pinned), (&Some(name("a")), true));
        let others: Vec<u16> = (0..4).filter(|it| !of_b.contains(it)).collect();
        assert_eq!(to(others[0], "b"), Err(OperationError::Busy));
        // A shard that does not arrive may go elsewhere, because it is already moving.
        assert_eq!(to(of_b[0], "b"), Ok(Move { from: Some(name("a")) }));
        report(&bucket, "a", &[]);
        report(&bucket, "b", &[]);
        assert_eq!(to(of_b[0], "a"), Ok(Move { from: Some(name("b")) }));
        report(&bucket, "a", &[0, 1, 2, 3]);
        assert_eq!(to(others[0], "b"), Ok(Move { from: Some(name("a")) }));
        set_draining(&bucket, &[], &name("b"), true).unwrap();
        assert_eq!(to(others[1], "b"), Err(OperationError::Draining(name("b"))));
    }
}

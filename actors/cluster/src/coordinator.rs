//! Pure: the writes of the coordinating node to the bucket.
//!
//! It owns the choice of the coordinator and the decision when to write a new assignment. Safety
//! does not depend on it. Without a coordinator no shard is placed again, and two coordinators
//! overwrite each other by compare-and-swap.

use crate::name::NodeName;
use crate::placement::{Assignment, Bounds, Candidate, place};

/// The values that a node has read from the bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BucketView {
    /// The nodes whose keys exist.
    pub nodes: Vec<Candidate>,
    /// The coordinator, with the revision of its key.
    pub coordinator: Option<(NodeName, u64)>,
    /// The assignment, with the revision of its key.
    pub assignment: Option<(Assignment, u64)>,
}

/// A write of the coordinator, if the key has this revision; 0 if the key must not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoordinatorWrite {
    /// The key of the coordinator, with a time to live.
    Lead {
        /// The revision.
        revision: u64,
    },
    /// The assignment.
    Assign {
        /// The new assignment.
        assignment: Assignment,
        /// The revision.
        revision: u64,
    },
}

/// Returns the writes of this node, which has just read the bucket.
#[must_use]
pub fn coordinate(me: &NodeName, view: &BucketView, bounds: Bounds) -> Vec<CoordinatorWrite> {
    if !view.nodes.iter().any(|it| it.node == *me) {
        return Vec::new();
    }
    let Some((leader, revision)) = &view.coordinator else {
        return vec![CoordinatorWrite::Lead { revision: 0 }];
    };
    if leader != me {
        return Vec::new();
    }
    let mut writes = vec![CoordinatorWrite::Lead { revision: *revision }];
    let (current, revision) = match &view.assignment {
        Some((assignment, revision)) => (assignment.as_slice(), *revision),
        None => (&[][..], 0),
    };
    let assignment = place(&view.nodes, current, bounds);
    if assignment != current {
        writes.push(CoordinatorWrite::Assign { assignment, revision });
    }
    writes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn name(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn view(coordinator: Option<(NodeName, u64)>) -> BucketView {
        let nodes = ["a", "b"].map(|it| Candidate {
            node: name(it),
            zone: String::new(),
            is_draining: false,
            lacks_space: false,
        });
        BucketView { nodes: nodes.into(), coordinator, assignment: None }
    }

    const BOUNDS: Bounds = Bounds { shards: 4, standbys: 1, moves: 2, free: BTreeSet::new() };

    #[test]
    fn only_the_coordinator_assigns_and_only_what_changes() {
        let lead = vec![CoordinatorWrite::Lead { revision: 0 }];
        assert_eq!(coordinate(&name("a"), &view(None), BOUNDS), lead);
        assert_eq!(coordinate(&name("c"), &view(None), BOUNDS), []);
        let mut led = view(Some((name("a"), 7)));
        assert_eq!(coordinate(&name("b"), &led, BOUNDS), []);
        let writes = coordinate(&name("a"), &led, BOUNDS);
        assert_eq!(writes[0], CoordinatorWrite::Lead { revision: 7 });
        let CoordinatorWrite::Assign { assignment, revision: 0 } = &writes[1] else {
            panic!("{writes:?}");
        };
        assert!(assignment.iter().all(|placed| placed.owner.is_some()));
        led.assignment = Some((assignment.clone(), 9));
        assert_eq!(coordinate(&name("a"), &led, BOUNDS).len(), 1);
        led.nodes.pop();
        let writes = coordinate(&name("a"), &led, BOUNDS);
        assert!(matches!(writes[1], CoordinatorWrite::Assign { revision: 9, .. }), "{writes:?}");
    }
}

//! The thread that looks at the bucket: who is there, and who shall own what.
//!
//! If this node coordinates, it writes what the rules of placement say.

use std::sync::Arc;

use crate::coordination::{
    COORDINATOR, CoordinationError, encode, read_nodes, view_with, write_assignment,
};
use crate::coordinator::{CoordinatorWrite, coordinate};
use crate::placement::Bounds;
use crate::shared::{Inner, Input, Seen};

/// Between two looks, in milliseconds.
const LOOK_EVERY_MS: u64 = 500;
/// How many shards are taken from living owners at a time.
const MOVES: usize = 2;

/// Runs until the node stops.
pub(crate) fn run(inner: &Arc<Inner>) {
    let mut was_silent = false;
    loop {
        let looked = look(inner);
        if let Err(error) = &looked
            && !was_silent
        {
            tracing::warn!(%error, "what the nodes of the cluster do is not known");
        }
        was_silent = looked.is_err();
        if !inner.pause(LOOK_EVERY_MS) {
            return;
        }
    }
}

fn look(inner: &Arc<Inner>) -> Result<(), CoordinationError> {
    let bucket = &*inner.bucket;
    let nodes = read_nodes(bucket)?;
    let view = view_with(bucket, &nodes)?;
    let me = &inner.options.node;
    let shards = inner.record.shards;
    let bounds = Bounds { shards, standbys: inner.options.standbys, moves: MOVES };
    for write in coordinate(me, &view, bounds) {
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
    let seen = Arc::new(Seen { nodes, assignment });
    *inner.seen.lock() = seen.clone();
    for shard in 0..usize::from(shards) {
        inner.tell(shard, Input::Seen(seen.clone()));
    }
    Ok(())
}

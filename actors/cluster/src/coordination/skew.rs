//! Pure: the differences between a node's wall clock and the others', and whether it may claim.
//!
//! It owns the times that the others' keys reported. Engine time continues from the clock of the
//! owner of a shard. So two owners whose clocks differ would let codes and limits end early. It
//! promises that a node whose clock differs from those of half the nodes claims nothing. A clock
//! that is set is compared again at once. A node that knows of no other may claim.

use std::collections::{BTreeMap, VecDeque};

use crate::name::NodeName;

#[cfg(test)]
mod tests;

/// The difference above which a warning is due, in milliseconds.
pub const WARN_MS: u64 = 500;
/// The largest difference at which two clocks count as equal, in milliseconds.
pub const AGREE_MS: u64 = 2_000;
/// The number of renewals of which the quickest counts: a late one makes a clock look slow.
const SAMPLES: usize = 3;

/// The report of another node's key about its clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// The node.
    pub node: NodeName,
    /// The number of the renewal that wrote the key.
    pub renewal: u64,
    /// Its wall clock when it wrote the key, in milliseconds.
    pub wall_ms: u64,
}

/// The clocks of the other nodes whose keys exist.
#[derive(Debug, Clone, Default)]
pub struct Clocks {
    seen: BTreeMap<NodeName, Renewals>,
}

#[derive(Debug, Clone, Default)]
struct Renewals {
    renewal: u64,
    /// The times by which this node's steady clock was ahead of the other's wall clock.
    leads: VecDeque<i64>,
}

impl Clocks {
    /// Processes the keys of all other nodes, which were just read. `now` is of the steady clock.
    pub fn read(&mut self, now: u64, others: &[Sighting]) {
        self.seen.retain(|node, _| others.iter().any(|it| it.node == *node));
        for it in others {
            let seen = self.seen.entry(it.node.clone()).or_default();
            // The same renewal again would only look later.
            if seen.renewal == it.renewal && !seen.leads.is_empty() {
                continue;
            }
            seen.renewal = it.renewal;
            seen.leads.push_back(lead(now, it.wall_ms));
            if seen.leads.len() > SAMPLES {
                seen.leads.pop_front();
            }
        }
    }

    /// Returns how far this node's wall clock is ahead of each other's, in milliseconds.
    pub fn differences(&self, now: u64, wall_ms: u64) -> impl Iterator<Item = (&NodeName, i64)> {
        let own = lead(now, wall_ms);
        self.seen.iter().filter_map(move |(node, seen)| {
            let lead = seen.leads.iter().min()?;
            Some((node, lead.saturating_sub(own)))
        })
    }

    /// Returns whether more than half of the nodes, this one among them, have this node's time.
    #[must_use]
    pub fn may_claim(&self, now: u64, wall_ms: u64) -> bool {
        let same = self.differences(now, wall_ms).filter(|(_, by)| by.unsigned_abs() <= AGREE_MS);
        2 * (same.count() + 1) > self.seen.len() + 1
    }

    /// Returns the nodes whose clocks differ so much that a warning is due, with the differences.
    pub fn suspicious(&self, now: u64, wall_ms: u64) -> impl Iterator<Item = (&NodeName, i64)> {
        self.differences(now, wall_ms).filter(|(_, by)| by.unsigned_abs() > WARN_MS)
    }
}

/// Returns how far the steady clock is ahead of a wall clock.
const fn lead(now: u64, wall_ms: u64) -> i64 {
    // Milliseconds since any zero are far below the largest number.
    (now as i64).wrapping_sub(wall_ms as i64)
}

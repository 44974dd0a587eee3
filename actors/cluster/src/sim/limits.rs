//! The reference of a bucket over all owners: the places that its rule allows, in engine time.
//!
//! An owner has the bucket in memory and saves it each second. Places that were taken since the
//! last save in the log are forgotten with the owner. All others count for ever.

use super::engine::{PLACE_MS, next_empty_until};

/// The maximum age of the save with which a successor starts, before the last group of the owner.
///
/// It is a second of the slowest clock of a simulation.
const FORGOTTEN_MS: u64 = 1_200;

/// One bucket over all its owners.
#[derive(Debug, Clone, Default)]
pub(super) struct BucketReference {
    /// The times at which each place was taken: virtual time and engine time.
    taken: Vec<(u64, u64)>,
    empty_until: u64,
}

impl BucketReference {
    /// Takes a place that was given away. Returns whether the rule allows it.
    pub(super) fn take(&mut self, at: (u64, u64)) -> bool {
        self.taken.push(at);
        let next = next_empty_until(self.empty_until, at.1);
        self.empty_until = next.unwrap_or(self.empty_until);
        next.is_some()
    }

    /// Changes to an engine that starts with the save of this virtual time.
    ///
    /// `stamp` is the time of the last group of all. Returns a place that was wrongly forgotten.
    pub(super) fn change_owner(&mut self, saved_at: u64, stamp: u64) -> Option<u64> {
        let too_old = |at: u64| at > saved_at && at + FORGOTTEN_MS <= stamp;
        let found = self.taken.iter().map(|it| it.0).find(|at| too_old(*at));
        // A place that was taken in the millisecond of the save may be in it.
        self.taken.retain(|it| it.0 < saved_at);
        let after = |until: u64, it: &(u64, u64)| until.max(it.1) + PLACE_MS;
        self.empty_until = self.taken.iter().fold(0, after);
        found
    }
}

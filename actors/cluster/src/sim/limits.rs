//! The reference of a bucket over owners: what its rule allows, in engine time.
//!
//! An owner keeps the bucket in memory and saves it each second. What was taken since the last save
//! in the log is forgotten with the owner; all else counts for ever.

use super::engine::{PLACE_MS, next_empty_until};

/// How long before the last group of an owner the save may be that its successor goes on from. A
/// second of a clock that is as slow as clocks are here.
const FORGOTTEN_MS: u64 = 1_200;

/// One bucket over all its owners.
#[derive(Debug, Clone, Default)]
pub(super) struct BucketReference {
    /// When each place was taken: in virtual time and in engine time.
    taken: Vec<(u64, u64)>,
    empty_until: u64,
}

impl BucketReference {
    /// A place was given away. Returns whether the rule allows it.
    pub(super) fn take(&mut self, at: (u64, u64)) -> bool {
        self.taken.push(at);
        let next = next_empty_until(self.empty_until, at.1);
        self.empty_until = next.unwrap_or(self.empty_until);
        next.is_some()
    }

    /// Another engine goes on from what was saved at this virtual time, the last group of all
    /// being of that one. Returns what was forgotten and should not have been.
    pub(super) fn change_owner(&mut self, saved_at: u64, stamp: u64) -> Option<u64> {
        let too_old = |at: u64| at > saved_at && at + FORGOTTEN_MS <= stamp;
        let found = self.taken.iter().map(|it| it.0).find(|at| too_old(*at));
        // What was taken in the millisecond of the save may be in it.
        self.taken.retain(|it| it.0 < saved_at);
        let after = |until: u64, it: &(u64, u64)| until.max(it.1) + PLACE_MS;
        self.empty_until = self.taken.iter().fold(0, after);
        found
    }
}

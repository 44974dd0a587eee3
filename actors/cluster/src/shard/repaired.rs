//! Pure: a shard that has stopped begins anew once a repair has begun it anew.

use super::{Shard, State};
use crate::replica::Replica;

impl Shard {
    /// A repair has begun the shard anew with this epoch, which is higher than any before it. What
    /// this node has of it counts no more.
    pub(super) fn begin_anew(&mut self, epoch: u64) {
        let chain = self.replica.chain();
        if !matches!(self.state, State::Stopped(_)) || epoch <= chain.epoch() {
            return;
        }
        self.replica = Replica::empty(chain.log(), chain.shard());
        self.state = State::Absent;
        (self.short_since, self.vacant_since) = (None, None);
    }
}

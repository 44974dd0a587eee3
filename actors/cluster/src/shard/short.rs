//! Pure: the rule by which a shard stops when its log ends before the applied entries.

use postrider_log::Position;

#[cfg(test)]
use crate::planted::Planted;
use crate::settle::SHORT_FOR_MS;

use super::{Moment, Outputs, Shard, StopReason};

/// Compares the end of the log with the replica's, and returns whether the log is whole.
pub(super) fn compare(
    shard: &mut Shard,
    moment: Moment,
    last: Position,
    outputs: &mut Outputs,
) -> bool {
    let applied = shard.replica.chain().last();
    if last >= applied {
        shard.short_since = None;
        return true;
    }
    // A server that no longer leads may have answered: the end is believed if it stays the same.
    let since = *shard.short_since.get_or_insert(moment.now);
    #[cfg(test)]
    if shard.planted == Some(Planted::LateAnswerTakenForFresh) {
        shard.answered_of = moment.now;
    }
    if shard.answered_of >= since + SHORT_FOR_MS {
        shard.stop(StopReason::Short { last, applied }, outputs);
    }
    false
}

//! Pure: the handoff of a shard to a node that asks for it, and the new start after a repair.

use postrider_log::{Handoff, Kind};

use crate::name::NodeName;
#[cfg(test)]
use crate::planted::Planted;
use crate::replica::Replica;

use super::{Moment, Outputs, Question, ReleaseAnswer, Shard, ShardOutput, State};

impl Shard {
    pub(super) fn release_asked(&mut self, by: NodeName, outputs: &mut Outputs) -> ReleaseAnswer {
        match self.state {
            State::Owning { term } => {
                self.state = State::HandingOff { term, to: by };
                outputs.push(ShardOutput::CloseAdmission);
                ReleaseAnswer::Accepted
            }
            State::HandingOff { .. } => ReleaseAnswer::Accepted,
            State::Claiming(_) | State::Abandoned if !self.says_released_early() => {
                ReleaseAnswer::Busy
            }
            _ => ReleaseAnswer::NotOwner,
        }
    }

    fn says_released_early(&self) -> bool {
        #[cfg(test)]
        if self.planted == Some(Planted::ReleasedWhileClaiming) {
            return true;
        }
        // A claim that is not being appended yet will notice the node that comes first.
        matches!(self.state, State::Claiming(_)) && !self.is_appending()
    }

    fn is_appending(&self) -> bool {
        matches!(self.asked, Some((_, _, Question::Append { .. })))
    }

    pub(super) fn drained(&mut self, moment: Moment, outputs: &mut Outputs) {
        let State::HandingOff { term, to } = &self.state else { return };
        // A replaced owner appends nothing: after a loss the log may end at a position where it
        // would fit.
        if moment.term != Some(*term) {
            self.abandon(outputs);
            return;
        }
        let handoff = Handoff { node: to.as_str().to_owned() };
        let epoch = self.replica.chain().epoch();
        match handoff.encode() {
            Ok(body) => self.append_note(moment, Kind::Handoff, epoch, &body, outputs),
            // A name is far shorter than the limit of a text.
            Err(_) => self.abandon(outputs),
        }
    }

    /// Starts the shard again after a repair with this epoch, which is higher than any before it.
    ///
    /// The node's present replica counts no more.
    pub(super) fn begin_anew(&mut self, epoch: u64) {
        let chain = self.replica.chain();
        // An epoch that failed once is not tried again, or the shard would never seem to stop.
        let is_known = epoch <= chain.epoch().max(self.begun_anew);
        if !matches!(self.state, State::Stopped(_)) || is_known {
            return;
        }
        self.begun_anew = epoch;
        self.replica = Replica::empty(chain.log(), chain.shard());
        self.state = State::Absent;
        (self.short_since, self.vacant_since) = (None, None);
    }
}

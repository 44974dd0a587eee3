//! Pure: the claim of a shard: make sure the owner before answers no more, catch up, and append.

use postrider_log::body::DATA_FORMAT;
use postrider_log::{Claim, EntryHash, Kind, Next, Position, encode_commit};

#[cfg(test)]
use crate::planted::Planted;

use super::{Moment, Outputs, Question, ReleaseAnswer, Role, Shard, State, StopReason, short};

/// The maximum wait for a handoff before the owner's key is read again, in milliseconds.
const HANDOFF_WITHIN_MS: u64 = 10_000;
/// The time between looks for the handoff, in milliseconds; it is short, as nobody owns the shard.
const HANDOFF_EVERY_MS: u64 = 50;
/// The time a claim rests while the node's records lack too much of the log, in milliseconds.
const RECORDS_LOOK_MS: u64 = 500;
/// The time before a node that did not release the shard is asked again, in milliseconds.
const ASK_RELEASE_AGAIN_MS: u64 = 1_000;

/// The maximum number of bytes of an entry, more than any claim or handoff has.
const NOTE_BYTES_MAX: usize = 4_096;

/// The progress of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Claiming {
    /// The epoch whose owner is known to answer no more.
    cleared: Option<u64>,
    /// The time until which a handoff is waited for.
    handoff_until: Option<u64>,
    /// The end of the log, up to which the replica must be applied.
    tail: Option<Position>,
    /// The term in which the claim was appended.
    ///
    /// In a later term others may have seen the claim and no key, and already own the shard.
    pub(super) term: Option<u64>,
}

impl Claiming {
    /// Starts again after another entry has taken the claim's position.
    ///
    /// The other entry is of the owner before or another claim. `cleared` counts only for its
    /// epoch.
    pub(super) const fn again(self) -> Self {
        Self { tail: None, ..self }
    }
}

impl Shard {
    /// Returns whether the node is a standby or the coming owner, and follows the shard.
    ///
    /// It claims when the owner's key has expired. As the coming owner it also claims when its
    /// records are close to the end of the log.
    #[must_use]
    pub fn stands_by(&self) -> bool {
        matches!(self.state, State::Following) && self.role != Role::Nothing
    }

    /// Returns whether the node shall own the shard and may claim it.
    ///
    /// A living owner then only waits for the records of this node.
    #[must_use]
    pub fn prepares(&self) -> bool {
        self.stands_by() && self.role == Role::Owner && self.may_claim()
    }

    /// Returns whether the shard is another node's by the log, and was not handed over.
    pub(crate) fn was_left(&self) -> bool {
        let owner = self.replica.owner().is_some_and(|owner| owner.node != self.me);
        owner && self.replica.handed_to().is_none()
    }

    /// Takes the next step of a claim. No question is outstanding.
    pub(super) fn claim(&mut self, moment: Moment, outputs: &mut Outputs) {
        let State::Claiming(claiming) = self.state else { return };
        if moment.term.is_none() || self.role == Role::Nothing || !self.may_claim() {
            self.state = State::Following;
            return;
        }
        let chain = self.replica.chain();
        let (applied, epoch) = (chain.last(), chain.epoch());
        if !self.is_cleared(claiming, epoch) {
            self.clear(moment, claiming, outputs);
            return;
        }
        match claiming.tail {
            None => self.ask(moment, Question::Tail, outputs),
            Some(tail) if applied < tail => self.follow(moment, outputs),
            Some(_) => self.append_claim(moment, epoch + 1, outputs),
        }
    }

    /// Returns whether the wall clock permits a claim, and all members could read its entries.
    pub(super) fn may_claim(&self) -> bool {
        self.clock_allows() && !self.waits_for_older
    }

    fn clock_allows(&self) -> bool {
        #[cfg(test)]
        if self.planted == Some(Planted::ClockNotCompared) {
            return true;
        }
        self.clock_agrees
    }

    fn is_cleared(&self, claiming: Claiming, epoch: u64) -> bool {
        #[cfg(test)]
        if self.planted == Some(Planted::OwnerNotAskedAgain) {
            return claiming.cleared.is_some();
        }
        claiming.cleared == Some(epoch)
    }

    /// Finds out whether the owner of the present epoch can still answer.
    fn clear(&mut self, moment: Moment, claiming: Claiming, outputs: &mut Outputs) {
        let epoch = self.replica.chain().epoch();
        let owner = self.replica.owner().filter(|owner| owner.node != self.me);
        let is_free = self.replica.handed_to().is_some();
        let Some(owner) = owner.filter(|_| !is_free) else {
            let cleared = Claiming { cleared: Some(epoch), ..Claiming::default() };
            self.state = State::Claiming(cleared);
            self.claim(moment, outputs);
            return;
        };
        if claiming.handoff_until.is_some_and(|until| self.waits(moment, until)) {
            if moment.now >= self.follow_at {
                self.follow(moment, outputs);
                self.follow_at = moment.now + HANDOFF_EVERY_MS;
            }
            return;
        }
        let node = owner.node.clone();
        self.ask(moment, Question::Lease { node }, outputs);
    }

    fn waits(&self, moment: Moment, until: u64) -> bool {
        #[cfg(test)]
        if self.planted == Some(Planted::HandoffAwaitedForever) {
            return true;
        }
        moment.now < until
    }

    pub(super) fn lease_known(
        &mut self,
        moment: Moment,
        holder: Option<[u8; 16]>,
        outputs: &mut Outputs,
    ) {
        let State::Claiming(claiming) = &mut self.state else { return };
        let Some(owner) = self.replica.owner() else { return };
        // A process that replaced the owner's process holds no right of the earlier one.
        if holder != Some(owner.incarnation) {
            claiming.cleared = Some(self.replica.chain().epoch());
            claiming.handoff_until = None;
        } else if self.role == Role::Owner && self.records_are_close {
            let node = owner.node.clone();
            self.ask(moment, Question::Release { node }, outputs);
        } else if self.role == Role::Owner {
            // Nobody would answer while the records are fetched.
            self.claim_at = moment.now + RECORDS_LOOK_MS;
            self.state = State::Following;
        } else {
            self.vacant_since = None;
            self.state = State::Following;
        }
    }

    pub(super) fn release_answered(&mut self, moment: Moment, answer: ReleaseAnswer) {
        let State::Claiming(claiming) = &mut self.state else { return };
        #[cfg(test)]
        if self.planted == Some(Planted::HandoffNotAwaited) {
            claiming.cleared = Some(self.replica.chain().epoch());
            return;
        }
        match answer {
            ReleaseAnswer::Accepted => {
                claiming.handoff_until = Some(moment.now + HANDOFF_WITHIN_MS);
                self.follow_at = moment.now + HANDOFF_EVERY_MS;
            }
            ReleaseAnswer::Busy => {
                claiming.handoff_until = Some(moment.now + ASK_RELEASE_AGAIN_MS);
            }
            ReleaseAnswer::NotOwner => claiming.cleared = Some(self.replica.chain().epoch()),
        }
    }

    pub(super) fn tail_known(
        &mut self,
        moment: Moment,
        last: Position,
        hash: EntryHash,
        outputs: &mut Outputs,
    ) {
        #[cfg(test)]
        self.plant_at_tail(last, hash);
        if !short::compare(self, moment, last, outputs) {
            // The end is looked at again after a pause.
            if let State::Claiming(_) = self.state {
                self.claim_at = moment.now + ASK_RELEASE_AGAIN_MS;
                self.state = State::Following;
            }
            return;
        }
        let chain = self.replica.chain();
        if last == chain.last() && hash != chain.hash() {
            let what = "the last entry is another than the one that was applied".to_owned();
            self.stop(StopReason::Broken { applied: last, what }, outputs);
            return;
        }
        if let State::Claiming(claiming) = &mut self.state {
            claiming.tail = Some(last);
        }
    }

    /// Appends a claim or a handoff behind the applied entries.
    pub(super) fn append_note(
        &mut self,
        moment: Moment,
        kind: Kind,
        epoch: u64,
        body: &[u8],
        outputs: &mut Outputs,
    ) {
        let next = Next::after(self.replica.chain(), epoch);
        // Only a claim has the time: an owner may hand over although its wall clock has jumped.
        let time_ms = match kind {
            Kind::Claim => self.time(moment),
            _ => self.replica.time_ms(),
        };
        let entries = encode_commit(&next, kind, time_ms, body, NOTE_BYTES_MAX);
        // Names and versions are short, so the commit is one entry.
        if let Ok([bytes]) = entries.as_deref() {
            let question = Question::Append { at: next.position, bytes: bytes.clone() };
            self.ask(moment, question, outputs);
        }
    }

    /// Returns the engine time of a claim, never before that of the last entry.
    ///
    /// An owner whose clock was ahead may have written that entry.
    fn time(&self, moment: Moment) -> u64 {
        #[cfg(test)]
        if self.planted == Some(Planted::TimeGoesBack) {
            return moment.engine_ms;
        }
        moment.engine_ms.max(self.replica.time_ms())
    }

    fn append_claim(&mut self, moment: Moment, epoch: u64, outputs: &mut Outputs) {
        if let State::Claiming(claiming) = &mut self.state {
            claiming.term = moment.term;
        }
        let claim = Claim {
            node: self.me.as_str().to_owned(),
            incarnation: self.identity.incarnation,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            readable_from: DATA_FORMAT,
        };
        // Name and version are short texts, so this cannot fail.
        if let Ok(body) = claim.encode() {
            self.append_note(moment, Kind::Claim, epoch, &body, outputs);
        }
    }

    #[cfg(test)]
    fn plant_at_tail(&mut self, last: Position, hash: EntryHash) {
        let (applied, epoch) = (self.chain().last(), self.chain().epoch());
        let skips = self.planted == Some(Planted::ClaimWithoutCatchingUp) && applied < last;
        let ignores = self.planted == Some(Planted::LogLostIgnored) && applied > last;
        if skips || ignores {
            self.replica.pretend(last, epoch, hash);
        }
    }
}

//! Pure: the life of one shard on one node, from no replica to an engine and back.
//!
//! It owns the replica's place in the log, the claim, and whether an engine may run. It promises
//! that an engine runs only over everything before its own claim. It runs only after the owner
//! before can answer no more. A log that lost something is never continued.

mod claim;
mod port;
mod release;
mod short;

#[cfg(test)]
mod tests;

use std::mem;

use bytes::Bytes;
use postrider_log::LogId;

use crate::name::{Identity, NodeName};
#[cfg(test)]
use crate::planted::Planted;
use crate::replica::Replica;
use crate::settle::Settled;
use claim::Claiming;
pub use port::{
    Answer, Moment, Question, ReleaseAnswer, Role, ShardInput, ShardOutput, ShardState, StopReason,
};

/// The maximum wait for an answer before the question is repeated, in milliseconds.
const ANSWER_WITHIN_MS: u64 = 2_000;
/// The time between a replica's questions for new entries, in milliseconds.
const FOLLOW_EVERY_MS: u64 = 500;
/// The time between a stopped shard's questions for a repair, in milliseconds.
const REPAIRED_EVERY_MS: u64 = 2_000;
/// The additional delay with which each further standby claims, in milliseconds.
const RANK_STEP_MS: u64 = 500;
/// The time for which a node leaves a shard that it handed over, in milliseconds.
const LEAVE_FOR_MS: u64 = 5_000;

/// One shard on one node.
#[derive(Debug)]
pub struct Shard {
    me: NodeName,
    identity: Identity,
    replica: Replica,
    state: State,
    role: Role,
    /// The outstanding question, with its number and the time when it was asked.
    asked: Option<(u64, u64, Question)>,
    tickets: u64,
    follow_at: u64,
    claim_at: u64,
    /// The time since which the log has looked shorter than the replica.
    short_since: Option<u64>,
    /// The time when the last answered question was asked: its answer may wait for a paused node.
    answered_of: u64,
    /// The time since which the owner's key has been expired.
    vacant_since: Option<u64>,
    /// Set if the node's wall clock agrees with most nodes.
    clock_agrees: bool,
    /// Set if some members could not read the entries that the node writes.
    waits_for_older: bool,
    /// Set if the node's records have nearly all of the log.
    records_are_close: bool,
    /// The epoch of the last repair with which the shard was started again.
    begun_anew: u64,
    #[cfg(test)]
    planted: Option<Planted>,
}

#[derive(Debug)]
enum State {
    Absent,
    Restoring,
    Following,
    Claiming(Claiming),
    Owning { term: u64 },
    HandingOff { term: u64, to: NodeName },
    Abandoned,
    Stopped(StopReason),
}

type Outputs = Vec<ShardOutput>;

impl Shard {
    /// Creates a shard of which the node has nothing yet.
    #[must_use]
    pub const fn new(me: NodeName, identity: Identity, log: LogId, shard: u16) -> Self {
        Self {
            me,
            identity,
            replica: Replica::empty(log, shard),
            state: State::Absent,
            role: Role::Nothing,
            asked: None,
            tickets: 0,
            follow_at: 0,
            claim_at: 0,
            short_since: None,
            answered_of: 0,
            vacant_since: None,
            clock_agrees: true,
            waits_for_older: false,
            records_are_close: true,
            begun_anew: 0,
            #[cfg(test)]
            planted: None,
        }
    }

    /// Returns the state of the shard on this node.
    #[must_use]
    pub const fn state(&self) -> ShardState {
        match self.state {
            State::Absent => ShardState::Absent,
            State::Restoring => ShardState::Restoring,
            State::Following => ShardState::Following,
            State::Claiming(_) => ShardState::Claiming,
            State::Owning { .. } => ShardState::Owning,
            State::HandingOff { .. } => ShardState::HandingOff,
            State::Abandoned => ShardState::Abandoned,
            State::Stopped(_) => ShardState::Stopped,
        }
    }

    /// Returns the reason why the shard has stopped, if it has.
    #[must_use]
    pub const fn stop_reason(&self) -> Option<&StopReason> {
        if let State::Stopped(reason) = &self.state { Some(reason) } else { None }
    }

    /// Returns the applied replica.
    #[must_use]
    pub const fn replica(&self) -> &Replica {
        &self.replica
    }

    /// Returns the term in which the shard is owned and answers; `None` otherwise.
    #[must_use]
    pub const fn owned_in(&self) -> Option<u64> {
        if let State::Owning { term } = self.state { Some(term) } else { None }
    }

    /// Processes an input, and returns the next actions.
    pub fn step(&mut self, moment: Moment, input: ShardInput) -> Outputs {
        let mut outputs = Vec::new();
        match input {
            ShardInput::Tick => self.tick(moment, &mut outputs),
            ShardInput::Role(role) => self.role = role,
            ShardInput::ClockAgrees(agrees) => self.clock_agrees = agrees,
            ShardInput::OlderMembers(waits) => self.waits_for_older = waits,
            ShardInput::RecordsAreClose(are) => self.records_are_close = are,
            ShardInput::OwnerKey(true) => self.vacant_since = None,
            ShardInput::OwnerKey(false) => {
                self.vacant_since.get_or_insert(moment.now);
            }
            ShardInput::Answered(ticket, answer) => {
                if let Some((_, at, question)) = self.asked.take_if(|asked| asked.0 == ticket) {
                    self.answered_of = at;
                    self.answered(moment, question, answer, &mut outputs);
                }
            }
            ShardInput::ReleaseAsked { by } => {
                let answer = self.release_asked(by, &mut outputs);
                outputs.push(ShardOutput::AnswerRelease(answer));
            }
            ShardInput::Drained => self.drained(moment, &mut outputs),
            ShardInput::EngineFailed => self.abandon(&mut outputs),
            ShardInput::EngineStopped => {
                if matches!(self.state, State::Abandoned) {
                    self.state = State::Following;
                }
            }
            ShardInput::Appended(bytes) => self.take(bytes, &mut outputs),
            ShardInput::NotAppended(settled) => self.not_appended(settled, &mut outputs),
        }
        outputs
    }

    fn tick(&mut self, moment: Moment, outputs: &mut Outputs) {
        let term = match self.state {
            State::Owning { term } | State::HandingOff { term, .. } => Some(term),
            _ => None,
        };
        if term.is_some() && term != moment.term {
            self.abandon(outputs);
        }
        if let Some((_, at, question)) = &self.asked {
            // These two questions always end, and must not be asked twice.
            let ends = matches!(question, Question::Append { .. } | Question::Restore);
            if ends || moment.now < at + ANSWER_WITHIN_MS {
                return;
            }
            self.asked = None;
        }
        match self.state {
            State::Absent | State::Restoring if self.role != Role::Nothing => {
                self.state = State::Restoring;
                self.ask(moment, Question::Restore, outputs);
            }
            State::Following if self.wants_to_own(moment) => {
                self.state = State::Claiming(Claiming::default());
                self.claim(moment, outputs);
            }
            State::Following if moment.now >= self.follow_at => self.follow(moment, outputs),
            State::Claiming(_) => self.claim(moment, outputs),
            State::Stopped(_) if moment.now >= self.follow_at => {
                self.follow_at = moment.now + REPAIRED_EVERY_MS;
                self.ask(moment, Question::Repaired, outputs);
            }
            _ => {}
        }
    }

    fn wants_to_own(&self, moment: Moment) -> bool {
        if moment.term.is_none() || moment.now < self.claim_at || !self.may_claim() {
            return false;
        }
        match self.role {
            Role::Owner => true,
            Role::Standby(rank) => {
                let wait = u64::from(rank) * RANK_STEP_MS;
                self.vacant_since.is_some_and(|since| moment.now >= since + wait)
                    && self.replica.owner().is_some()
            }
            Role::Nothing => false,
        }
    }

    fn ask(&mut self, moment: Moment, question: Question, outputs: &mut Outputs) {
        self.tickets += 1;
        self.asked = Some((self.tickets, moment.now, question.clone()));
        outputs.push(ShardOutput::Ask(self.tickets, question));
    }

    fn follow(&mut self, moment: Moment, outputs: &mut Outputs) {
        self.follow_at = moment.now + FOLLOW_EVERY_MS;
        let from = self.replica.chain().last().next();
        self.ask(moment, Question::Entries { from }, outputs);
    }

    fn answered(
        &mut self,
        moment: Moment,
        question: Question,
        answer: Answer,
        outputs: &mut Outputs,
    ) {
        match (answer, question) {
            (Answer::Restored(replica), _) => {
                self.replica = *replica;
                self.state = State::Following;
            }
            (Answer::Unrestorable { first }, _) => {
                self.stop(StopReason::Trimmed { first }, outputs);
                return;
            }
            // A checkpoint has these entries. An owner asks for no entries.
            (Answer::Trimmed, _) => {
                if matches!(self.state, State::Following | State::Claiming(_)) {
                    self.state = State::Restoring;
                }
            }
            (Answer::Entries { entries, last }, _) => {
                for bytes in entries {
                    self.take(bytes, outputs);
                    if matches!(self.state, State::Stopped(_)) {
                        return;
                    }
                }
                short::compare(self, moment, last, outputs);
            }
            (Answer::Tail { last, hash }, _) => self.tail_known(moment, last, hash, outputs),
            (Answer::Lease(holder), _) => self.lease_known(moment, holder, outputs),
            (Answer::Release(answer), _) => self.release_answered(moment, answer),
            (Answer::Settled(settled), Question::Append { bytes, .. }) => {
                self.note_settled(moment, settled, bytes, outputs);
            }
            (Answer::Repaired { epoch }, _) => self.begin_anew(epoch),
            // The question is asked again with the next tick.
            (Answer::Settled(_) | Answer::Nothing, _) => return,
        }
        if matches!(self.state, State::Claiming(_)) && self.asked.is_none() {
            self.claim(moment, outputs);
        }
    }

    fn take(&mut self, bytes: Bytes, outputs: &mut Outputs) {
        let owner = self.replica.owner().cloned();
        match self.replica.take(bytes) {
            Ok(entry) => outputs.push(ShardOutput::Apply(entry)),
            Err(fault) => {
                let applied = self.replica.chain().last();
                self.stop(StopReason::Broken { applied, what: fault.to_string() }, outputs);
            }
        }
        if self.replica.owner() != owner.as_ref() {
            self.vacant_since = None;
        }
    }

    fn note_settled(
        &mut self,
        moment: Moment,
        settled: Settled,
        bytes: Bytes,
        outputs: &mut Outputs,
    ) {
        match (settled, mem::replace(&mut self.state, State::Following)) {
            (Settled::Durable, State::Claiming(claiming)) => {
                self.take(bytes, outputs);
                let term = moment.term.filter(|_| moment.term == claiming.term);
                if let (State::Following, Some(term)) = (&self.state, term) {
                    self.state = State::Owning { term };
                    let epoch = self.replica.chain().epoch();
                    outputs.push(ShardOutput::StartEngine { epoch });
                }
            }
            (Settled::Durable, State::HandingOff { .. }) => {
                self.take(bytes, outputs);
                self.claim_at = moment.now + LEAVE_FOR_MS;
                self.abandon(outputs);
            }
            (Settled::Taken(_), State::Claiming(claiming)) => {
                self.state = State::Claiming(claiming.again());
            }
            (Settled::Taken(_), State::HandingOff { .. }) => self.abandon(outputs),
            (settled @ (Settled::Lost { .. } | Settled::Damaged(_)), state) => {
                self.state = state;
                self.not_appended(settled, outputs);
            }
            // The shard was abandoned meanwhile; following the log shows the outcome.
            (Settled::Durable | Settled::Taken(_), state) => self.state = state,
        }
    }

    fn not_appended(&mut self, settled: Settled, outputs: &mut Outputs) {
        let applied = self.replica.chain().last();
        match settled {
            Settled::Durable => {}
            Settled::Taken(_) => self.abandon(outputs),
            Settled::Damaged(what) => self.stop(StopReason::Broken { applied, what }, outputs),
            Settled::Lost { last } => self.stop(StopReason::Short { last, applied }, outputs),
        }
    }

    /// Stops the engine; the replica is followed again when it has stopped.
    fn abandon(&mut self, outputs: &mut Outputs) {
        if matches!(self.state, State::Stopped(_) | State::Abandoned) {
            return;
        }
        self.state = State::Abandoned;
        outputs.push(ShardOutput::StopEngine);
    }

    fn stop(&mut self, reason: StopReason, outputs: &mut Outputs) {
        if matches!(self.state, State::Owning { .. } | State::HandingOff { .. }) {
            outputs.push(ShardOutput::StopEngine);
        }
        self.asked = None;
        outputs.push(ShardOutput::Stopped(reason.clone()));
        self.state = State::Stopped(reason);
    }
}

#[cfg(test)]
impl Shard {
    /// Plants a fault.
    pub(crate) const fn plant(&mut self, planted: Option<Planted>) {
        self.planted = planted;
        self.replica.planted = planted;
    }

    /// Returns whether the log has looked shorter than the replica, and is watched.
    pub(crate) const fn is_suspicious(&self) -> bool {
        self.short_since.is_some()
    }

    /// Returns whether the shard is suspicious, has asked again, and is still undecided.
    pub(crate) const fn doubts(&self) -> bool {
        let has_stopped = matches!(self.state, State::Stopped(_));
        self.is_suspicious() && self.asked.is_some() && !has_stopped
    }

    /// Returns the end of the replica's chain.
    pub(crate) const fn chain(&self) -> &postrider_log::Chain {
        self.replica.chain()
    }
}

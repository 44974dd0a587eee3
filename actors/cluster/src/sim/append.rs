//! The appends of a node of a simulation: each publish and each lookup has a deadline.

use bytes::Bytes;
use postrider_log::Position;

use super::World;
use super::call::{Call, Input, NodeNumber};
use crate::planted::Planted;
use crate::settle::{Act, Heard, Settled, Settlement};
use crate::shard::{Answer, ShardInput};

/// The maximum wait for a publish or a lookup.
const WITHIN_MS: u64 = 1_000;

/// An append under way.
#[derive(Debug)]
pub(super) struct Append {
    pub(super) number: u64,
    pub(super) settlement: Settlement,
    /// The number of the act; answers to an earlier act are ignored.
    pub(super) attempt: u32,
    /// Set if the present act is a publish.
    is_publish: bool,
}

impl World {
    /// Starts to append an entry.
    pub(super) fn begin_append(
        &mut self,
        node: NodeNumber,
        shard: usize,
        at: Position,
        bytes: Bytes,
    ) -> Append {
        let it = &mut self.nodes[node];
        it.appends += 1;
        let number = it.appends;
        let mut settlement = Settlement::new(at, bytes);
        settlement.planted = it.planted;
        let mut append = Append { number, settlement, attempt: 0, is_publish: true };
        let first = append.settlement.begin(self.nodes[node].boot(self.now));
        self.act(node, shard, &mut append, &first);
        append
    }

    /// Carries out an act of the settlement; the deadline is a message to the node itself.
    fn act(&mut self, node: NodeNumber, shard: usize, append: &mut Append, act: &Act) {
        self.trace(|| format!("node {node} shard {shard}: {act:?}"));
        append.attempt += 1;
        append.is_publish = *act == Act::Publish;
        let (number, attempt) = (append.number, append.attempt);
        let at = append.settlement.at();
        let bytes = append.settlement.bytes().clone();
        let mut heard = Heard::Nothing;
        let mut within = WITHIN_MS;
        match act {
            Act::Publish => {
                self.call(node, Call::Publish { shard, at, bytes, append: number, attempt });
            }
            Act::LookUp(at) => {
                let at = *at;
                self.judge.summary.settled += 1;
                self.call(node, Call::LookUp { shard, at, append: number, attempt });
            }
            Act::WaitUntil(until) => {
                within = until.saturating_sub(self.nodes[node].boot(self.now));
                heard = Heard::Woken;
            }
            Act::Done(_) => return,
        }
        self.after_a_while(node, within, Input::Heard { shard, append: number, attempt, heard });
    }

    /// Processes an answer to the append of a claim or a group.
    pub(super) fn heard(
        &mut self,
        node: NodeNumber,
        shard: usize,
        number: u64,
        attempt: u32,
        heard: Heard,
    ) {
        let it = &mut self.nodes[node].shards[shard];
        let is_this = |append: &Append| append.number == number && append.attempt == attempt;
        if it.note.as_ref().is_some_and(|(append, _)| is_this(append)) {
            let Some((mut append, ticket)) = it.note.take() else { return };
            match self.next(node, &mut append, heard) {
                Act::Done(settled) => {
                    self.fenced(shard, &append, &settled);
                    let answer = Answer::Settled(settled);
                    self.step(node, shard, ShardInput::Answered(ticket, answer));
                }
                act => {
                    self.act(node, shard, &mut append, &act);
                    self.nodes[node].shards[shard].note = Some((append, ticket));
                }
            }
            return;
        }
        let Some(engine) = it.engine.as_mut() else { return };
        if !engine.flight.as_ref().is_some_and(|(append, _)| is_this(append)) {
            return;
        }
        let Some((mut append, jobs)) = engine.flight.take() else { return };
        let timed_out = heard == Heard::Nothing && append.is_publish;
        if timed_out && self.options.planted == Some(Planted::TimeoutIsFailed) {
            for request in jobs.iter().filter_map(|it| it.request) {
                self.judge.failed(request);
            }
            self.flush(node, shard);
            return;
        }
        match self.next(node, &mut append, heard) {
            Act::Done(settled) => self.group_settled(node, shard, &append, jobs, settled),
            act => {
                self.act(node, shard, &mut append, &act);
                if let Some(engine) = self.nodes[node].shards[shard].engine.as_mut() {
                    engine.flight = Some((append, jobs));
                }
            }
        }
    }

    fn next(&mut self, node: NodeNumber, append: &mut Append, heard: Heard) -> Act {
        if heard == Heard::Refused && self.options.planted == Some(Planted::RefusalIsFenced) {
            let header = postrider_log::Header::decode(append.settlement.bytes()).unwrap();
            return Act::Done(Settled::Taken(header));
        }
        append.settlement.step(self.nodes[node].boot(self.now), heard)
    }

    pub(super) fn fenced(&mut self, shard: usize, append: &Append, settled: &Settled) {
        if matches!(settled, Settled::Taken(_)) {
            let settlement = &append.settlement;
            self.judge.fenced(&self.streams[shard], settlement.at(), settlement.bytes());
        }
    }
}

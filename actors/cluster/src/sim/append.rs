//! How a node of a simulation appends: each publish and each look has a deadline.

use bytes::Bytes;
use postrider_log::{Chain, EntryHash, Kind, Next, Position, encode_commit};

use super::World;
use super::call::{Ask, Call, End, Input, NodeNumber, Request};
use super::judge::body;
use crate::planted::Planted;
use crate::settle::{Act, Heard, Settled, Settlement};
use crate::shard::{Answer, ShardInput};

/// How long a publish or a look is waited for.
const WITHIN_MS: u64 = 1_000;

/// An append under way.
#[derive(Debug)]
pub(super) struct Append {
    pub(super) number: u64,
    pub(super) settlement: Settlement,
    /// It rises with each act; what is heard of an earlier one is ignored.
    pub(super) attempt: u32,
    /// The present act is a publish.
    is_publish: bool,
}

impl World {
    /// Begins to append an entry.
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
        let settlement = Settlement::new(at, bytes);
        let mut append = Append { number, settlement, attempt: 0, is_publish: true };
        self.act(node, shard, &mut append, &Act::Publish);
        append
    }

    /// Does what the settlement says; the deadline is a message to oneself.
    fn act(&mut self, node: NodeNumber, shard: usize, append: &mut Append, act: &Act) {
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
            Act::LookUp => {
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

    /// Something was heard of an append, a claim's or a group's.
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
        let Some((mut append, requests)) = engine.flight.take() else { return };
        let timed_out = heard == Heard::Nothing && append.is_publish;
        if timed_out && self.options.planted == Some(Planted::TimeoutIsFailed) {
            for request in requests {
                self.judge.failed(request);
            }
            self.flush(node, shard);
            return;
        }
        match self.next(node, &mut append, heard) {
            Act::Done(settled) => self.group_settled(node, shard, &append, requests, settled),
            act => {
                self.act(node, shard, &mut append, &act);
                if let Some(engine) = self.nodes[node].shards[shard].engine.as_mut() {
                    engine.flight = Some((append, requests));
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

    fn fenced(&mut self, shard: usize, append: &Append, settled: &Settled) {
        if matches!(settled, Settled::Taken(_)) {
            let settlement = &append.settlement;
            self.judge.fenced(&self.streams[shard], settlement.at(), settlement.bytes());
        }
    }

    fn group_settled(
        &mut self,
        node: NodeNumber,
        shard: usize,
        append: &Append,
        requests: Vec<Request>,
        settled: Settled,
    ) {
        let planted = self.options.planted;
        let has_lost = self.streams[shard].has_lost;
        if settled == Settled::Durable {
            let bytes = append.settlement.bytes().clone();
            self.step(node, shard, ShardInput::Appended(bytes));
            if planted != Some(Planted::AnswerBeforeAcknowledgement) {
                for request in &requests {
                    self.judge.acknowledged(*request, has_lost);
                }
            }
            self.flush(node, shard);
            return;
        }
        self.fenced(shard, append, &settled);
        let is_taken = matches!(settled, Settled::Taken(_));
        if is_taken && planted == Some(Planted::TakenIgnored) {
            let stream = &self.streams[shard];
            let End { last, hash } = stream.end(stream.entries.len());
            self.append_group(node, shard, requests, last, hash);
            return;
        }
        // Who waits is told that the outcome is not known.
        self.step(node, shard, ShardInput::NotAppended(settled));
    }

    /// Appends the requests that wait, or says that nothing is left.
    pub(super) fn flush(&mut self, node: NodeNumber, shard: usize) {
        let it = &mut self.nodes[node].shards[shard];
        let Some(engine) = it.engine.as_mut() else { return };
        if engine.flight.is_some() {
            return;
        }
        if engine.queue.is_empty() {
            if engine.is_closed {
                self.step(node, shard, ShardInput::Drained);
            }
            return;
        }
        let requests = std::mem::take(&mut engine.queue);
        let chain = it.shard.chain();
        let (last, hash) = (chain.last(), chain.hash());
        self.append_group(node, shard, requests, last, hash);
    }

    fn append_group(
        &mut self,
        node: NodeNumber,
        shard: usize,
        requests: Vec<Request>,
        last: Position,
        hash: EntryHash,
    ) {
        let it = &self.nodes[node].shards[shard];
        let Some(engine) = &it.engine else { return };
        let chain = it.shard.chain();
        let chain = Chain::new(chain.log(), chain.shard(), last, engine.epoch, hash);
        let next = Next::after(&chain, engine.epoch);
        let entry = encode_commit(&next, Kind::Group, self.now, &body(&requests), 100_000);
        let bytes = entry.unwrap().remove(0);
        let has_lost = self.streams[shard].has_lost;
        if self.options.planted == Some(Planted::AnswerBeforeAcknowledgement) {
            for request in &requests {
                self.judge.acknowledged(*request, has_lost);
            }
        }
        let append = self.begin_append(node, shard, next.position, bytes);
        if let Some(engine) = self.nodes[node].shards[shard].engine.as_mut() {
            engine.flight = Some((append, requests));
        }
    }

    /// A client's request comes in.
    pub(super) fn request(&mut self, node: NodeNumber, request: Request) {
        let now = self.now;
        let may_answer = self.nodes[node].owns(request.shard, now);
        let it = &mut self.nodes[node].shards[request.shard];
        let known = it.view.codes.get(&request.code).copied().unwrap_or_default();
        let Some(engine) = it.engine.as_mut().filter(|it| may_answer && !it.is_closed) else {
            return;
        };
        match request.ask {
            Ask::Read => {
                let has_lost = self.streams[request.shard].has_lost;
                self.judge.read(node, request, known, has_lost);
                return;
            }
            Ask::Verify => {
                // A verification under way counts as one.
                if known != 1 || !engine.verifying.insert(request.code) {
                    return;
                }
            }
            Ask::Issue => {}
        }
        engine.queue.push(request);
        self.flush(node, request.shard);
    }
}

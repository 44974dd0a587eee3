//! The engine of an owner in a simulation: requests, limits, groups, and messages that leave.

use postrider_log::{Chain, EntryHash, Kind, Next, Position, encode_commit};

use super::World;
use super::append::Append;
use super::call::{Ask, Call, End, Input, NodeNumber, Request};
use super::engine::{Engine, Job, Message};
use super::ops::{Change, body};
use crate::planted::Planted;
use crate::settle::Settled;
use crate::shard::ShardInput;

impl World {
    /// Processes a client's request.
    pub(super) fn request(&mut self, node: NodeNumber, request: Request) {
        let (now, shard) = (self.now, request.shard);
        let may_answer = self.nodes[node].owns(shard, now);
        let engine_ms = self.nodes[node].engine_ms(shard, now);
        let it = &mut self.nodes[node].shards[shard];
        let known = it.view.codes.get(&request.code).copied().unwrap_or_default();
        let Some(engine) = it.engine.as_mut().filter(|it| may_answer && !it.is_closed) else {
            return;
        };
        let change = match request.ask {
            Ask::Read => {
                let has_lost = self.streams[shard].has_lost;
                self.judge.read(node, request, known, has_lost);
                return;
            }
            Ask::Take => {
                if engine.take(engine_ms) {
                    let has_lost = self.streams[shard].has_lost;
                    self.judge.taken(shard, (now, engine_ms), has_lost);
                }
                return;
            }
            Ask::Verify => {
                // A verification under way counts as done.
                if known != 1 || !engine.verifying.insert(request.code) {
                    return;
                }
                Change::Verify(request.code)
            }
            Ask::Message => {
                let Some(count) = engine.count(engine_ms) else { return };
                engine.queue.push(Job { change: count, request: None });
                Change::Accept(request.code)
            }
            Ask::Issue => Change::Issue(request.code),
        };
        engine.queue.push(Job { change, request: Some(request) });
        self.flush(node, shard);
    }

    /// Starts an engine, which reads the log for itself.
    ///
    /// It does not start over less than the entries before its own claim, whatever the server has.
    pub(super) fn start_engine(&mut self, node: NodeNumber, shard: usize, epoch: u64) {
        let seen = self.seen_by_engine(shard);
        let it = &mut self.nodes[node].shards[shard];
        if (seen as u64) < it.shard.chain().last().0 {
            if self.options.planted != Some(Planted::ReadEndsEarly) {
                self.step(node, shard, ShardInput::EngineFailed);
                return;
            }
            it.view.forget_behind(seen);
        }
        let engine_ms = self.nodes[node].engine_ms(shard, self.now);
        let boot = self.nodes[node].boot(self.now);
        let has_lost = self.streams[shard].has_lost;
        let owner = &self.nodes[node];
        self.judge.started(owner, shard, epoch, &owner.shards[shard].view, has_lost);
        let it = &mut self.nodes[node].shards[shard];
        let mut engine = Engine::over(&it.view, self.options.planted);
        engine.epoch = epoch;
        engine.term = it.shard.owned_in();
        engine.began = (engine_ms, boot);
        it.engine = Some(engine);
        self.flush(node, shard);
        let within = 100 + self.draw(300);
        self.after_a_while(node, within, Input::EngineTick { shard, epoch });
    }

    /// Claims the messages that are ready, and saves the bucket.
    pub(super) fn engine_tick(&mut self, node: NodeNumber, shard: usize, epoch: u64) {
        let planted = self.options.planted;
        let it = &mut self.nodes[node].shards[shard];
        let Some(engine) = it.engine.as_mut().filter(|it| it.epoch == epoch) else { return };
        let mut claimed = Vec::new();
        for (id, message) in &it.view.messages {
            let is_ready = *message != Message::Claimed && !engine.is_closed;
            if is_ready && engine.in_hand.insert(*id) {
                engine.queue.push(Job { change: Change::Claim(*id), request: None });
                claimed.push(*id);
            }
        }
        if planted == Some(Planted::HandedOverBeforeClaim) {
            self.leave(node, shard, epoch, &claimed);
        }
        self.consider_checkpoint(node, shard);
        self.flush(node, shard);
        let within = 200 + self.draw(300);
        self.after_a_while(node, within, Input::EngineTick { shard, epoch });
    }

    /// Schedules the messages to leave the process soon.
    fn leave(&mut self, node: NodeNumber, shard: usize, epoch: u64, messages: &[u32]) {
        for message in messages.iter().copied() {
            let within = 1 + self.draw(60);
            self.after_a_while(node, within, Input::HandOver { shard, epoch, message });
        }
    }

    /// Hands a message over, if the node still may.
    pub(super) fn hand_over(&mut self, node: NodeNumber, shard: usize, epoch: u64, message: u32) {
        if !self.nodes[node].may_hand_over(shard, epoch, self.now) {
            // A late renewal extends the same term, and the message must not be dropped.
            let engine = &self.nodes[node].shards[shard].engine;
            if engine.as_ref().is_some_and(|it| it.epoch == epoch) {
                self.after_a_while(node, 100, Input::HandOver { shard, epoch, message });
            }
            return;
        }
        self.trace(|| format!("node {node} shard {shard}: hands over {message}"));
        let has_lost = self.streams[shard].has_lost;
        self.judge.handed_over(shard, epoch, message, has_lost);
        let within = 20 + self.draw(400);
        self.after_a_while(node, within, Input::Outcome { shard, epoch, message });
    }

    /// Records the known outcome of a message.
    pub(super) fn outcome(&mut self, node: NodeNumber, shard: usize, epoch: u64, message: u32) {
        let engine = self.nodes[node].shards[shard].engine.as_mut();
        let Some(engine) = engine.filter(|it| it.epoch == epoch) else { return };
        engine.queue.push(Job { change: Change::Sent(message), request: None });
        self.flush(node, shard);
    }

    pub(super) fn group_settled(
        &mut self,
        node: NodeNumber,
        shard: usize,
        append: &Append,
        jobs: Vec<Job>,
        settled: Settled,
    ) {
        let planted = self.options.planted;
        if settled == Settled::Durable {
            let bytes = append.settlement.bytes().clone();
            self.step(node, shard, ShardInput::Appended(bytes));
            self.durable(node, shard, &jobs);
            let engine = self.nodes[node].shards[shard].engine.as_mut();
            if let Some(through) = engine.and_then(|it| it.trims.take()) {
                self.call(node, Call::Trim { shard, through });
            }
            self.flush(node, shard);
            return;
        }
        self.fenced(shard, append, &settled);
        let is_taken = matches!(settled, Settled::Taken(_));
        if is_taken && planted == Some(Planted::TakenIgnored) {
            let stream = &self.streams[shard];
            let End { last, hash } = stream.end(stream.entries.len());
            self.append_group(node, shard, jobs, last, hash);
            return;
        }
        // The waiting requests get the answer that the outcome is not known.
        self.step(node, shard, ShardInput::NotAppended(settled));
    }

    /// Processes a durable group: answers its requests, and lets its claimed messages leave.
    fn durable(&mut self, node: NodeNumber, shard: usize, jobs: &[Job]) {
        let planted = self.options.planted;
        if planted != Some(Planted::AnswerBeforeAcknowledgement) {
            self.acknowledge(shard, jobs);
        }
        let Some(engine) = self.nodes[node].shards[shard].engine.as_mut() else { return };
        let epoch = engine.epoch;
        let mut claimed = Vec::new();
        for job in jobs {
            match job.change {
                Change::Claim(id) => claimed.push(id),
                Change::Sent(id) | Change::Unknown(id) => {
                    engine.in_hand.remove(&id);
                }
                _ => {}
            }
        }
        if planted != Some(Planted::HandedOverBeforeClaim) {
            self.leave(node, shard, epoch, &claimed);
        }
    }

    fn acknowledge(&mut self, shard: usize, jobs: &[Job]) {
        let has_lost = self.streams[shard].has_lost;
        for request in jobs.iter().filter_map(|it| it.request) {
            self.judge.acknowledged(request, has_lost);
        }
    }

    /// Appends the waiting changes, or reports that nothing is left.
    pub(super) fn flush(&mut self, node: NodeNumber, shard: usize) {
        let boot = self.nodes[node].boot(self.now);
        let it = &mut self.nodes[node].shards[shard];
        let is_idle = |it: &&mut Engine| it.flight.is_none() && !it.is_drained;
        let Some(engine) = it.engine.as_mut().filter(is_idle) else { return };
        if let Some((note, through)) = engine.note.take() {
            engine.trims = Some(through);
            self.append_checkpoint(node, shard, &note);
            return;
        }
        if engine.queue.is_empty() && !engine.is_save_due(boot, self.options.planted) {
            if engine.is_closed && engine.in_hand.is_empty() {
                engine.is_drained = true;
                self.step(node, shard, ShardInput::Drained);
            }
            return;
        }
        let (epoch, unasked) = (engine.epoch, Planted::IdleOwnerNotAsked);
        let may_append = self.nodes[node].is_owner(shard, epoch, self.now);
        if !may_append && self.options.planted != Some(unasked) {
            // The shard is given up with the next tick.
            return;
        }
        let it = &mut self.nodes[node].shards[shard];
        let Some(engine) = it.engine.as_mut() else { return };
        let jobs = std::mem::take(&mut engine.queue);
        let chain = it.shard.chain();
        let (last, hash) = (chain.last(), chain.hash());
        self.append_group(node, shard, jobs, last, hash);
    }

    fn append_group(
        &mut self,
        node: NodeNumber,
        shard: usize,
        jobs: Vec<Job>,
        last: Position,
        hash: EntryHash,
    ) {
        let (now, planted) = (self.now, self.options.planted);
        let boot = self.nodes[node].boot(now);
        let engine_ms = self.nodes[node].engine_ms(shard, now);
        let it = &mut self.nodes[node].shards[shard];
        let Some(engine) = it.engine.as_mut() else { return };
        let save = engine.is_save_due(boot, planted).then(|| engine.save(boot));
        let stamp = Change::Stamp(now as u32);
        let changes = jobs.iter().map(|job| job.change);
        let body = body(std::iter::once(stamp).chain(changes).chain(save));
        let chain = it.shard.chain();
        let chain = Chain::new(chain.log(), chain.shard(), last, engine.epoch, hash);
        let next = Next::after(&chain, engine.epoch);
        let entry = encode_commit(&next, Kind::Group, engine_ms, &body, 100_000);
        let bytes = entry.unwrap().remove(0);
        if planted == Some(Planted::AnswerBeforeAcknowledgement) {
            self.acknowledge(shard, &jobs);
        }
        if !self.nodes[node].is_owner(shard, next.epoch, now) {
            self.judge.appends_late(&self.streams[shard], next.position, &bytes);
        }
        let append = self.begin_append(node, shard, next.position, bytes);
        if let Some(engine) = self.nodes[node].shards[shard].engine.as_mut() {
            engine.flight = Some((append, jobs));
        }
    }
}

//! The thin shell of a simulated node: it hands inputs to the rules and does what they say.

use postrider_log::Kind;

use super::World;
use super::call::{Call, Input, NodeNumber};
use super::node::Engine;
use crate::coordinator::{BucketView, CoordinatorWrite, coordinate};
use crate::placement::Bounds;
use crate::planted::Planted;
use crate::shard::{Answer, Question, Role, ShardInput, ShardOutput};
use crate::tenure::{TenureInput, TenureOutput};

impl World {
    /// Something happens at a node that runs.
    pub(super) fn happens(&mut self, node: NodeNumber, input: Input) {
        match input {
            Input::Tick => self.tick(node),
            Input::ShardTick => self.shard_tick(node),
            Input::Tenure(input) => self.tenure(node, &input),
            Input::Key(key) => self.tenure(node, &TenureInput::Found(key)),
            Input::Snapshot(view) => self.snapshot(node, *view),
            Input::Answer { shard, ticket, answer } => {
                self.step(node, shard, ShardInput::Answered(ticket, answer));
            }
            Input::Heard { shard, append, attempt, heard } => {
                self.heard(node, shard, append, attempt, heard);
            }
            Input::EngineStopped { shard } => self.step(node, shard, ShardInput::EngineStopped),
            Input::Release { shard, by, ticket } => {
                let name = self.nodes[by].name.clone();
                self.nodes[node].shards[shard].asker = Some((by, ticket));
                self.step(node, shard, ShardInput::ReleaseAsked { by: name });
            }
            Input::Released { shard, ticket, answer } => {
                let answer = Answer::Release(answer);
                self.step(node, shard, ShardInput::Answered(ticket, answer));
            }
            Input::Client(request) => self.request(node, request),
        }
    }

    fn tick(&mut self, node: NodeNumber) {
        let pause = 300 + self.draw(200);
        self.after_a_while(node, pause, Input::Tick);
        let it = &mut self.nodes[node];
        it.flag = it.tenure.term(it.tenure_clock(self.now));
        self.tenure(node, &TenureInput::Tick);
        self.call(node, Call::Snapshot);
    }

    fn shard_tick(&mut self, node: NodeNumber) {
        // The thread that looks at the deadline may come late; nothing may rest on it.
        let calm_in = self.calm_from.saturating_sub(self.now);
        let is_late = self.draw(30) == 0;
        let pause = if is_late { calm_in.clamp(200, 4_000) } else { 200 + self.draw(200) };
        self.after_a_while(node, pause, Input::ShardTick);
        for shard in 0..self.streams.len() {
            self.step(node, shard, ShardInput::Tick);
        }
    }

    fn tenure(&mut self, node: NodeNumber, input: &TenureInput) {
        let now = self.nodes[node].tenure_clock(self.now);
        let outputs = self.nodes[node].tenure.step(now, input);
        for output in outputs {
            match output {
                TenureOutput::Write { renewal, revision } => {
                    let identity = self.nodes[node].identity;
                    self.call(node, Call::Renew { renewal, revision, identity });
                }
                TenureOutput::Read => self.call(node, Call::ReadKey),
                // Each shard looks at its term with the tick; a request does so before.
                TenureOutput::TermOver => {
                    if self.options.planted != Some(Planted::TermOutlivesKey) {
                        for shard in 0..self.streams.len() {
                            self.step(node, shard, ShardInput::Tick);
                        }
                    }
                }
                TenureOutput::NameTaken => unreachable!("names are unique here"),
            }
        }
    }

    fn snapshot(&mut self, node: NodeNumber, view: BucketView) {
        let me = self.nodes[node].name.clone();
        let shards = self.streams.len() as u16;
        let bounds = Bounds { shards, standbys: 1, moves: 2 };
        for write in coordinate(&me, &view, bounds) {
            self.call(
                node,
                match write {
                    CoordinatorWrite::Lead { revision } => Call::Lead { revision },
                    CoordinatorWrite::Assign { assignment, revision } => {
                        Call::Assign { assignment, revision }
                    }
                },
            );
        }
        let (assignment, _) = view.assignment.clone().unwrap_or_default();
        for (shard, placed) in assignment.iter().enumerate() {
            let rank = placed.standbys.iter().position(|it| *it == me);
            let role = match rank {
                _ if placed.owner.as_ref() == Some(&me) => Role::Owner,
                Some(rank) => Role::Standby(rank as u32),
                None => Role::Nothing,
            };
            self.step(node, shard, ShardInput::Role(role));
            let replica = self.nodes[node].shards[shard].shard.replica();
            let owner = replica.owner().map(|owner| owner.node.clone());
            if let Some(owner) = owner {
                let is_there = view.nodes.iter().any(|it| it.node == owner);
                self.step(node, shard, ShardInput::OwnerKey(is_there));
            }
        }
        self.nodes[node].view = view;
    }

    /// Hands something to a shard's life, and does what that says.
    pub(super) fn step(&mut self, node: NodeNumber, shard: usize, input: ShardInput) {
        let moment = self.nodes[node].moment(self.now);
        let outputs = self.nodes[node].shards[shard].shard.step(moment, input);
        for output in outputs {
            self.told(|| format!("node {node} shard {shard}: {output:?}"));
            match output {
                ShardOutput::Ask(ticket, question) => self.ask(node, shard, ticket, question),
                ShardOutput::Apply(entry) => {
                    let is_group = entry.header.kind == Kind::Group;
                    let body = is_group.then(|| entry.body());
                    let it = &mut self.nodes[node].shards[shard];
                    it.view.apply(entry.bytes, body.as_deref());
                }
                ShardOutput::StartEngine { epoch } => {
                    let engine = Engine { epoch, ..Engine::default() };
                    self.nodes[node].shards[shard].engine = Some(engine);
                }
                ShardOutput::CloseAdmission => {
                    if let Some(engine) = self.nodes[node].shards[shard].engine.as_mut() {
                        engine.is_closed = true;
                    }
                    self.flush(node, shard);
                }
                ShardOutput::StopEngine => {
                    self.nodes[node].shards[shard].engine = None;
                    let within = self.draw(50);
                    self.after_a_while(node, within, Input::EngineStopped { shard });
                }
                ShardOutput::AnswerRelease(answer) => {
                    if let Some((by, ticket)) = self.nodes[node].shards[shard].asker.take() {
                        self.between(node, by, Input::Released { shard, ticket, answer });
                    }
                }
                ShardOutput::Stopped(_) => {
                    let it = &mut self.nodes[node].shards[shard];
                    (it.engine, it.note) = (None, None);
                }
            }
        }
    }

    fn ask(&mut self, node: NodeNumber, shard: usize, ticket: u64, question: Question) {
        match question {
            Question::Restore => {
                let replica = self.nodes[node].restore(shard, self.logs[shard]);
                let answer = Answer::Restored(Box::new(replica));
                let within = 10 + self.draw(300);
                self.after_a_while(node, within, Input::Answer { shard, ticket, answer });
            }
            Question::Entries { from } => self.call(node, Call::Entries { shard, from, ticket }),
            Question::Tail => self.call(node, Call::Tail { shard, ticket }),
            Question::Lease { node: of } => {
                self.call(node, Call::Lease { shard, node: of, ticket });
            }
            Question::Release { node: of } => {
                let of = self.nodes.iter().position(|it| it.name == of);
                if let Some(of) = of {
                    self.between(node, of, Input::Release { shard, by: node, ticket });
                }
            }
            Question::Append { at, bytes } => {
                let append = self.begin_append(node, shard, at, bytes);
                self.nodes[node].shards[shard].note = Some((append, ticket));
            }
        }
    }
}

//! The thin shell of a simulated node: it passes inputs to the rules and carries out their outputs.

use postrider_log::Kind;

use super::World;
use super::call::{Call, Input, NodeNumber, Snapshot};
use crate::coordination::skew::Sighting;
use crate::coordinator::{CoordinatorWrite, coordinate};
use crate::name::NodeName;
use crate::placement::{Bounds, free_moves, moves_left};
use crate::planted::Planted;
use crate::shard::{Answer, Question, Role, ShardInput, ShardOutput, ShardState};
use crate::tenure::{TenureInput, TenureOutput};

/// The maximum number of shards that move at a time.
pub(super) const MOVES: usize = 2;

impl World {
    /// Processes an event at a running node.
    pub(super) fn happens(&mut self, node: NodeNumber, input: Input) {
        match input {
            Input::Tick => self.tick(node),
            Input::ShardTick => self.shard_tick(node),
            Input::Tenure(input) => self.tenure(node, &input),
            Input::Key(key) => self.tenure(node, &TenureInput::Found(key)),
            Input::Snapshot(read) => self.snapshot(node, *read),
            Input::Answer { shard, ticket, answer } => {
                self.step(node, shard, ShardInput::Answered(ticket, answer));
            }
            Input::Heard { shard, append, attempt, heard } => {
                self.heard(node, shard, append, attempt, heard);
            }
            Input::Restore { shard, ticket } => self.restore(node, shard, ticket),
            Input::Stored { shard, epoch, archive } => self.stored(node, shard, epoch, *archive),
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
            Input::EngineTick { shard, epoch } => self.engine_tick(node, shard, epoch),
            Input::HandOver { shard, epoch, message } => {
                self.hand_over(node, shard, epoch, message);
            }
            Input::Outcome { shard, epoch, message } => self.outcome(node, shard, epoch, message),
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
        // The thread that checks the deadline may come late; nothing may depend on it.
        let calm_in = self.calm_from.saturating_sub(self.now);
        let is_late = self.draw(30) == 0;
        let pause = if is_late { calm_in.clamp(200, 4_000) } else { 200 + self.draw(200) };
        self.after_a_while(node, pause, Input::ShardTick);
        let agrees = self.clock_agrees(node);
        for shard in 0..self.streams.len() {
            self.step(node, shard, ShardInput::ClockAgrees(agrees));
            self.step(node, shard, ShardInput::Tick);
        }
    }

    fn clock_agrees(&self, node: NodeNumber) -> bool {
        let it = &self.nodes[node];
        it.clocks.may_claim(it.boot(self.now), it.wall(self.now))
    }

    fn tenure(&mut self, node: NodeNumber, input: &TenureInput) {
        let now = self.nodes[node].tenure_clock(self.now);
        let outputs = self.nodes[node].tenure.step(now, input);
        for output in outputs {
            match output {
                TenureOutput::Write { renewal, revision } => {
                    let value = self.nodes[node].value(renewal, self.now);
                    self.call(node, Call::Renew { revision, value });
                }
                TenureOutput::Read => self.call(node, Call::ReadKey),
                // Each shard checks its term with the tick; a request does so before.
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

    fn snapshot(&mut self, node: NodeNumber, Snapshot { view, nodes }: Snapshot) {
        let me = self.nodes[node].name.clone();
        let others = nodes.iter().filter(|(name, _)| *name != me).map(|(name, it)| Sighting {
            node: name.clone(),
            renewal: it.renewal,
            wall_ms: it.wall_ms,
        });
        let boot = self.nodes[node].boot(self.now);
        self.nodes[node].clocks.read(boot, &others.collect::<Vec<_>>());
        let agrees = self.clock_agrees(node);
        let (assignment, _) = view.assignment.clone().unwrap_or_default();
        let owns = |shard: u16, owner: &NodeName| {
            nodes.iter().any(|(name, it)| name == owner && it.owned & (1 << shard) != 0)
        };
        let moves = match self.options.planted {
            Some(Planted::MovesNotCounted) => MOVES,
            _ => moves_left(&view.nodes, &assignment, owns, MOVES),
        };
        let free = free_moves(&view.nodes, &assignment, owns, MOVES);
        let shards = self.streams.len() as u16;
        let bounds = Bounds { shards, standbys: 1, moves, free };
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
        for (shard, placed) in assignment.iter().enumerate() {
            let rank = placed.standbys.iter().position(|it| *it == me);
            let role = match rank {
                _ if placed.owner.as_ref() == Some(&me) => Role::Owner,
                Some(rank) => Role::Standby(rank as u32),
                None => Role::Nothing,
            };
            self.step(node, shard, ShardInput::ClockAgrees(agrees));
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

    /// Passes an input to a shard's life, and carries out its outputs.
    pub(super) fn step(&mut self, node: NodeNumber, shard: usize, input: ShardInput) {
        let moment = self.nodes[node].moment(shard, self.now);
        let outputs = self.nodes[node].shards[shard].shard.step(moment, input);
        for output in outputs {
            self.trace(|| format!("node {node} shard {shard}: {output:?}"));
            match output {
                ShardOutput::Ask(ticket, question) => self.ask(node, shard, ticket, question),
                ShardOutput::Apply(entry) => {
                    let is_group = entry.header.kind == Kind::Group;
                    let body = is_group.then(|| entry.body());
                    let it = &mut self.nodes[node].shards[shard];
                    it.view.apply(entry.bytes, body.as_deref(), entry.header.time_ms);
                }
                ShardOutput::StartEngine { epoch } => self.start_engine(node, shard, epoch),
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
                let within = 10 + self.draw(300);
                self.after_a_while(node, within, Input::Restore { shard, ticket });
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
            // No repair runs in a simulation.
            Question::Repaired => {}
            Question::Append { at, bytes } => {
                if self.nodes[node].shards[shard].shard.state() == ShardState::Claiming {
                    self.judge.claims(&self.nodes, node, self.now);
                }
                let append = self.begin_append(node, shard, at, bytes);
                self.nodes[node].shards[shard].note = Some((append, ticket));
            }
        }
    }
}

//! The world of a simulation: virtual time, the network, the servers and the clients.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use postrider_log::LogId;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::call::{Ask, Call, Event, Input, NodeNumber, Request, Value};
use super::judge::{Judge, Violation};
use super::node::Node;
use super::script::Fault;
use super::server::Stream;
use super::{Options, Summary};
use crate::bucket::Bucket;
use crate::coordinator::BucketView;
use crate::placement::Candidate;
use crate::planted::Planted;
use crate::settle::Heard;
use crate::shard::Answer;
use crate::tenure::{NodeKey, TenureInput, Terms};

/// After the last fault every shard is owned again within a lease and this.
const OWNED_WITHIN_MS: u64 = 5_000;

/// Everything of one run.
pub(crate) struct World {
    pub(super) options: Options,
    rng: SmallRng,
    pub(super) now: u64,
    queue: BinaryHeap<Reverse<(u64, u32, u64)>>,
    events: std::collections::HashMap<u64, Event>,
    numbers: u64,
    pub(super) nodes: Vec<Node>,
    pub(super) streams: Vec<Stream>,
    pub(super) logs: Vec<LogId>,
    bucket: Bucket<Value>,
    pub(super) faults: Vec<Fault>,
    /// Neither the log nor the bucket answers until then.
    pub(super) silent_until: u64,
    pub(super) calm_from: u64,
    codes: u32,
    pub(super) judge: Judge,
}

impl World {
    pub(super) fn new(options: Options) -> Self {
        let mut rng = SmallRng::seed_from_u64(options.seed);
        let count = rng.random_range(2..=4);
        let shards = rng.random_range(1..=2);
        let logs: Vec<_> = (0..shards).map(|number| LogId([number as u8 + 1; 16])).collect();
        let mut node = |number| {
            let (rate, offset) = (rng.random_range(-140..=140), rng.random_range(0..1_000_000));
            Node::new(number, &logs, rate, offset, options.planted)
        };
        let nodes = (0..count).map(&mut node).collect();
        let mut world = Self {
            options,
            rng,
            now: 0,
            queue: BinaryHeap::new(),
            events: std::collections::HashMap::new(),
            numbers: 0,
            nodes,
            streams: (0..shards).map(|_| Stream::default()).collect(),
            logs,
            bucket: Bucket::default(),
            faults: Vec::new(),
            silent_until: 0,
            calm_from: 0,
            codes: 0,
            judge: Judge::default(),
        };
        for node in 0..count {
            let within = world.draw(500);
            world.after_a_while(node, within, Input::Tick);
            world.after_a_while(node, within, Input::ShardTick);
        }
        world.write_script();
        world.later(1_000, Event::Client);
        world
    }

    /// A number below `below`.
    pub(super) fn draw(&mut self, below: u64) -> u64 {
        self.rng.random_range(0..below.max(1))
    }

    pub(super) fn told(&self, what: impl Fn() -> String) {
        if self.options.is_told {
            println!("{:>6} {}", self.now, what());
        }
    }

    pub(super) fn later(&mut self, within: u64, event: Event) {
        self.numbers += 1;
        let order = self.rng.random();
        self.queue.push(Reverse((self.now + within, order, self.numbers)));
        self.events.insert(self.numbers, event);
    }

    pub(super) fn after_a_while(&mut self, node: NodeNumber, within: u64, input: Input) {
        let life = self.nodes[node].life;
        self.later(within, Event::At { node, life, input });
    }

    /// Runs until every shard must be owned again.
    pub(super) fn run(&mut self) -> Result<(), Violation> {
        let end = self.calm_from + Terms::DEFAULT.lease_ms + OWNED_WITHIN_MS;
        while let Some(Reverse((at, _, number))) = self.queue.pop() {
            if at > end {
                break;
            }
            self.now = at;
            let Some(event) = self.events.remove(&number) else { continue };
            self.one(event);
            if let Some(found) = self.judge.found.take() {
                return Err(found);
            }
        }
        self.now = end;
        Ok(())
    }

    pub(super) fn judge(&mut self) -> Result<Summary, Violation> {
        for (shard, stream) in self.streams.iter().enumerate() {
            self.judge.end(shard, self.logs[shard], stream, &self.nodes, self.now)?;
        }
        Ok(self.judge.summary)
    }

    fn one(&mut self, event: Event) {
        match event {
            Event::At { node, life, input } => {
                let it = &self.nodes[node];
                if !it.is_alive || it.life != life {
                    return;
                }
                if self.now < it.paused_until {
                    // What waited comes in any order when it runs again.
                    let within = it.paused_until - self.now + self.draw(3);
                    self.later(within, Event::At { node, life, input });
                    return;
                }
                self.happens(node, input);
            }
            Event::Called { node, life, call } => self.serve(node, life, call),
            Event::Client => self.client(),
            Event::Fault(number) => self.begin_fault(number),
            Event::Heal(number) => self.end_fault(number),
        }
    }

    /// How long messages of one sending are under way: none is lost, two is a duplicate.
    fn ways(&mut self) -> Vec<u64> {
        let usual = 1 + self.draw(20);
        if self.now >= self.calm_from {
            return vec![usual];
        }
        match self.draw(100) {
            0 | 1 => Vec::new(),
            2 | 3 => vec![usual, usual + self.draw(2_000)],
            4 | 5 => vec![500 + self.draw(6_000)],
            _ => vec![usual],
        }
    }

    /// A node calls the log or the bucket.
    pub(super) fn call(&mut self, node: NodeNumber, call: Call) {
        if self.nodes[node].is_cut {
            return;
        }
        let life = self.nodes[node].life;
        for within in self.ways() {
            self.later(within, Event::Called { node, life, call: call.clone() });
        }
    }

    fn reply(&mut self, node: NodeNumber, life: u32, input: Input) {
        if self.nodes[node].is_cut {
            return;
        }
        // A duplicate is as a late one: what was asked is answered already.
        if let Some(within) = self.ways().pop() {
            self.later(within, Event::At { node, life, input });
        }
    }

    /// A node talks to another.
    pub(super) fn between(&mut self, from: NodeNumber, to: NodeNumber, input: Input) {
        if self.nodes[from].is_cut || self.nodes[to].is_cut {
            return;
        }
        let within = self.ways().pop();
        if let Some(within) = within {
            self.after_a_while(to, within, input);
        }
    }

    fn serve(&mut self, node: NodeNumber, life: u32, call: Call) {
        if self.now < self.silent_until {
            return;
        }
        let answer = match call {
            Call::Publish { shard, .. }
            | Call::LookUp { shard, .. }
            | Call::Entries { shard, .. }
            | Call::Tail { shard, .. } => self.serve_log(shard, call),
            call => self.serve_bucket(node, call),
        };
        if let Some(input) = answer {
            self.reply(node, life, input);
        }
    }

    /// How many entries of a stream the server that is asked shows.
    fn seen(&mut self, shard: usize) -> usize {
        let draw = self.draw(20_000);
        let (now, planted) = (self.now, self.options.planted);
        let stream = &mut self.streams[shard];
        if planted == Some(Planted::TailFromFollower) {
            if now >= stream.follower.0 {
                stream.follower = (now + draw, stream.entries.len());
            }
            return stream.follower.1;
        }
        if now < stream.stale.0 && draw.is_multiple_of(2) {
            stream.stale.1
        } else {
            stream.entries.len()
        }
    }

    fn serve_log(&mut self, shard: usize, call: Call) -> Option<Input> {
        if self.now < self.streams[shard].silent_until {
            return None;
        }
        let seen = self.seen(shard);
        let is_wrong = self.draw(300) == 0 && self.now < self.calm_from;
        let is_silent = self.now < self.streams[shard].stale.0 && self.draw(2) == 0;
        let stream = &mut self.streams[shard];
        let end = stream.end(seen);
        Some(match call {
            Call::Publish { at, bytes, append, attempt, .. } => {
                if is_silent {
                    return None;
                }
                // A sole writer was once refused for nothing.
                let heard = match !is_wrong && stream.publish(at, &bytes) {
                    true => Heard::Acknowledged,
                    false => Heard::Refused,
                };
                Input::Heard { shard, append, attempt, heard }
            }
            Call::LookUp { at, append, attempt, .. } => {
                let found = stream.read(seen, at).into_iter().next();
                let heard = found.map_or(Heard::Absent { last: end.last }, Heard::Found);
                Input::Heard { shard, append, attempt, heard }
            }
            Call::Entries { from, ticket, .. } => {
                let entries = stream.read(seen, from);
                let answer = Answer::Entries { entries, last: end.last };
                Input::Answer { shard, ticket, answer }
            }
            Call::Tail { ticket, .. } => {
                let answer = Answer::Tail { last: end.last, hash: end.hash };
                Input::Answer { shard, ticket, answer }
            }
            _ => return None,
        })
    }

    fn serve_bucket(&mut self, node: NodeNumber, call: Call) -> Option<Input> {
        let now = self.now;
        let ttl = Some(Terms::DEFAULT.lease_ms);
        let name = self.nodes[node].name.clone();
        Some(match call {
            Call::Renew { renewal, revision, identity } => {
                let value = Value::Node { identity, renewal };
                let key = format!("node.{name}");
                let written = self.bucket.write(now, &key, value, revision, ttl);
                Input::Tenure(match written {
                    Some(revision) => TenureInput::Written { renewal, revision },
                    None => TenureInput::NotWritten { renewal },
                })
            }
            Call::ReadKey => Input::Key(self.key(&format!("node.{name}"))),
            Call::Lease { shard, node, ticket } => {
                let key = self.key(&format!("node.{node}"));
                let answer = Answer::Lease(key.map(|key| key.identity.incarnation));
                Input::Answer { shard, ticket, answer }
            }
            Call::Snapshot => Input::Snapshot(Box::new(self.bucket_view())),
            Call::Lead { revision } => {
                let value = Value::Coordinator(name);
                self.bucket.write(now, "coordinator", value, revision, ttl);
                return None;
            }
            Call::Assign { assignment, revision } => {
                let value = Value::Assignment(assignment);
                self.bucket.write(now, "assignment", value, revision, None);
                return None;
            }
            _ => return None,
        })
    }

    fn key(&self, key: &str) -> Option<NodeKey> {
        let kept = self.bucket.read(self.now, key)?;
        let Value::Node { identity, renewal } = kept.value else { return None };
        Some(NodeKey { revision: kept.revision, identity, renewal })
    }

    fn bucket_view(&self) -> BucketView {
        let named = |node: &Node| self.key(&format!("node.{}", node.name)).is_some();
        let candidate = |node: &Node| Candidate {
            node: node.name.clone(),
            zone: String::new(),
            is_draining: false,
        };
        let nodes = self.nodes.iter().filter(|node| named(node)).map(candidate).collect();
        let coordinator = self.bucket.read(self.now, "coordinator").and_then(|kept| {
            let Value::Coordinator(name) = &kept.value else { return None };
            Some((name.clone(), kept.revision))
        });
        let assignment = self.bucket.read(self.now, "assignment").and_then(|kept| {
            let Value::Assignment(assignment) = &kept.value else { return None };
            Some((assignment.clone(), kept.revision))
        });
        BucketView { nodes, coordinator, assignment }
    }

    /// A client asks something of one or two nodes.
    fn client(&mut self) {
        let within = 20 + self.draw(80);
        self.later(within, Event::Client);
        let shard = self.draw(self.streams.len() as u64) as usize;
        let ask = match self.draw(8) {
            0 | 1 => Ask::Issue,
            2 | 3 => Ask::Verify,
            _ => Ask::Read,
        };
        let code = if ask == Ask::Issue {
            self.codes += 1;
            self.codes
        } else {
            let back = self.draw(12) as u32;
            self.codes.saturating_sub(back)
        };
        let floor = self.judge.floor(shard, code);
        let request = Request { ask, shard, code, floor };
        // An issue goes to one node: its code is drawn once.
        let copies = if ask == Ask::Issue { 1 } else { self.nodes.len() as u64 };
        for _ in 0..copies {
            let node = self.draw(self.nodes.len() as u64) as usize;
            let within = 1 + self.draw(30);
            self.after_a_while(node, within, Input::Client(request));
        }
    }
}

//! The world of a simulation: virtual time, the network, the servers and the clients.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use postrider_log::LogId;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::call::{Ask, Call, Event, Input, NodeNumber, Request, Value};
use super::checkpoints::Archive;
use super::judge::{Judge, Violation};
use super::node::Node;
use super::script::Fault;
use super::server::Stream;
use super::{Options, Summary};
use crate::bucket::Bucket;
use crate::tenure::Terms;

/// The time beyond a lease within which every shard is owned again after the last fault.
const OWNED_WITHIN_MS: u64 = 5_000;

/// The time before that end in which owners are looked for: a shard may move at any moment.
const LOOKED_FOR_MS: u64 = 2_000;
/// The maximum delay, after a pause, of the thread that checks the deadlines.
const WAKES_WITHIN_MS: u64 = 1_500;

/// The first number of messages, behind those of codes.
const MESSAGES_FROM: u32 = 1_000_000;

/// Everything of one run.
pub(crate) struct World {
    pub(super) options: Options,
    rng: SmallRng,
    pub(super) now: u64,
    /// The scheduled events: the time, a drawn order, a number, and the place in `events`.
    queue: BinaryHeap<Reverse<(u64, u32, u32, usize)>>,
    events: Vec<Option<Event>>,
    free: Vec<usize>,
    numbers: u32,
    pub(super) nodes: Vec<Node>,
    pub(super) streams: Vec<Stream>,
    /// The listed archives of each shard, the newest one first.
    pub(super) archives: Vec<Vec<Archive>>,
    pub(super) logs: Vec<LogId>,
    pub(super) bucket: Bucket<Value>,
    pub(super) faults: Vec<Fault>,
    /// The time until which neither the log nor the bucket answers.
    pub(super) silent_until: u64,
    pub(super) calm_from: u64,
    codes: u32,
    messages: u32,
    pub(super) judge: Judge,
}

impl World {
    pub(super) fn new(options: Options) -> Self {
        let mut rng = SmallRng::seed_from_u64(options.seed);
        let count = rng.random_range(2..=4);
        let shards = match rng.random_range(0..16) {
            0 => 6,
            1 => 3,
            drawn => 1 + drawn % 2,
        };
        let logs: Vec<_> = (0..shards).map(|number| LogId([number as u8 + 1; 16])).collect();
        let mut node = |number| {
            let clocks = (
                rng.random_range(-140..=140),
                rng.random_range(0..1_000_000),
                rng.random_range(-300..=300),
            );
            Node::new(number, &logs, clocks, options.planted)
        };
        let nodes = (0..count).map(&mut node).collect();
        let mut world = Self {
            options,
            rng,
            now: 0,
            queue: BinaryHeap::new(),
            events: Vec::new(),
            free: Vec::new(),
            numbers: 0,
            nodes,
            streams: (0..shards).map(|_| Stream::default()).collect(),
            archives: (0..shards).map(|_| Vec::new()).collect(),
            logs,
            bucket: Bucket::default(),
            faults: Vec::new(),
            silent_until: 0,
            calm_from: 0,
            codes: 0,
            messages: 0,
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

    /// Draws a number below `below`.
    pub(super) fn draw(&mut self, below: u64) -> u64 {
        self.rng.random_range(0..below.max(1))
    }

    pub(super) fn trace(&self, what: impl Fn() -> String) {
        if self.options.is_traced {
            println!("{:>6} {}", self.now, what());
        }
    }

    pub(super) fn later(&mut self, within: u64, event: Event) {
        self.numbers += 1;
        let order = self.rng.random();
        let place = self.free.pop().unwrap_or(self.events.len());
        self.queue.push(Reverse((self.now + within, order, self.numbers, place)));
        match self.events.get_mut(place) {
            Some(there) => *there = Some(event),
            None => self.events.push(Some(event)),
        }
    }

    pub(super) fn after_a_while(&mut self, node: NodeNumber, within: u64, input: Input) {
        let life = self.nodes[node].life;
        self.later(within, Event::At { node, life, input });
    }

    /// Runs until every shard must be owned again.
    pub(super) fn run(&mut self) -> Result<(), Violation> {
        let end = self.calm_from + Terms::DEFAULT.lease_ms + OWNED_WITHIN_MS;
        while let Some(Reverse((at, _, _, place))) = self.queue.pop() {
            if at > end {
                break;
            }
            self.now = at;
            let Some(event) = self.events[place].take() else { continue };
            self.free.push(place);
            if at + LOOKED_FOR_MS >= end && matches!(event, Event::Client) {
                self.judge.looks_for_owners(self.streams.len(), &self.nodes, at);
            }
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
                    // Waiting inputs arrive in any order when the node runs again.
                    let mut within = it.paused_until - self.now + self.draw(3);
                    if matches!(input, Input::ShardTick) && self.draw(2) == 0 {
                        within += self.draw(WAKES_WITHIN_MS);
                    }
                    self.later(within, Event::At { node, life, input });
                    return;
                }
                self.happens(node, input);
            }
            Event::Called { node, life, sent, call } => self.serve(node, life, sent, call),
            Event::Client => self.client(),
            Event::Fault(number) => self.begin_fault(number),
            Event::Heal(number) => self.end_fault(number),
        }
    }

    /// Draws the delays of the copies of a message: none is a loss, two are a duplicate.
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

    /// Sends a node's call to the log or the bucket.
    pub(super) fn call(&mut self, node: NodeNumber, call: Call) {
        let it = &self.nodes[node];
        if it.is_mute || (it.has_no_bucket && !call.is_of_log()) {
            return;
        }
        let life = it.life;
        for within in self.ways() {
            self.later(within, Event::Called { node, life, sent: self.now, call: call.clone() });
        }
    }

    pub(super) fn reply(&mut self, node: NodeNumber, life: u32, slow: u64, input: Input) {
        if self.nodes[node].is_deaf {
            return;
        }
        // A duplicate is like a late message: the question is answered already.
        if let Some(within) = self.ways().pop() {
            self.later(slow + within, Event::At { node, life, input });
        }
    }

    /// Sends a message from one node to another.
    pub(super) fn between(&mut self, from: NodeNumber, to: NodeNumber, input: Input) {
        if self.nodes[from].is_mute || self.nodes[to].is_deaf {
            return;
        }
        let within = self.ways().pop();
        if let Some(within) = within {
            self.after_a_while(to, within, input);
        }
    }

    /// Sends a client's request to one or two nodes.
    fn client(&mut self) {
        let within = 20 + self.draw(80);
        self.later(within, Event::Client);
        let shard = self.draw(self.streams.len() as u64) as usize;
        let ask = match self.draw(12) {
            0 | 1 => Ask::Issue,
            2 | 3 => Ask::Verify,
            4 | 5 => Ask::Take,
            6 => Ask::Message,
            _ => Ask::Read,
        };
        let code = match ask {
            Ask::Issue => {
                self.codes += 1;
                self.codes
            }
            Ask::Message => {
                self.messages += 1;
                MESSAGES_FROM + self.messages
            }
            Ask::Verify | Ask::Read | Ask::Take => {
                let back = self.draw(12) as u32;
                self.codes.saturating_sub(back)
            }
        };
        let floor = self.judge.floor(shard, code);
        let request = Request { ask, shard, code, floor };
        // A new code or message goes to one node: its number is drawn once.
        let is_new = matches!(ask, Ask::Issue | Ask::Message);
        let copies = if is_new { 1 } else { self.nodes.len() as u64 };
        for _ in 0..copies {
            let node = self.draw(self.nodes.len() as u64) as usize;
            let within = 1 + self.draw(30);
            self.after_a_while(node, within, Input::Client(request));
        }
    }
}

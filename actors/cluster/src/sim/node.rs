//! A node of a simulation: its clocks, its tenure, its shards, and the remains after a kill.

use postrider_log::LogId;

use super::append::Append;
use super::call::{NodeNumber, NodeValue};
use super::engine::{Engine, View};
use crate::coordination::skew::Clocks;
use crate::coordinator::BucketView;
use crate::name::{Identity, NodeName};
use crate::planted::Planted;
use crate::replica::Replica;
use crate::shard::{Moment, Shard, ShardState};
use crate::tenure::{Tenure, Terms};

/// The time after the last fault in which all nodes learn the true state of a node.
const STEADY_MS: u64 = 8_000;
/// The wall clock at the start of a run; it may be set back by some hours.
const WALL_BEGINS_MS: u64 = 20_000_000;

/// One shard of a node.
#[derive(Debug)]
pub(super) struct ShardNode {
    pub(super) shard: Shard,
    pub(super) view: View,
    pub(super) engine: Option<Engine>,
    /// The claim or handoff that is being appended, with its ticket.
    pub(super) note: Option<(Append, u64)>,
    /// The node that waits for the answer to its request.
    pub(super) asker: Option<(NodeNumber, u64)>,
}

impl ShardNode {
    /// Returns whether the shard's own claim is being appended.
    pub(super) fn is_claiming(&self) -> bool {
        self.note.is_some() && self.shard.state() == ShardState::Claiming
    }
}

/// One node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) number: NodeNumber,
    pub(super) name: NodeName,
    pub(super) is_alive: bool,
    /// The number of the start, which rises with each one.
    pub(super) life: u32,
    pub(super) identity: Identity,
    /// Set if no message of the node arrives anywhere. The next field: set if none arrives at it.
    pub(super) is_mute: bool,
    pub(super) is_deaf: bool,
    /// Set if the bucket does not hear the node, although the log does.
    pub(super) has_no_bucket: bool,
    pub(super) is_draining: bool,
    /// The time since which nothing has failed at the node.
    pub(super) steady_since: u64,
    pub(super) paused_until: u64,
    /// The time until which answers of the log are delayed.
    pub(super) late_until: u64,
    /// The difference in the rate of its clock, in thousandths.
    pub(super) rate: i64,
    pub(super) offset: u64,
    /// The fixed difference of its wall clock.
    pub(super) skew: i64,
    /// The sum of the jumps of its wall clock.
    pub(super) jumps: i64,
    pub(super) tenure: Tenure,
    /// The term of the tenure that a timer saw last.
    pub(super) flag: Option<u64>,
    pub(super) shards: Vec<ShardNode>,
    pub(super) view: BucketView,
    pub(super) clocks: Clocks,
    pub(super) planted: Option<Planted>,
    pub(super) appends: u64,
}

impl Node {
    pub(super) fn new(
        number: NodeNumber,
        logs: &[LogId],
        (rate, offset, skew): (i64, u64, i64),
        planted: Option<Planted>,
    ) -> Self {
        let name = NodeName::new(&format!("n{number}")).unwrap();
        let directory = [number as u8 + 1; 16];
        let identity = Identity { directory, incarnation: [0; 16] };
        let mut node = Self {
            number,
            name,
            is_alive: false,
            life: 0,
            identity,
            is_mute: false,
            is_deaf: false,
            has_no_bucket: false,
            is_draining: false,
            steady_since: 0,
            paused_until: 0,
            late_until: 0,
            rate,
            offset,
            skew,
            jumps: 0,
            tenure: Tenure::new(Terms::DEFAULT, identity),
            flag: None,
            shards: Vec::new(),
            view: BucketView::default(),
            clocks: Clocks::default(),
            planted,
            appends: 0,
        };
        node.start(logs, |_| 0);
        node
    }

    /// Starts a process over the part of each shard that the disk has kept.
    pub(super) fn start(&mut self, logs: &[LogId], kept: impl Fn(usize) -> usize) {
        self.life += 1;
        self.is_alive = true;
        self.identity.incarnation = [self.life as u8; 16];
        let mut terms = Terms::DEFAULT;
        if self.planted == Some(Planted::NoMargin) {
            terms.margin_ms = 0;
        }
        self.tenure = Tenure::new(terms, self.identity);
        self.flag = None;
        self.clocks = Clocks::default();
        let disks: Vec<_> = self.shards.drain(..).map(|it| it.view.entries).collect();
        for (number, log) in logs.iter().enumerate() {
            let mut disk = disks.get(number).cloned().unwrap_or_default();
            disk.truncate(kept(disk.len()));
            let mut shard = Shard::new(self.name.clone(), self.identity, *log, number as u16);
            shard.plant(self.planted);
            let view = View { entries: disk, ..View::default() };
            let (engine, note, asker) = (None, None, None);
            self.shards.push(ShardNode { shard, view, engine, note, asker });
        }
    }

    /// Opens the replica from the disk, as far as it is one chain.
    pub(super) fn opened(&mut self, shard: usize, log: LogId) -> Replica {
        let mut replica = Replica::empty(log, shard as u16);
        replica.planted = self.planted;
        let mut view = View::default();
        for bytes in std::mem::take(&mut self.shards[shard].view.entries) {
            let Ok(entry) = replica.take(bytes.clone()) else { break };
            let body = (entry.header.kind == postrider_log::Kind::Group).then(|| entry.body());
            view.apply(bytes, body.as_deref(), entry.header.time_ms);
        }
        self.shards[shard].view = view;
        replica
    }

    /// Returns the clock that counts on while the machine sleeps, and never jumps.
    pub(super) fn boot(&self, now: u64) -> u64 {
        self.offset + now + now * self.rate.unsigned_abs() / 1_000 * u64::from(self.rate > 0)
            - now * self.rate.unsigned_abs() / 1_000 * u64::from(self.rate < 0)
    }

    /// Returns the clock by which the tenure is measured.
    pub(super) fn tenure_clock(&self, now: u64) -> u64 {
        let wall = self.planted == Some(Planted::TenureOnWallClock);
        self.boot(now).saturating_add_signed(if wall { self.jumps } else { 0 })
    }

    /// Returns the term of the tenure that the node sees when a request arrives.
    pub(super) fn term(&self, now: u64) -> Option<u64> {
        let term = match self.planted {
            Some(Planted::TenureAsFlag) => self.flag,
            _ => self.tenure.term(self.tenure_clock(now)),
        };
        let outlives = self.planted == Some(Planted::TermOutlivesKey);
        term.map(|term| if outlives { 1 } else { term })
    }

    /// Returns the wall clock, which people set.
    pub(super) fn wall(&self, now: u64) -> u64 {
        (WALL_BEGINS_MS + now).saturating_add_signed(self.skew + self.jumps)
    }

    /// Returns the engine time of a shard: that of its engine, or that with which one would start.
    pub(super) fn engine_ms(&self, shard: usize, now: u64) -> u64 {
        let it = &self.shards[shard];
        let (wall, boot) = (self.wall(now), self.boot(now));
        match &it.engine {
            Some(engine) => engine.began.0 + boot.saturating_sub(engine.began.1),
            None if self.planted == Some(Planted::TimeGoesBack) => wall,
            None => wall.max(it.view.last_ms),
        }
    }

    pub(super) fn moment(&self, shard: usize, now: u64) -> Moment {
        let engine_ms = self.engine_ms(shard, now);
        Moment { now: self.boot(now), term: self.term(now), engine_ms }
    }

    /// Returns whether the node owns the shard, and may answer.
    pub(super) fn owns(&self, shard: usize, now: u64) -> bool {
        let owned = self.shards[shard].shard.owned_in();
        self.is_alive && owned.is_some() && owned == self.term(now)
    }

    /// Returns whether a message may leave the process for a shard, in this epoch.
    pub(super) fn may_hand_over(&self, shard: usize, epoch: u64, now: u64) -> bool {
        let engine = self.shards[shard].engine.as_ref().filter(|it| it.epoch == epoch);
        let unchecked = self.planted == Some(Planted::HandedOverUnchecked);
        engine.is_some() && (unchecked || self.is_owner(shard, epoch, now))
    }

    /// Returns whether the engine of this epoch may act.
    pub(super) fn is_owner(&self, shard: usize, epoch: u64, now: u64) -> bool {
        let engine = self.shards[shard].engine.as_ref().filter(|it| it.epoch == epoch);
        engine.is_some_and(|it| it.term == self.term(now))
    }

    pub(super) const fn cut(&mut self, is_mute: bool, is_deaf: bool) {
        (self.is_mute, self.is_deaf) = (is_mute, is_deaf);
    }

    /// Returns whether the node is cut off in any direction.
    pub(super) const fn is_cut(&self) -> bool {
        self.is_mute || self.is_deaf
    }

    /// Returns whether nothing has failed at the node for so long that others know its clock.
    pub(super) fn is_steady(&self, now: u64) -> bool {
        let reaches = !self.is_cut() && !self.has_no_bucket;
        let runs = self.is_alive && reaches && now >= self.paused_until;
        runs && now > self.steady_since + STEADY_MS
    }

    /// Returns whether the node saw the other's key when it looked last.
    pub(super) fn knows(&self, other: &Self) -> bool {
        self.view.nodes.iter().any(|it| it.node == other.name)
    }

    /// Returns the value that the node writes to its key.
    pub(super) fn value(&self, renewal: u64, now: u64) -> NodeValue {
        let owns = |shard: &usize| self.shards[*shard].shard.owned_in().is_some();
        NodeValue {
            identity: self.identity,
            renewal,
            wall_ms: self.wall(now),
            is_draining: self.is_draining,
            owned: (0..self.shards.len()).filter(owns).map(|shard| 1 << shard).sum(),
        }
    }
}

//! A node of a simulation: its clocks, its tenure, its shards, and what a kill leaves of them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use postrider_log::LogId;

use super::append::Append;
use super::call::{Ask, NodeNumber, Request};
use super::judge::changes;
use crate::coordinator::BucketView;
use crate::name::{Identity, NodeName};
use crate::planted::Planted;
use crate::replica::Replica;
use crate::shard::{Moment, Shard};
use crate::tenure::{Tenure, Terms};

/// The records of one shard, as far as they are applied.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    pub(super) entries: Vec<Bytes>,
    /// 1 for an issued code, 2 for a verified one.
    pub(super) codes: BTreeMap<u32, u8>,
}

impl View {
    pub(super) fn apply(&mut self, bytes: Bytes, body: Option<&[u8]>) {
        for (ask, code) in body.into_iter().flat_map(changes) {
            let known = self.codes.entry(code).or_default();
            *known = (*known).max(if ask == Ask::Issue { 1 } else { 2 });
        }
        self.entries.push(bytes);
    }
}

/// What runs while a shard is owned.
#[derive(Debug, Default)]
pub(super) struct Engine {
    pub(super) epoch: u64,
    /// Requests that wait for the next group.
    pub(super) queue: Vec<Request>,
    /// The group that is being appended.
    pub(super) flight: Option<(Append, Vec<Request>)>,
    /// Codes with a verification under way.
    pub(super) verifying: BTreeSet<u32>,
    pub(super) is_closed: bool,
}

/// One shard of a node.
#[derive(Debug)]
pub(super) struct ShardNode {
    pub(super) shard: Shard,
    pub(super) view: View,
    pub(super) engine: Option<Engine>,
    /// A claim or a handoff that is being appended, with its ticket.
    pub(super) note: Option<(Append, u64)>,
    /// The node that waits for the answer to its request.
    pub(super) asker: Option<(NodeNumber, u64)>,
}

/// One node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) number: NodeNumber,
    pub(super) name: NodeName,
    pub(super) is_alive: bool,
    /// It rises with each start.
    pub(super) life: u32,
    pub(super) identity: Identity,
    pub(super) is_cut: bool,
    pub(super) paused_until: u64,
    /// How much faster its clock runs, in parts of a thousand.
    pub(super) rate: i64,
    pub(super) offset: u64,
    /// How much its wall clock was set back or forth.
    pub(super) jumps: i64,
    pub(super) tenure: Tenure,
    /// What a timer last said of the tenure.
    pub(super) flag: Option<u64>,
    pub(super) shards: Vec<ShardNode>,
    pub(super) view: BucketView,
    pub(super) planted: Option<Planted>,
    pub(super) appends: u64,
}

impl Node {
    pub(super) fn new(
        number: NodeNumber,
        logs: &[LogId],
        rate: i64,
        offset: u64,
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
            is_cut: false,
            paused_until: 0,
            rate,
            offset,
            jumps: 0,
            tenure: Tenure::new(Terms::DEFAULT, identity),
            flag: None,
            shards: Vec::new(),
            view: BucketView::default(),
            planted,
            appends: 0,
        };
        node.start(logs, |_| 0);
        node
    }

    /// Starts a process over what the disk has kept of each shard.
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

    /// Opens the replica: what is on the disk, as far as it is one chain.
    pub(super) fn restore(&mut self, shard: usize, log: LogId) -> Replica {
        let mut replica = Replica::empty(log, shard as u16);
        replica.planted = self.planted;
        let mut view = View::default();
        for bytes in std::mem::take(&mut self.shards[shard].view.entries) {
            let Ok(entry) = replica.take(bytes.clone()) else { break };
            let body = (entry.header.kind == postrider_log::Kind::Group).then(|| entry.body());
            view.apply(bytes, body.as_deref());
        }
        self.shards[shard].view = view;
        replica
    }

    /// The clock that runs on while the machine sleeps, and never jumps.
    pub(super) fn boot(&self, now: u64) -> u64 {
        self.offset + now + now * self.rate.unsigned_abs() / 1_000 * u64::from(self.rate > 0)
            - now * self.rate.unsigned_abs() / 1_000 * u64::from(self.rate < 0)
    }

    /// The clock by which the tenure is measured.
    pub(super) fn tenure_clock(&self, now: u64) -> u64 {
        let wall = self.planted == Some(Planted::TenureOnWallClock);
        self.boot(now).saturating_add_signed(if wall { self.jumps } else { 0 })
    }

    /// The term of the tenure, as the node sees it when a request comes.
    pub(super) fn term(&self, now: u64) -> Option<u64> {
        let term = match self.planted {
            Some(Planted::TenureAsFlag) => self.flag,
            _ => self.tenure.term(self.tenure_clock(now)),
        };
        let outlives = self.planted == Some(Planted::TermOutlivesKey);
        term.map(|term| if outlives { 1 } else { term })
    }

    pub(super) fn moment(&self, now: u64) -> Moment {
        Moment { now: self.boot(now), term: self.term(now), engine_ms: self.boot(now) }
    }

    /// Whether it owns the shard, and may answer.
    pub(super) fn owns(&self, shard: usize, now: u64) -> bool {
        let owned = self.shards[shard].shard.owned_in();
        self.is_alive && owned.is_some() && owned == self.term(now)
    }
}

//! The judge: answers to clients must be true of the log, and no node may continue over a loss.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use postrider_log::{Chain, Entry, EntryHash, Header, Kind, LogId, Position};

use super::Summary;
use super::call::{Ask, NodeNumber, Request};
use super::engine::{View, WINDOW_ROOM};
use super::limits::BucketReference;
use super::node::Node;
use super::ops::{Change, changes};
use super::server::Stream;
use super::shell::MOVES;
use crate::name::NodeName;
use crate::placement::{Assignment, Placed};
use crate::shard::ShardState;

/// A forbidden behaviour of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The judgement, by which planted faults are counted.
    pub(crate) judgement: &'static str,
    /// The description of the behaviour.
    pub(crate) what: String,
}

/// The difference above which clocks differ for every node.
///
/// It is the sum of the rule's bound, the delay of a renewal, and the differences of clock rates.
const CLOCKS_DIFFER_MS: u64 = 4_000;

fn violation<T>(judgement: &'static str, what: String) -> Result<T, Violation> {
    Err(Violation { judgement, what })
}

/// The facts that clients know of one code.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    is_issued: bool,
    verified: u32,
}

/// The counts in a log of each code and message, and of each window.
#[derive(Debug, Default)]
struct Counts {
    /// The number of times each was issued or accepted, and verified.
    codes: BTreeMap<u32, (u32, u32)>,
    /// The number of times the outcome of a message was unknown.
    unknown: BTreeMap<u32, u32>,
    windows: BTreeMap<u32, u32>,
}

impl Counts {
    fn count(&mut self, change: Change) {
        match change {
            Change::Issue(id) | Change::Accept(id) => self.codes.entry(id).or_default().0 += 1,
            Change::Verify(id) => self.codes.entry(id).or_default().1 += 1,
            Change::Unknown(id) => *self.unknown.entry(id).or_default() += 1,
            Change::Count(window) => *self.windows.entry(window).or_default() += 1,
            Change::Claim(_) | Change::Sent(_) | Change::Save(_) | Change::Stamp(_) => {}
        }
    }
}

/// The answers so far.
#[derive(Debug, Default)]
pub(super) struct Judge {
    buckets: BTreeMap<usize, BucketReference>,
    /// The newest epoch in which an engine was started.
    epochs: BTreeMap<usize, u64>,
    /// The number of times each message was handed over.
    handed_over: BTreeMap<(usize, u32), u32>,
    /// The moves that were started, with the node that shall own the shard.
    on_way: BTreeMap<usize, NodeName>,
    /// The shards that were owned in time.
    owned: BTreeSet<usize>,
    known: BTreeMap<(usize, u32), Known>,
    /// The requests that were answered as certainly not done.
    failed: Vec<(usize, u32, Ask)>,
    pub(super) summary: Summary,
    pub(super) found: Option<Violation>,
}

impl Judge {
    /// Returns the answered state of a code until now.
    pub(super) fn floor(&self, shard: usize, code: u32) -> u8 {
        let known = self.known.get(&(shard, code)).copied().unwrap_or_default();
        if known.verified > 0 { 2 } else { u8::from(known.is_issued) }
    }

    fn note(&mut self, judgement: &'static str, what: String) {
        self.found.get_or_insert(Violation { judgement, what });
    }

    /// Judges an acknowledged write. A log that has lost entries promises clients nothing.
    pub(super) fn acknowledged(&mut self, request: Request, has_lost: bool) {
        self.summary.acknowledged += 1;
        let known = self.known.entry((request.shard, request.code)).or_default();
        match request.ask {
            Ask::Issue | Ask::Message => known.is_issued = true,
            Ask::Verify => known.verified += 1,
            Ask::Read | Ask::Take => {}
        }
        if known.verified > 1 && !has_lost {
            self.note("a code is verified once", format!("{request:?}"));
        }
    }

    /// Records a write that was answered as certainly not done.
    pub(super) fn failed(&mut self, request: Request) {
        self.failed.push((request.shard, request.code, request.ask));
    }

    /// Judges a read that was answered with the node's state of the code.
    pub(super) fn read(&mut self, node: NodeNumber, request: Request, seen: u8, has_lost: bool) {
        self.summary.reads += 1;
        if seen < request.floor && !has_lost {
            let what = format!("node {node} answers {seen} to {request:?}");
            self.note("no read is older than an answered write", what);
        }
    }

    /// Judges that a node learned that another has its place.
    pub(super) fn fenced(&mut self, stream: &Stream, at: Position, bytes: &Bytes) {
        let there = stream.entries.get((at.0 as usize).saturating_sub(1));
        if there.is_none_or(|there| there == bytes) && !stream.has_lost {
            let what = format!("position {at} has {}", there.map_or("nothing", |_| "its entry"));
            self.note("who is fenced has been replaced", what);
        }
    }

    /// Judges the start of an append of a group at a node whose lease may have ended.
    ///
    /// The servers accept it where only the positions fit.
    pub(super) fn appends_late(&mut self, stream: &Stream, at: Position, bytes: &Bytes) {
        let Some(before) = stream.written.last() else { return };
        let fits = Header::decode(bytes).is_ok_and(|own| own.prev == EntryHash::of(before));
        if at.0 == stream.written.len() as u64 + 1 && !fits {
            let what = format!("the entry {at} follows another than the one before it");
            self.note("nobody appends behind what it has not read", what);
        }
    }

    /// Judges a trim of a log up to a position, with these checkpoints listed.
    pub(super) fn trimmed(&mut self, shard: usize, through: Position, listed: &[Position]) {
        self.summary.trims += 1;
        if listed.is_empty() || listed.iter().any(|position| *position < through) {
            let what = format!("shard {shard} through {through}, with {listed:?}");
            self.note("what is trimmed is in every checkpoint", what);
        }
    }

    /// Judges a place of a bucket that was given away, at this virtual time and engine time.
    pub(super) fn taken(&mut self, shard: usize, at: (u64, u64), has_lost: bool) {
        self.summary.taken += 1;
        if !self.buckets.entry(shard).or_default().take(at) && !has_lost {
            self.note("no limit is exceeded", format!("the bucket of shard {shard}"));
        }
    }

    /// Judges the start of an engine over the applied records.
    pub(super) fn started(
        &mut self,
        node: &Node,
        shard: usize,
        epoch: u64,
        view: &View,
        has_lost: bool,
    ) {
        self.epochs.insert(shard, epoch);
        if self.on_way.get(&shard) == Some(&node.name) {
            self.on_way.remove(&shard);
            self.summary.moves += 1;
        }
        let bucket = self.buckets.entry(shard).or_default();
        let forgotten = bucket.change_owner(view.saved_at.into(), view.stamp.into());
        if let Some(at) = forgotten.filter(|_| !has_lost) {
            let what = format!("what was taken at {at}, of shard {shard}");
            self.note("a bucket forgets the last second at most", what);
        }
    }

    /// Judges that a message left the process.
    pub(super) fn handed_over(&mut self, shard: usize, epoch: u64, message: u32, has_lost: bool) {
        self.summary.handed_over += 1;
        *self.handed_over.entry((shard, message)).or_default() += 1;
        let newest = self.epochs.get(&shard).copied().unwrap_or_default();
        if epoch < newest && !has_lost {
            let what = format!("message {message} by epoch {epoch} after {newest} began");
            self.note("nothing leaves a node that was replaced", what);
        }
    }

    /// Judges a claim that a node appends.
    pub(super) fn claims(&mut self, nodes: &[Node], node: NodeNumber, now: u64) {
        let me = &nodes[node];
        let others = || nodes.iter().filter(|it| it.number != node && me.knows(it));
        if !me.is_steady(now) || others().any(|it| !it.is_steady(now)) {
            return;
        }
        let differs = |it: &&Node| it.wall(now).abs_diff(me.wall(now)) > CLOCKS_DIFFER_MS;
        let (all, wrong) = (others().count() + 1, others().filter(differs).count());
        if 2 * wrong >= all && wrong > 0 {
            let what = format!("node {node} differs from {wrong} of {all} nodes");
            self.note("who claims has the time of most nodes", what);
        }
    }

    /// Judges an assignment that the coordinator has written.
    pub(super) fn assigned(
        &mut self,
        before: &[Placed],
        after: &Assignment,
        nodes: &[Node],
        now: u64,
    ) {
        let named = |name: &NodeName| nodes.iter().find(|it| it.name == *name);
        let owner = |shard: usize| after.get(shard).and_then(|it| it.owner.as_ref());
        self.on_way.retain(|shard, to| owner(*shard) == Some(to));
        let count = self.on_way.len();
        for (shard, placed) in before.iter().enumerate() {
            let Some(from) = placed.owner.as_ref().and_then(named) else { continue };
            let Some(to) = owner(shard).filter(|to| **to != from.name) else { continue };
            if from.owns(shard, now) && from.is_steady(now) {
                self.on_way.insert(shard, to.clone());
            }
        }
        if self.on_way.len() > count.max(MOVES) {
            let what = format!("{:?}", self.on_way);
            self.note("two shards move at a time", what);
        }
    }

    /// Removes the moves to a node whose key has expired.
    pub(super) fn key_has_expired(&mut self, node: &NodeName) {
        self.on_way.retain(|_, to| to != node);
    }

    /// Looks for the owners, shortly before the end of the time in which every shard must be owned.
    pub(super) fn looks_for_owners(&mut self, shards: usize, nodes: &[Node], now: u64) {
        for shard in 0..shards {
            if nodes.iter().any(|node| node.owns(shard, now)) {
                self.owned.insert(shard);
            }
        }
    }

    /// Judges a shard's log and its replicas when everything has ended.
    pub(super) fn end(
        &mut self,
        shard: usize,
        log: LogId,
        stream: &Stream,
        nodes: &[Node],
        now: u64,
    ) -> Result<(), Violation> {
        let counts = self.chain(shard, log, stream)?;
        replicas(shard, stream, nodes)?;
        let is_whole = !stream.has_lost && !stream.is_flipped;
        for node in nodes.iter().filter(|node| node.is_alive) {
            let state = node.shards[shard].shard.state();
            self.summary.stopped += usize::from(state == ShardState::Stopped);
            if state == ShardState::Stopped && is_whole {
                let reason = node.shards[shard].shard.stop_reason();
                let what = format!("shard {shard} of node {}: {reason:?}", node.number);
                return violation("only a log that lost something stops a shard", what);
            }
        }
        if !stream.has_lost {
            self.counts(shard, &counts)?;
        }
        let there = |code: u32| counts.codes.get(&code).copied().unwrap_or_default();
        for (_, code, ask) in self.failed.iter().filter(|it| it.0 == shard) {
            let (issued, verified) = there(*code);
            if (*ask != Ask::Verify && issued > 0) || (*ask == Ask::Verify && verified > 0) {
                let what = format!("{ask:?} of code {code} was answered as not done");
                return violation("what was answered as not done is not in the log", what);
            }
        }
        if !is_whole {
            return Ok(());
        }
        for ((_, code), known) in self.known.range((shard, 0)..=(shard, u32::MAX)) {
            let (issued, verified) = there(*code);
            if (known.is_issued && issued == 0) || (known.verified > 0 && verified == 0) {
                let what = format!("code {code}: {known:?}, issued {issued}, verified {verified}");
                return violation("no acknowledged entry is missing", what);
            }
        }
        let owners = nodes.iter().filter(|node| node.owns(shard, now));
        let owners: Vec<_> = owners.map(|node| node.number).collect();
        // A shard that moves at the end was owned shortly before.
        if owners.len() > 1 || !self.owned.contains(&shard) {
            let what = format!("shard {shard} is owned by {owners:?}");
            return violation("every shard has one owner in time", what);
        }
        Ok(())
    }

    /// Judges the contents of a log that has lost nothing.
    fn counts(&self, shard: usize, counts: &Counts) -> Result<(), Violation> {
        for (code, (issued, verified)) in &counts.codes {
            if *issued > 1 || *verified > 1 {
                let what = format!("code {code}: issued {issued}, verified {verified} times");
                return violation("a code is verified once", what);
            }
        }
        for (window, count) in &counts.windows {
            if *count > WINDOW_ROOM {
                let what = format!("window {window} of shard {shard} has {count}");
                return violation("no limit is exceeded", what);
            }
        }
        for ((_, id), times) in self.handed_over.range((shard, 0)..=(shard, u32::MAX)) {
            let unknown = counts.unknown.get(id).copied().unwrap_or_default();
            if *times > unknown + 1 {
                let what = format!("{id} of shard {shard}: {times} times, {unknown} unknown");
                return violation("a message is handed over once unless it is unknown", what);
            }
        }
        Ok(())
    }

    /// Checks that the log is one chain, and counts its changes.
    fn chain(&mut self, shard: usize, log: LogId, stream: &Stream) -> Result<Counts, Violation> {
        let mut chain = Chain::new(log, shard as u16, Position::START, 0, EntryHash::NONE);
        let mut counts = Counts::default();
        let mut time = 0;
        for bytes in &stream.written {
            let checked = Entry::decode(bytes.clone()).map_err(|fault| fault.to_string());
            let checked = checked.and_then(|entry| {
                chain.check_and_push(&entry).map_err(|fault| fault.to_string())?;
                Ok(entry)
            });
            let entry = match checked {
                Ok(entry) => entry,
                // The rest of the log is read as far as it fits.
                Err(_) if stream.has_lost => break,
                Err(fault) => {
                    let what = format!("shard {shard} behind {}: {fault}", chain.last());
                    return violation("the log is one chain", what);
                }
            };
            if entry.header.time_ms < time && !stream.has_lost {
                let what = format!("shard {shard} at {}: {time}", chain.last());
                return violation("engine time does not go back", what);
            }
            time = entry.header.time_ms;
            match entry.header.kind {
                Kind::Claim => self.summary.claims += 1,
                Kind::Handoff => self.summary.handoffs += 1,
                Kind::Checkpoint => {}
                Kind::Group => changes(&entry.body()).for_each(|change| counts.count(change)),
            }
        }
        Ok(counts)
    }
}

/// Checks that every replica that has not stopped holds exactly the written entries from the start.
fn replicas(shard: usize, stream: &Stream, nodes: &[Node]) -> Result<(), Violation> {
    for node in nodes.iter().filter(|node| node.is_alive) {
        let it = &node.shards[shard];
        let state = it.shard.state();
        if matches!(state, ShardState::Stopped | ShardState::Absent | ShardState::Restoring) {
            continue;
        }
        let short = it.shard.is_suspicious();
        for (at, entry) in it.view.entries.iter().enumerate() {
            if stream.written.get(at) != Some(entry) && !short {
                let (number, at) = (node.number, at + 1);
                let what = format!("shard {shard} of node {number} has another entry {at}");
                return violation("who goes on has what the log has", what);
            }
        }
    }
    Ok(())
}

//! What clients were told must be true of the log, and nobody may go on over a loss.

use std::collections::BTreeMap;

use bytes::Bytes;
use postrider_log::{Chain, Entry, EntryHash, Kind, LogId, Position};

use super::Summary;
use super::call::{Ask, NodeNumber, Request};
use super::node::Node;
use super::server::Stream;
use crate::shard::ShardState;

/// What a run did that no run may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The judgement, by which planted faults are counted.
    pub(crate) judgement: &'static str,
    /// What was seen.
    pub(crate) what: String,
}

fn violation<T>(judgement: &'static str, what: String) -> Result<T, Violation> {
    Err(Violation { judgement, what })
}

/// What clients know of one code.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    is_issued: bool,
    verified: u32,
}

/// What was answered so far.
#[derive(Debug, Default)]
pub(super) struct Judge {
    known: BTreeMap<(usize, u32), Known>,
    /// What was answered as surely not done.
    failed: Vec<(usize, u32, Ask)>,
    pub(super) summary: Summary,
    pub(super) found: Option<Violation>,
}

impl Judge {
    /// What was answered of a code until now.
    pub(super) fn floor(&self, shard: usize, code: u32) -> u8 {
        let known = self.known.get(&(shard, code)).copied().unwrap_or_default();
        if known.verified > 0 { 2 } else { u8::from(known.is_issued) }
    }

    fn note(&mut self, judgement: &'static str, what: String) {
        self.found.get_or_insert(Violation { judgement, what });
    }

    /// A write was acknowledged. Of a log that has lost entries nothing is promised to clients.
    pub(super) fn acknowledged(&mut self, request: Request, has_lost: bool) {
        self.summary.acknowledged += 1;
        let known = self.known.entry((request.shard, request.code)).or_default();
        match request.ask {
            Ask::Issue => known.is_issued = true,
            Ask::Verify => known.verified += 1,
            Ask::Read => {}
        }
        if known.verified > 1 && !has_lost {
            self.note("a code is verified once", format!("{request:?}"));
        }
    }

    /// A write was answered as surely not done.
    pub(super) fn failed(&mut self, request: Request) {
        self.failed.push((request.shard, request.code, request.ask));
    }

    /// A read was answered with what the node has of the code.
    pub(super) fn read(&mut self, node: NodeNumber, request: Request, seen: u8, has_lost: bool) {
        self.summary.reads += 1;
        if seen < request.floor && !has_lost {
            let what = format!("node {node} answers {seen} to {request:?}");
            self.note("no read is older than an answered write", what);
        }
    }

    /// A node was told that another has its place.
    pub(super) fn fenced(&mut self, stream: &Stream, at: Position, bytes: &Bytes) {
        let there = stream.entries.get((at.0 as usize).saturating_sub(1));
        if there.is_none_or(|there| there == bytes) && !stream.has_lost {
            let what = format!("position {at} has {}", there.map_or("nothing", |_| "its entry"));
            self.note("who is fenced has been replaced", what);
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
        for (code, (issued, verified)) in counts.iter().filter(|_| !stream.has_lost) {
            if *issued > 1 || *verified > 1 {
                let what = format!("code {code}: issued {issued}, verified {verified} times");
                return violation("a code is verified once", what);
            }
        }
        let there = |code: u32| counts.get(&code).copied().unwrap_or_default();
        for (_, code, ask) in self.failed.iter().filter(|it| it.0 == shard) {
            let (issued, verified) = there(*code);
            if (*ask == Ask::Issue && issued > 0) || (*ask == Ask::Verify && verified > 0) {
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
        if owners.len() != 1 {
            let what = format!("shard {shard} is owned by {owners:?}");
            return violation("every shard has one owner in time", what);
        }
        Ok(())
    }

    /// Checks that the log is one chain, and counts what it says of each code.
    fn chain(
        &mut self,
        shard: usize,
        log: LogId,
        stream: &Stream,
    ) -> Result<BTreeMap<u32, (u32, u32)>, Violation> {
        let mut chain = Chain::new(log, shard as u16, Position::START, 0, EntryHash::NONE);
        let mut counts: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        for bytes in &stream.written {
            let checked = Entry::decode(bytes.clone()).map_err(|fault| fault.to_string());
            let checked = checked.and_then(|entry| {
                chain.check_and_push(&entry).map_err(|fault| fault.to_string())?;
                Ok(entry)
            });
            let entry = match checked {
                Ok(entry) => entry,
                // What is left of it is read as far as it fits.
                Err(_) if stream.has_lost => break,
                Err(fault) => {
                    let what = format!("shard {shard} behind {}: {fault}", chain.last());
                    return violation("the log is one chain", what);
                }
            };
            match entry.header.kind {
                Kind::Claim => self.summary.claims += 1,
                Kind::Handoff => self.summary.handoffs += 1,
                _ => {
                    for (ask, code) in changes(&entry.body()) {
                        let count = counts.entry(code).or_default();
                        let field = if ask == Ask::Issue { &mut count.0 } else { &mut count.1 };
                        *field += 1;
                    }
                }
            }
        }
        Ok(counts)
    }
}

/// Every replica that has not stopped holds what was written, from the beginning and no more.
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

/// The body of a group in a simulation.
pub(super) fn body(requests: &[Request]) -> Vec<u8> {
    let mut body = Vec::with_capacity(requests.len() * 5);
    for request in requests {
        body.push(u8::from(request.ask == Ask::Verify));
        body.extend_from_slice(&request.code.to_be_bytes());
    }
    body
}

/// What such a body changes.
pub(super) fn changes(body: &[u8]) -> impl Iterator<Item = (Ask, u32)> {
    body.chunks_exact(5).map(|it| {
        let ask = if it[0] == 1 { Ask::Verify } else { Ask::Issue };
        (ask, u32::from_be_bytes([it[1], it[2], it[3], it[4]]))
    })
}

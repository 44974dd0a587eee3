//! The whole part of a shard: its base, and the entries that follow it one by one.
//!
//! Entries that the log has lost come from nodes that have kept them.

use std::cmp::Reverse;
use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use postrider_log::{Chain, Commit, Entry, Header, Joiner, LogId, Mark, Position};

use super::RepairError;
use crate::checkpoints::CheckpointRecord;
use crate::log::{Ends, Stream, StreamError};
use crate::name::NodeName;

/// The number of messages that are read at a time.
const READ_AT_ONCE: u64 = 64;

/// Entries that a node has read or written, and has kept beside the log.
///
/// They may be of several branches.
pub trait NodeEntries: Debug + Send + Sync {
    /// Returns the last position that the node has.
    fn last(&self) -> Position;

    /// Returns the entries that the node has at a position.
    fn at(&self, position: Position) -> Vec<Bytes>;
}

/// The base from which a shard starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// The beginning of its log.
    Nothing,
    /// A whole checkpoint.
    Checkpoint(CheckpointRecord),
    /// A backup that ends with this entry.
    Backup(Mark),
}

impl Base {
    /// Returns the mark of the last entry in the base.
    #[must_use]
    pub fn mark(&self) -> Mark {
        match self {
            Self::Nothing => Mark::default(),
            Self::Checkpoint(record) => record.mark(),
            Self::Backup(end) => *end,
        }
    }
}

/// A node that has stopped.
#[derive(Debug, Clone)]
pub(super) struct StoppedNode {
    pub(super) node: NodeName,
    pub(super) epoch: u64,
    pub(super) reason: String,
}

/// The findings about a shard.
#[derive(Debug)]
pub struct Finding {
    /// The base from which it starts.
    pub base: Base,
    /// The last entry of the last commit up to which everything is whole.
    pub whole: Mark,
    /// The last position up to which each entry follows the one before it.
    pub end: Position,
    /// The last position of the log.
    pub last: Position,
    /// The last position that any node is known to have written.
    pub known: Position,
    /// The first position of the log.
    pub first: Position,
    /// The engine time of the last whole entry, in milliseconds; 0 if there is none.
    pub time_ms: u64,
    /// The first and the last position of entries that only nodes have.
    pub from_nodes: Option<(Position, Position)>,
    /// The problems, in words.
    pub problems: Vec<String>,
    /// Set if a repair did not finish, so that no node claims the shard.
    pub is_unfinished: bool,
    /// Set if the log itself is missing.
    pub(super) is_missing: bool,
    /// The first entry of the log that is of another branch than the base.
    pub(super) fork: Option<Position>,
    /// Set if a listed checkpoint is of another branch, or cannot be read.
    pub(super) has_bad_copy: bool,
    /// Set if more may be lost than the positions show.
    pub(super) is_loss_unknown: bool,
    /// The node that serves the shard.
    pub(super) owner: Option<NodeName>,
    /// The nodes that have stopped.
    pub(super) stopped: Vec<StoppedNode>,
    /// The highest known epoch.
    pub(super) epoch: u64,
}

impl Finding {
    /// Returns whether nodes could continue with the existing log and base.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let is_kept = !matches!(self.base, Base::Backup(_)) && !self.has_bad_copy;
        let has_all = self.end == self.last && self.last == self.known && self.from_nodes.is_none();
        has_all && self.leads_on() && is_kept
    }

    /// Returns whether the log continues from the base, as far as the base shows.
    pub(super) fn leads_on(&self) -> bool {
        let at = self.base.mark().position;
        at.next() >= self.first && at <= self.last && self.fork.is_none()
    }

    /// Returns whether the shard needs a repair.
    #[must_use]
    pub fn needs_repair(&self) -> bool {
        // Stopped nodes continue only with a shard that was started again.
        let waits = self.owner.is_none() && !self.stopped.is_empty();
        self.is_unfinished || self.is_missing || !self.is_whole() || waits
    }

    /// Returns whether a repair loses something, or may lose something.
    #[must_use]
    pub fn loses(&self) -> bool {
        self.given_up().is_some() || self.is_loss_unknown
    }

    /// Returns the position behind which entries may be lost that no node reports.
    #[must_use]
    pub fn unknown_behind(&self) -> Option<Position> {
        self.is_loss_unknown.then_some(self.end)
    }

    /// Returns the advice about a shard that needs no repair.
    #[must_use]
    pub fn advice(&self) -> Vec<String> {
        let restart = |it: &StoppedNode| {
            let StoppedNode { node, reason, .. } = it;
            format!("{node} has stopped ({reason}), and another node serves it: restart {node}")
        };
        self.stopped.iter().map(restart).collect()
    }

    /// Returns the rank of the base: a later branch is better, then a longer one.
    pub(super) fn rank(&self) -> (u64, Position) {
        (self.whole.epoch, self.end)
    }

    /// Returns whether there is a base from which the shard can start.
    #[must_use]
    pub fn has_base(&self) -> bool {
        let beginning = Position::START.next();
        let has_log = !self.is_missing && self.first <= beginning;
        let have_nodes = self.from_nodes.is_some_and(|(from, _)| from == beginning);
        self.base != Base::Nothing || has_log || have_nodes
    }

    /// Returns the positions that a repair would give up.
    #[must_use]
    pub fn given_up(&self) -> Option<(Position, Position)> {
        let (from, to) = (self.fork.unwrap_or(self.end.next()), self.last.max(self.known));
        (from <= to).then_some((from, to))
    }
}

/// The entries that nodes have beside the log.
#[derive(Clone, Copy)]
pub(super) struct Beside<'a> {
    pub(super) nodes: &'a [Arc<dyn NodeEntries>],
    /// Set if they precede those of the log.
    ///
    /// An unfinished repair has put its claim at a position that the log had lost.
    pub(super) is_first: bool,
}

impl Beside<'_> {
    const NOTHING: Self = Self { nodes: &[], is_first: false };

    fn at(&self, position: Position) -> impl Iterator<Item = Bytes> {
        self.nodes.iter().flat_map(move |node| node.at(position))
    }
}

/// The possible entries at a position; each is marked with whether the log has it there.
type Candidates = Vec<(bool, Bytes)>;

/// Reads the possible entries at each position, until `visit` returns `false`.
fn entries(
    stream: &dyn Stream,
    beside: Beside<'_>,
    (from, last): (Position, Position),
    visit: &mut dyn FnMut(Position, Candidates) -> bool,
) -> Result<(), StreamError> {
    let mut next = from.0;
    while next <= last.0 {
        let count = READ_AT_ONCE.min(last.0 - next + 1);
        let mut found = stream.messages(next, count)?.into_iter().peekable();
        for at in next..next + count {
            let own = found.next_if(|(sequence, _)| *sequence == at).map(|(_, bytes)| bytes);
            let others = beside.at(Position(at)).filter(|bytes| own.as_ref() != Some(bytes));
            let all = in_order(own.as_ref(), others.collect(), beside.is_first);
            if !visit(Position(at), all) {
                return Ok(());
            }
        }
        next += count;
    }
    Ok(())
}

/// Returns the log's entry before or behind the entries of nodes.
///
/// Of those, the one of the latest epoch is first: an earlier one may be of a branch that was given
/// up.
fn in_order(own: Option<&Bytes>, mut others: Vec<Bytes>, are_first: bool) -> Candidates {
    let epoch = |bytes: &Bytes| Header::decode(bytes).map_or(0, |header| header.epoch);
    others.sort_by_key(|bytes| Reverse(epoch(bytes)));
    let own = own.map(|bytes| (true, bytes.clone()));
    let others = others.into_iter().map(|bytes| (false, bytes));
    if are_first { others.chain(own).collect() } else { own.into_iter().chain(others).collect() }
}

/// Returns the first candidate that follows the chain, and whether the log has it.
///
/// Otherwise returns the reason why the first one does not follow.
fn next_of(chain: &Chain, candidates: Candidates) -> Result<(bool, Entry), String> {
    let mut why = None;
    for (is_own, bytes) in candidates {
        let entry = Entry::decode(bytes).map_err(|fault| fault.to_string());
        let follows = entry.and_then(|entry| {
            chain.check(&entry.header).map_err(|fault| fault.to_string())?;
            Ok(entry)
        });
        match follows {
            Ok(entry) => return Ok((is_own, entry)),
            Err(what) => why.get_or_insert(what),
        };
    }
    Err(why.unwrap_or_else(|| "it is missing".to_owned()))
}

/// Follows the log from the base as far as it goes, with nodes' entries in place of lost ones.
///
/// If `is_missing`, an earlier stream is lost, and nothing in the present one leads anywhere.
pub(super) fn walk(
    stream: &dyn Stream,
    beside: Beside<'_>,
    (log, shard): (LogId, u16),
    base: Base,
    is_missing: bool,
) -> Result<Finding, StreamError> {
    let mut found = Finding::at(base, stream.ends()?, is_missing);
    let (first, last, mark) = (found.first, found.last, found.base.mark());
    if !is_missing {
        found.look_for_fork(stream)?;
    }
    let behind = mark.position.next();
    let leads = behind >= first || beside.at(behind).next().is_some();
    found.explain_base(leads);
    let mut chain = Chain::new(log, shard, mark.position, mark.epoch, mark.hash);
    let mut fits = leads && found.fork.is_none();
    let from = if leads { behind } else { first };
    let to = beside.nodes.iter().map(|node| node.last()).fold(last, Position::max);
    entries(stream, beside, (from, to), &mut |at, all| {
        for entry in all.iter().filter_map(|(_, it)| Entry::decode(it.clone()).ok()) {
            found.epoch = found.epoch.max(entry.header.epoch);
        }
        if !fits {
            return at < last;
        }
        match next_of(&chain, all) {
            Ok((is_own, entry)) => {
                chain.push(&entry);
                found.goes_on(&chain, entry.header.time_ms, is_own);
            }
            // Entries that nodes have behind the end of the log belong to another branch.
            Err(_) if at > last => return false,
            Err(what) => {
                fits = false;
                // A part that is cut short there was never a commit.
                found.end = found.whole.position;
                found.problems.push(format!("the entry {at} does not fit: {what}"));
            }
        }
        true
    })?;
    found.explain_nodes(&chain);
    Ok(found)
}

impl Finding {
    /// Creates the finding of a base alone, beside a log of which only the ends are known.
    fn at(base: Base, Ends { first, last, .. }: Ends, is_missing: bool) -> Self {
        let (last, mark) = (Position(last), base.mark());
        Self {
            whole: mark,
            end: mark.position,
            last,
            known: last,
            first: Position(first.max(1)),
            time_ms: if let Base::Checkpoint(record) = &base { record.time_ms } else { 0 },
            from_nodes: None,
            problems: Vec::new(),
            is_unfinished: false,
            is_missing,
            fork: None,
            has_bad_copy: false,
            // The log had more, because an entry is written before a copy is made of it.
            is_loss_unknown: is_missing || mark.position > last,
            owner: None,
            stopped: Vec::new(),
            epoch: mark.epoch,
            base,
        }
    }

    /// Describes the problem between the base and the log.
    fn explain_base(&mut self, leads: bool) {
        let (at, first, last) = (self.base.mark().position, self.first, self.last);
        if let Some(fork) = self.fork {
            self.problems
                .push(format!("the log has other entries from {fork} on than a copy of {at}"));
        } else if at > last {
            self.problems.push(format!("the log ends at {last}, before what a copy of {at} has"));
        } else if !leads {
            self.problems.push(format!("the log begins at {first}, and nothing whole leads to it"));
        }
    }

    /// Describes the entries that nodes have and the log has not.
    ///
    /// By what is known here, a commit of which they have only parts was never acknowledged.
    fn explain_nodes(&mut self, chain: &Chain) {
        if self.end > self.last && !chain.is_whole() {
            self.end = self.whole.position.max(self.last.min(self.end));
        }
        self.from_nodes = self.from_nodes.filter(|(from, _)| *from <= self.end);
        if let Some((from, to)) = &mut self.from_nodes {
            *to = (*to).min(self.end);
            self.problems.push(format!("entries from {from} to {to} are at nodes, not in the log"));
        }
    }

    /// Looks for entries within the range of the base that are not in the base.
    ///
    /// They are of a later epoch, or differ from its last entry.
    fn look_for_fork(&mut self, stream: &dyn Stream) -> Result<(), StreamError> {
        let mark = self.base.mark();
        let until = mark.position.min(self.last);
        entries(stream, Beside::NOTHING, (self.first, until), &mut |at, all| {
            let bytes = all.into_iter().next().map(|(_, bytes)| bytes);
            let Some(entry) = bytes.and_then(|it| Entry::decode(it).ok()) else { return true };
            self.epoch = self.epoch.max(entry.header.epoch);
            let is_other = at == mark.position && entry.hash() != mark.hash;
            if is_other || entry.header.epoch > mark.epoch {
                self.fork.get_or_insert(at);
            }
            true
        })
    }

    /// Records that one more entry fits.
    fn goes_on(&mut self, chain: &Chain, time_ms: u64, is_in_log: bool) {
        self.end = chain.last();
        if !is_in_log {
            self.from_nodes.get_or_insert((self.end, self.end)).1 = self.end;
        }
        if chain.is_whole() {
            let (position, epoch, hash) = (chain.last(), chain.epoch(), chain.hash());
            self.whole = Mark { position, epoch, hash };
            self.time_ms = time_ms;
        }
    }
}

/// Visits the commits of the log from behind the base to the end of the whole part.
pub(super) fn commits<E: From<RepairError>>(
    stream: &dyn Stream,
    beside: Beside<'_>,
    (log, shard): (LogId, u16),
    finding: &Finding,
    visit: &mut dyn FnMut(Commit) -> Result<(), E>,
) -> Result<(), E> {
    let mark = finding.base.mark();
    let mut chain = Chain::new(log, shard, mark.position, mark.epoch, mark.hash);
    let (mut joiner, mut done) = (Joiner::default(), Ok(()));
    let between = (mark.position.next(), finding.whole.position);
    let read = entries(stream, beside, between, &mut |at, all| {
        let joined = next_of(&chain, all).and_then(|(_, entry)| {
            chain.push(&entry);
            joiner.push(&entry).map_err(|fault| fault.to_string())
        });
        done = match joined {
            Ok(Some(commit)) => visit(commit),
            Ok(None) => Ok(()),
            Err(what) => {
                let what = format!("entry {at}: {what}");
                Err(RepairError::Changed { shard, what }.into())
            }
        };
        done.is_ok()
    });
    read.map_err(|error| E::from(RepairError::Stream(error)))?;
    done
}

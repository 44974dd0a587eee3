//! How far a shard is whole: its base, and the entries that follow it one by one.

use bytes::Bytes;
use postrider_log::{Chain, Commit, Entry, Joiner, LogId, Mark, Position};

use super::RepairError;
use crate::checkpoints::CheckpointRecord;
use crate::log::{Ends, Stream, StreamError};
use crate::name::NodeName;

/// Messages that are asked for at a time.
const READ_AT_ONCE: u64 = 64;

/// What a shard begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// The beginning of its log.
    Nothing,
    /// A checkpoint that is whole.
    Checkpoint(CheckpointRecord),
    /// A backup that ends with this entry.
    Backup(Mark),
}

impl Base {
    /// The last entry that is in it.
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

/// What was found out about a shard.
#[derive(Debug)]
pub struct Finding {
    /// What it begins with.
    pub base: Base,
    /// The last entry of the last commit up to which all is whole.
    pub whole: Mark,
    /// The last position up to which each entry follows the one before it.
    pub end: Position,
    /// The last position of the log.
    pub last: Position,
    /// The last position that anybody knows to have been written.
    pub known: Position,
    /// The first position of the log.
    pub first: Position,
    /// The engine time of the last whole entry, in milliseconds; 0 if there is none.
    pub time_ms: u64,
    /// What is wrong, in words.
    pub problems: Vec<String>,
    /// Whether a repair did not come to its end, so that no node claims the shard.
    pub is_unfinished: bool,
    /// Whether the log itself is missing.
    pub(super) is_missing: bool,
    /// The first entry of the log that is of another branch than the base.
    pub(super) fork: Option<Position>,
    /// Whether a checkpoint that is listed is of another branch, or cannot be read.
    pub(super) has_bad_copy: bool,
    /// Whether more may be lost than the positions show.
    pub(super) is_loss_unknown: bool,
    /// The node that serves the shard.
    pub(super) owner: Option<NodeName>,
    /// The nodes that have stopped.
    pub(super) stopped: Vec<StoppedNode>,
    /// The highest epoch that was seen.
    pub(super) epoch: u64,
}

impl Finding {
    /// Whether nodes could go on with what is there.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let is_kept = !matches!(self.base, Base::Backup(_)) && !self.has_bad_copy;
        self.end == self.last && self.last == self.known && self.leads_on() && is_kept
    }

    /// Whether the log goes on from the base, as far as the base tells.
    pub(super) fn leads_on(&self) -> bool {
        let at = self.base.mark().position;
        at.next() >= self.first && at <= self.last && self.fork.is_none()
    }

    /// Whether there is anything to repair.
    #[must_use]
    pub fn needs_repair(&self) -> bool {
        // They go on only with a shard that was begun anew.
        let waits = self.owner.is_none() && !self.stopped.is_empty();
        self.is_unfinished || self.is_missing || !self.is_whole() || waits
    }

    /// Whether something is lost with a repair, or may be.
    #[must_use]
    pub fn loses(&self) -> bool {
        self.given_up().is_some() || self.is_loss_unknown
    }

    /// The position behind which something may be lost that no node reports.
    #[must_use]
    pub fn unknown_behind(&self) -> Option<Position> {
        self.is_loss_unknown.then_some(self.end)
    }

    /// What to do about a shard that needs no repair.
    #[must_use]
    pub fn advice(&self) -> Vec<String> {
        let told = |it: &StoppedNode| {
            let StoppedNode { node, reason, .. } = it;
            format!("{node} has stopped ({reason}), and another node serves it: restart {node}")
        };
        self.stopped.iter().map(told).collect()
    }

    /// How good it is to begin with its base: a later branch first, then more of it.
    pub(super) fn rank(&self) -> (u64, Position) {
        (self.whole.epoch, self.end)
    }

    /// Whether there is anything to begin with.
    #[must_use]
    pub fn has_base(&self) -> bool {
        self.base != Base::Nothing || !self.is_missing && self.first <= Position::START.next()
    }

    /// The positions that would be given up.
    #[must_use]
    pub fn given_up(&self) -> Option<(Position, Position)> {
        let (from, to) = (self.fork.unwrap_or(self.end.next()), self.last.max(self.known));
        (from <= to).then_some((from, to))
    }
}

/// Reads messages from a position on, each with what stands there, until `visit` says to end.
fn messages(
    stream: &dyn Stream,
    from: Position,
    last: Position,
    visit: &mut dyn FnMut(Position, Option<Bytes>) -> bool,
) -> Result<(), StreamError> {
    let mut next = from.0;
    while next <= last.0 {
        let count = READ_AT_ONCE.min(last.0 - next + 1);
        let mut found = stream.messages(next, count)?.into_iter().peekable();
        for at in next..next + count {
            let bytes = found.next_if(|(sequence, _)| *sequence == at).map(|(_, bytes)| bytes);
            if !visit(Position(at), bytes) {
                return Ok(());
            }
        }
        next += count;
    }
    Ok(())
}

/// Follows the log from the base as far as it goes. Nothing in the stream leads anywhere when the
/// one before it `is_missing`.
pub(super) fn walk(
    stream: &dyn Stream,
    log: LogId,
    shard: u16,
    base: Base,
    is_missing: bool,
) -> Result<Finding, StreamError> {
    let mut found = Finding::at(base, stream.ends()?, is_missing);
    let (first, last, mark) = (found.first, found.last, found.base.mark());
    if !is_missing {
        found.look_for_fork(stream)?;
    }
    let leads = mark.position.next() >= first;
    if let Some(fork) = found.fork {
        let at = mark.position;
        found
            .problems
            .push(format!("the log has other entries from {fork} on than a copy of {at}"));
    } else if mark.position > last {
        let what = format!("the log ends at {last}, before what a copy of {} has", mark.position);
        found.problems.push(what);
    } else if !leads {
        found.problems.push(format!("the log begins at {first}, and nothing whole leads to it"));
    }
    let mut chain = Chain::new(log, shard, mark.position, mark.epoch, mark.hash);
    let mut fits = leads && found.fork.is_none();
    let from = if leads { mark.position.next() } else { first };
    messages(stream, from, last, &mut |at, bytes| {
        let entry = bytes.ok_or_else(|| "it is gone".to_owned());
        let entry = entry.and_then(|it| Entry::decode(it).map_err(|fault| fault.to_string()));
        if let Ok(entry) = &entry {
            found.epoch = found.epoch.max(entry.header.epoch);
        }
        if !fits {
            return true;
        }
        let pushed = entry.and_then(|entry| {
            chain.check_and_push(&entry).map_err(|fault| fault.to_string())?;
            Ok(entry.header.time_ms)
        });
        match pushed {
            Ok(time_ms) => found.goes_on(&chain, time_ms),
            Err(what) => {
                fits = false;
                // What is cut short there was never a commit.
                found.end = found.whole.position;
                found.problems.push(format!("the entry {at} does not fit: {what}"));
            }
        }
        true
    })?;
    Ok(found)
}

impl Finding {
    /// A base alone, beside a log of which only the ends are known.
    fn at(base: Base, Ends { first, last, .. }: Ends, is_missing: bool) -> Self {
        let (last, mark) = (Position(last), base.mark());
        Self {
            whole: mark,
            end: mark.position,
            last,
            known: last,
            first: Position(first.max(1)),
            time_ms: if let Base::Checkpoint(record) = &base { record.time_ms } else { 0 },
            problems: Vec::new(),
            is_unfinished: false,
            is_missing,
            fork: None,
            has_bad_copy: false,
            // The log had more, for it was written before a copy was made of it.
            is_loss_unknown: is_missing || mark.position > last,
            owner: None,
            stopped: Vec::new(),
            epoch: mark.epoch,
            base,
        }
    }

    /// Looks for entries that the base has not, although they stand where it has some: of a later
    /// epoch, or another one than its last.
    fn look_for_fork(&mut self, stream: &dyn Stream) -> Result<(), StreamError> {
        let mark = self.base.mark();
        messages(stream, self.first, mark.position.min(self.last), &mut |at, bytes| {
            let Some(entry) = bytes.and_then(|it| Entry::decode(it).ok()) else { return true };
            self.epoch = self.epoch.max(entry.header.epoch);
            let is_other = at == mark.position && entry.hash() != mark.hash;
            if is_other || entry.header.epoch > mark.epoch {
                self.fork.get_or_insert(at);
            }
            true
        })
    }

    /// One more entry fits.
    fn goes_on(&mut self, chain: &Chain, time_ms: u64) {
        self.end = chain.last();
        if chain.is_whole() {
            let (position, epoch, hash) = (chain.last(), chain.epoch(), chain.hash());
            self.whole = Mark { position, epoch, hash };
            self.time_ms = time_ms;
        }
    }
}

/// Joins entries to commits, each behind the one before it.
struct Follower {
    chain: Chain,
    joiner: Joiner,
}

impl Follower {
    fn next(&mut self, bytes: Option<Bytes>) -> Result<Option<Commit>, String> {
        let bytes = bytes.ok_or_else(|| "it is gone".to_owned())?;
        let entry = Entry::decode(bytes).map_err(|fault| fault.to_string())?;
        self.chain.check_and_push(&entry).map_err(|fault| fault.to_string())?;
        self.joiner.push(&entry).map_err(|fault| fault.to_string())
    }
}

/// Visits the commits of the log from behind the base up to what is whole.
pub(super) fn commits<E: From<RepairError>>(
    stream: &dyn Stream,
    (log, shard): (LogId, u16),
    finding: &Finding,
    visit: &mut dyn FnMut(Commit) -> Result<(), E>,
) -> Result<(), E> {
    let mark = finding.base.mark();
    let chain = Chain::new(log, shard, mark.position, mark.epoch, mark.hash);
    let mut follower = Follower { chain, joiner: Joiner::default() };
    let mut done = Ok(());
    let read = messages(stream, mark.position.next(), finding.whole.position, &mut |at, bytes| {
        done = match follower.next(bytes) {
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

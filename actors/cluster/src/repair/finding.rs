//! How far a shard is whole: its base, and the entries that follow it one by one.

use bytes::Bytes;
use postrider_log::{Chain, Commit, Entry, Joiner, LogId, Mark, Position};

use super::RepairError;
use crate::checkpoints::CheckpointRecord;
use crate::log::{Ends, Stream, StreamError};

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
    /// Whether the log itself is gone.
    pub(super) is_gone: bool,
    /// The highest epoch that was seen.
    pub(super) epoch: u64,
}

impl Finding {
    /// Whether nodes could go on with what is there.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let leads_on = self.base.mark().position.next() >= self.first;
        let is_kept = !matches!(self.base, Base::Backup(_));
        self.end == self.last && self.last == self.known && leads_on && is_kept
    }

    /// Whether there is anything to repair.
    #[must_use]
    pub fn needs_repair(&self) -> bool {
        self.is_unfinished || self.is_gone || !self.is_whole()
    }

    /// Whether there is anything to begin with.
    #[must_use]
    pub fn has_base(&self) -> bool {
        self.base != Base::Nothing || !self.is_gone && self.first <= Position::START.next()
    }

    /// The positions that would be given up.
    #[must_use]
    pub fn given_up(&self) -> Option<(Position, Position)> {
        let (from, to) = (self.end.next(), self.last.max(self.known));
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

/// Follows the log from the base as far as it goes.
pub(super) fn walk(
    stream: &dyn Stream,
    log: LogId,
    shard: u16,
    base: Base,
) -> Result<Finding, StreamError> {
    let Ends { first, last, .. } = stream.ends()?;
    let (first, last, mark) = (Position(first.max(1)), Position(last), base.mark());
    let time_ms = if let Base::Checkpoint(record) = &base { record.time_ms } else { 0 };
    let mut found = Finding {
        whole: mark,
        end: mark.position,
        last,
        known: last.max(mark.position),
        first,
        time_ms,
        problems: Vec::new(),
        is_unfinished: false,
        is_gone: false,
        epoch: mark.epoch,
        base,
    };
    let leads_on = mark.position.next() >= first;
    if mark.position > last {
        let what = format!("the log ends at {last}, before what a copy of {} has", mark.position);
        found.problems.push(what);
    } else if !leads_on {
        found.problems.push(format!("the log begins at {first}, and nothing whole leads to it"));
    }
    let mut chain = Chain::new(log, shard, mark.position, mark.epoch, mark.hash);
    let mut fits = leads_on;
    let from = if leads_on { mark.position.next() } else { first };
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

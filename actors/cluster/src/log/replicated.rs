//! The log of one shard over a stream, of which each node has a handle.
//!
//! It owns the end that this handle knows, and the settling of its appends. It keeps the promises
//! of every log, over any stream that appends by compare-and-swap. Position and sequence are the
//! same number. No refusal or silence of a server is taken for an outcome.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use postrider_log::{
    AppendError, Chain, Entry, EntryFault, EntryHash, Header, Kind, Log, LogError, LogId, Position,
    Tail, check_commit,
};

use super::appends::{Appends, settle};
use super::stream::{Ends, Stream, StreamError};
use crate::clock::SteadyClock;
use crate::settle::{Settled, Settlement};

/// The number of messages that are read at a time.
const READ_AHEAD: u64 = 64;

/// The options of a log over a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicatedOptions {
    /// The maximum number of bytes of an entry, less than the servers accept as one message.
    pub entry_bytes_max: usize,
    /// The time for which an append is settled before its outcome is unknown, in milliseconds.
    pub stall_ms: u64,
}

impl Default for ReplicatedOptions {
    fn default() -> Self {
        Self { entry_bytes_max: 900_000, stall_ms: 3_000 }
    }
}

/// A log over a stream.
#[derive(Debug)]
pub struct ReplicatedLog {
    id: LogId,
    shard: u16,
    stream: Arc<dyn Stream>,
    clock: Arc<dyn SteadyClock>,
    options: ReplicatedOptions,
    appends: Arc<Appends>,
    handle: Mutex<Handle>,
}

#[derive(Debug)]
struct Handle {
    chain: Chain,
    claimed: bool,
    failed: Option<String>,
    closed: bool,
}

impl Handle {
    fn check(&self) -> Result<(), LogError> {
        self.failed.clone().map_or(Ok(()), |failed| Err(LogError::Failed(failed)))
    }
}

fn failed(error: StreamError) -> LogError {
    LogError::Failed(error.0)
}

/// Returns the error of a server that shows an older end of the log.
///
/// It may no longer lead, or have become the leader a moment ago. A read then lacks entries that
/// are known to exist.
pub(super) fn ends_early(reached: Position, last: Position) -> LogError {
    LogError::Failed(format!(
        "one server says that the log ends at {reached}, and it ends at {last}"
    ))
}

impl ReplicatedLog {
    /// Opens the log and finds its end.
    ///
    /// # Errors
    /// Those of [`Log::tail`].
    pub fn open(
        id: LogId,
        shard: u16,
        stream: Arc<dyn Stream>,
        clock: Arc<dyn SteadyClock>,
        options: ReplicatedOptions,
    ) -> Result<Self, LogError> {
        let chain = Chain::new(id, shard, Position::START, 0, EntryHash::NONE);
        let handle = Handle { chain, claimed: false, failed: None, closed: false };
        let (appends, handle) = (Arc::default(), Mutex::new(handle));
        let log = Self { id, shard, stream, clock, options, appends, handle };
        log.tail()?;
        Ok(log)
    }

    /// Counts the appends of this handle with others.
    pub(crate) fn counted_by(self, appends: Arc<Appends>) -> Self {
        Self { appends, ..self }
    }

    fn damaged(&self, at: Position, what: String) -> LogError {
        let file = format!("stream {}", self.stream.name());
        LogError::Damaged { position: Some(at), file, offset: at.0, what }
    }

    fn decode(&self, at: Position, bytes: Bytes) -> Result<Entry, LogError> {
        let entry = Entry::decode(bytes).map_err(|fault| {
            if matches!(fault, EntryFault::Newer { .. }) {
                let file = format!("stream {}", self.stream.name());
                return LogError::Newer { file, offset: at.0, what: fault.to_string() };
            }
            self.damaged(at, fault.to_string())
        })?;
        let Header { log, shard, position, .. } = entry.header;
        if (log, shard, position) != (self.id, self.shard, at) {
            let what =
                format!("the entry is number {position} of shard {shard}, or of another log");
            return Err(self.damaged(at, what));
        }
        Ok(entry)
    }

    /// Returns the entry at a position between the ends.
    fn entry_at(&self, at: Position) -> Result<Entry, LogError> {
        let bytes = self.stream.message(at.0).map_err(failed)?;
        self.decode(at, bytes.ok_or_else(|| self.missing(at))?)
    }

    /// Returns the error for a missing entry at a position between the ends.
    ///
    /// It may have been trimmed since. Two servers may have answered, of which one is behind. An
    /// entry is damaged only if it stays missing.
    fn missing(&self, at: Position) -> LogError {
        match self.stream.ends() {
            Ok(Ends { first, .. }) if at.0 < first => {
                LogError::Trimmed { asked: at, first: Position(first) }
            }
            Ok(Ends { last, .. }) if at.0 > last => ends_early(Position(last), at),
            Ok(_) => match self.stream.message(at.0) {
                Ok(None) => self.damaged(at, "the entry is missing".to_owned()),
                Ok(Some(_)) => ends_early(at.previous(), at),
                Err(error) => failed(error),
            },
            Err(error) => failed(error),
        }
    }

    /// Reads the end, which must not be before the end that this handle knows.
    fn look(&self, handle: &mut Handle) -> Result<Tail, LogError> {
        let Ends { first, last, .. } = self.stream.ends().map_err(failed)?;
        let (last, applied) = (Position(last), handle.chain.last());
        if last < applied {
            return Err(LogError::Lost { last, applied });
        }
        let mut header = None;
        if last > Position::START {
            let entry = self.entry_at(last)?;
            if last == applied && entry.hash() != handle.chain.hash() && applied > Position::START {
                return Err(self.damaged(last, "the entry is another than before".to_owned()));
            }
            if last > applied {
                let epoch = entry.header.epoch;
                handle.chain = Chain::new(self.id, self.shard, last, epoch, entry.hash());
            }
            header = Some(entry.header);
        }
        Ok(Tail {
            log: self.id,
            shard: self.shard,
            first: Position(first.max(1)),
            last,
            epoch: handle.chain.epoch(),
            hash: handle.chain.hash(),
            header,
        })
    }

    /// Returns the ends of the stream.
    pub(crate) fn ends(&self) -> Result<Ends, LogError> {
        self.stream.ends().map_err(failed)
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Switches to another server, because the current one may be behind.
    pub(crate) fn switch_server(&self) {
        self.stream.switch_server();
    }

    /// Returns the end that this handle knows.
    pub(crate) fn known_end(&self) -> (Position, u64, EntryHash) {
        let handle = self.handle.lock();
        (handle.chain.last(), handle.chain.epoch(), handle.chain.hash())
    }

    fn append_all(&self, entries: &[Entry]) -> Result<(), AppendError> {
        for (number, entry) in entries.iter().enumerate() {
            let until = self.clock.now_ms() + self.options.stall_ms;
            let at = entry.header.position;
            let mut settlement = Settlement::new(at, entry.bytes.clone());
            let settled =
                settle(&*self.stream, &*self.clock, &mut settlement, until, &self.appends);
            let unknown = match settled {
                Ok(Some(Settled::Durable)) => continue,
                Ok(Some(Settled::Taken(header))) => return Err(AppendError::Taken(header)),
                // The parts before it are in the log, so the commit may be there.
                Err(AppendError::Refused(why)) if number > 0 => why,
                Err(error) => return Err(error),
                Ok(Some(Settled::Damaged(what))) => what,
                Ok(Some(Settled::Lost { last })) => format!("the log ends at {last}"),
                Ok(None) => "the stream did not answer in time".to_owned(),
            };
            return Err(AppendError::Unknown(unknown));
        }
        Ok(())
    }
}

impl Log for ReplicatedLog {
    fn id(&self) -> LogId {
        self.id
    }

    fn entry_bytes_max(&self) -> usize {
        self.options.entry_bytes_max
    }

    fn tail(&self) -> Result<Tail, LogError> {
        let mut handle = self.handle.lock();
        handle.check()?;
        self.look(&mut handle)
    }

    fn append(&self, at: Position, entries: &[Bytes]) -> Result<(), AppendError> {
        let mut handle = self.handle.lock();
        let refused = AppendError::Refused;
        if handle.closed {
            return Err(refused("the log is closed".to_owned()));
        }
        if let Some(failed) = &handle.failed {
            return Err(refused(format!("the log must be reopened: {failed}")));
        }
        if at <= handle.chain.last() {
            let taken = self.entry_at(at).map_err(|error| refused(error.to_string()))?;
            return Err(AppendError::Taken(taken.header));
        }
        let max = self.options.entry_bytes_max;
        let checked = check_commit(&handle.chain, at, entries, handle.claimed, max);
        let checked = checked.map_err(refused)?;
        match self.append_all(&checked.entries) {
            Ok(()) => {
                handle.chain = checked.chain;
                handle.claimed = true;
                Ok(())
            }
            Err(AppendError::Unknown(why)) => {
                handle.failed = Some(why.clone());
                Err(AppendError::Unknown(why))
            }
            Err(error) => Err(error),
        }
    }

    fn read(
        &self,
        from: Position,
        visit: &mut dyn FnMut(Entry) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        let Ends { first, last, .. } = self.stream.ends().map_err(failed)?;
        let first = Position(first.max(1));
        if from < first {
            return Err(LogError::Trimmed { asked: from, first });
        }
        let mut chain: Option<Chain> = None;
        let mut at = from;
        while at.0 <= last {
            let until = at.0.saturating_add(READ_AHEAD.min(last - at.0 + 1));
            for (sequence, bytes) in self.stream.messages(at.0, until - at.0).map_err(failed)? {
                if sequence != at.0 {
                    break;
                }
                let entry = self.decode(at, bytes)?;
                match &mut chain {
                    Some(chain) => {
                        let checked = chain.check_and_push(&entry);
                        checked.map_err(|fault| self.damaged(at, fault.to_string()))?;
                    }
                    None => chain = Some(chain_of(&entry)),
                }
                if visit(entry).is_break() {
                    return Ok(());
                }
                at = at.next();
            }
            if at.0 < until {
                return Err(self.missing(at));
            }
        }
        Ok(())
    }

    fn entry(&self, at: Position) -> Result<Option<Bytes>, LogError> {
        let handle = self.handle.lock();
        if at > Position::START
            && let Some(bytes) = self.stream.message(at.0).map_err(failed)?
        {
            return Ok(Some(self.decode(at, bytes)?.bytes));
        }
        let Ends { first, last, .. } = self.stream.ends().map_err(failed)?;
        let first = Position(first.max(1));
        if at < first {
            return Err(LogError::Trimmed { asked: at, first });
        }
        if at.0 <= last {
            return Err(self.missing(at));
        }
        handle.check()?;
        Ok(None)
    }

    fn bytes_after(&self, after: Position) -> Result<u64, LogError> {
        Ok(self.ends()?.bytes_after(after))
    }

    fn trim(&self, through: Position) -> Result<(), LogError> {
        let Ends { first, last, .. } = self.stream.ends().map_err(failed)?;
        if last == 0 || through.0 < first.max(1) {
            return Ok(());
        }
        // The entry behind the cut must start a commit, and the last commit stays.
        let behind = Position(last).min(through.next());
        let keep = self.entry_at(behind)?.header.commit_begins();
        self.stream.purge_before(keep.0).map_err(failed)
    }

    fn reopen(&self) -> Result<Tail, LogError> {
        let mut handle = self.handle.lock();
        let tail = self.look(&mut handle)?;
        if handle.failed.take().is_some() {
            handle.claimed = false;
        }
        Ok(tail)
    }

    fn close(&self) -> Result<(), LogError> {
        let mut handle = self.handle.lock();
        handle.check()?;
        handle.closed = true;
        Ok(())
    }
}

/// Returns the chain that ends with this entry, whatever precedes it.
fn chain_of(entry: &Entry) -> Chain {
    let Header { log, shard, position, epoch, prev, kind, .. } = entry.header;
    let before = if kind == Kind::Claim { epoch.saturating_sub(1) } else { epoch };
    let mut chain = Chain::new(log, shard, position.previous(), before, prev);
    chain.push(entry);
    chain
}

//! The log of a shard as its owner's engine sees it: it ends where the owner's own entries end.
//!
//! It owns the end that the owner knows, and whether the owner has been fenced. It promises that an
//! engine never writes behind an entry that it has not applied. Once another writer's entry is in
//! the log, nothing is appended through this handle any more.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use postrider_log::{AppendError, Entry, Header, Log, LogError, LogId, Position, Tail};

use super::replicated::{ReplicatedLog, ends_early};
use super::stream::Ends;
use crate::gate::ShardTenure;
use crate::settle::{SHORT_FOR_MS, Settled};

#[cfg(test)]
mod tests;

/// A report of the engine's log to the shard's life.
#[derive(Debug)]
pub(crate) enum LogReport {
    /// This entry was appended.
    Appended(Bytes),
    /// The log has another writer's entry, or less than it had.
    NotAppended(Settled),
}

/// The receiver of the reports of the engine's log.
pub(crate) type Reporter = Box<dyn Fn(LogReport) + Send>;

/// The log of one owner.
pub struct OwnedLog {
    inner: ReplicatedLog,
    own: Mutex<Own>,
}

struct Own {
    end: Tail,
    /// The owner's right to act.
    tenure: ShardTenure,
    /// The approximate bytes of the stream. The next field is the bound above which groups are
    /// refused.
    bytes: u64,
    bytes_max: u64,
    fenced: Option<String>,
    /// The time since which the stream has looked too short.
    short_since: Option<u64>,
    report: Reporter,
}

impl std::fmt::Debug for OwnedLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnedLog").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Own {
    fn check(&self) -> Result<(), LogError> {
        self.fenced.clone().map_or(Ok(()), |why| Err(LogError::Failed(why)))
    }

    fn fence(&mut self, why: String, settled: Settled) -> LogError {
        (self.report)(LogReport::NotAppended(settled));
        self.fenced = Some(why.clone());
        LogError::Failed(why)
    }
}

/// The divisor for the part of the stream that groups do not get.
///
/// Claims, handoffs and checkpoints need that part.
const RESERVED: u64 = 16;
/// The approximate bytes that the servers store of a message beside its content.
const MESSAGE_BYTES: u64 = 128;

fn kept_bytes(entries: usize, bytes: usize) -> u64 {
    bytes as u64 + entries as u64 * MESSAGE_BYTES
}

fn taken(header: &Header) -> String {
    format!("another node owns the shard: entry {} has epoch {}", header.position, header.epoch)
}

impl OwnedLog {
    /// Creates the log behind the owner's claim, which must be its last entry.
    pub(crate) fn behind_claim(
        inner: ReplicatedLog,
        claim: Position,
        stream_bytes_max: u64,
        tenure: ShardTenure,
        report: Reporter,
    ) -> Result<Arc<Self>, LogError> {
        let (end, bytes) = (inner.tail()?, inner.ends()?.bytes);
        let bytes_max = stream_bytes_max - stream_bytes_max / RESERVED;
        let mut own =
            Own { end, tenure, bytes, bytes_max, fenced: None, short_since: None, report };
        if own.end.last != claim {
            let header = own.end.header.take();
            let why = header.as_ref().map_or_else(|| "the claim is missing".to_owned(), taken);
            return Err(LogError::Failed(why));
        }
        Ok(Arc::new(Self { inner, own: Mutex::new(own) }))
    }

    /// Refuses every append from now on.
    pub(crate) fn fence(&self) {
        self.own.lock().fenced.get_or_insert_with(|| "the shard is given up".to_owned());
    }

    /// Takes the entries behind the own end, which must be of the own epoch.
    fn take_own(&self, own: &mut Own, tail: Tail) -> Result<(), LogError> {
        let (mut entries, mut others) = (Vec::new(), None);
        if tail.last > own.end.last {
            self.inner.read(own.end.last.next(), &mut |entry| {
                if entry.header.epoch != own.end.epoch {
                    others = Some(entry.header);
                    return ControlFlow::Break(());
                }
                entries.push(entry.bytes);
                ControlFlow::Continue(())
            })?;
        }
        if let Some(header) = others {
            return Err(own.fence(taken(&header), Settled::Taken(header)));
        }
        let reached = Position(own.end.last.0 + entries.len() as u64);
        if reached < tail.last {
            return Err(ends_early(reached, tail.last));
        }
        entries.into_iter().for_each(|bytes| (own.report)(LogReport::Appended(bytes)));
        own.end = tail;
        Ok(())
    }
}

impl Log for OwnedLog {
    fn id(&self) -> LogId {
        self.inner.id()
    }

    fn entry_bytes_max(&self) -> usize {
        self.inner.entry_bytes_max()
    }

    fn tail(&self) -> Result<Tail, LogError> {
        let own = self.own.lock();
        own.check()?;
        Ok(own.end.clone())
    }

    fn append(&self, at: Position, entries: &[Bytes]) -> Result<(), AppendError> {
        let mut own = self.own.lock();
        own.check().map_err(|error| AppendError::Refused(error.to_string()))?;
        // No other node may have written while the lease held. After that, the log may end at the
        // position that this owner has read and still be another log: servers compare positions
        // only.
        if !own.tenure.holds() {
            return Err(AppendError::Refused("the node's lease may have ended".to_owned()));
        }
        match self.inner.append(at, entries) {
            Ok(()) => {}
            // No other node writes in its epoch: the entry landed after the log was opened again
            // without it.
            Err(AppendError::Taken(header)) if header.epoch == own.end.epoch => {
                let at = header.position;
                let why = format!("an own entry has landed late, at {at}");
                return Err(AppendError::Unknown(why));
            }
            Err(AppendError::Taken(header)) => {
                own.fence(taken(&header), Settled::Taken(header.clone()));
                return Err(AppendError::Taken(header));
            }
            Err(error) => return Err(error),
        }
        (own.end.last, own.end.epoch, own.end.hash) = self.inner.known_end();
        own.bytes += kept_bytes(entries.len(), entries.iter().map(Bytes::len).sum());
        own.end.header = entries.last().and_then(|bytes| Header::decode(bytes).ok());
        entries.iter().for_each(|bytes| (own.report)(LogReport::Appended(bytes.clone())));
        Ok(())
    }

    fn read(
        &self,
        from: Position,
        visit: &mut dyn FnMut(Entry) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        let last = self.own.lock().end.last;
        let (mut reached, mut is_stopped) = (from.previous(), false);
        self.inner.read(from, &mut |entry| {
            if entry.header.position > last {
                return ControlFlow::Break(());
            }
            reached = entry.header.position;
            let flow = visit(entry);
            is_stopped = flow.is_break();
            flow
        })?;
        if reached < last && !is_stopped {
            return Err(ends_early(reached, last));
        }
        Ok(())
    }

    fn entry(&self, at: Position) -> Result<Option<Bytes>, LogError> {
        let last = self.own.lock().end.last;
        match self.inner.entry(at)? {
            None if at <= last && at > Position::START => Err(ends_early(at.previous(), last)),
            found => Ok(found),
        }
    }

    fn bytes_after(&self, after: Position) -> Result<u64, LogError> {
        let own = self.own.lock();
        own.check()?;
        let Tail { first, last, .. } = own.end;
        Ok(Ends { first: first.0, last: last.0, bytes: own.bytes }.bytes_after(after))
    }

    fn trim(&self, through: Position) -> Result<(), LogError> {
        // Appends need not wait for the trim, which is right whoever owns the shard by then.
        let through = {
            let own = self.own.lock();
            own.check()?;
            through.min(own.end.last)
        };
        self.inner.trim(through)?;
        let Ends { first, bytes, .. } = self.inner.ends()?;
        let mut own = self.own.lock();
        own.end.first = Position(first.max(1));
        own.bytes = bytes;
        Ok(())
    }

    fn has_room(&self, bytes: usize) -> Result<(), String> {
        let mut own = self.own.lock();
        let needed = kept_bytes(1 + bytes / self.inner.entry_bytes_max(), bytes);
        if own.bytes + needed <= own.bytes_max {
            return Ok(());
        }
        own.bytes = self.inner.ends().map_err(|error| error.to_string())?.bytes;
        if own.bytes + needed <= own.bytes_max {
            return Ok(());
        }
        let Own { bytes, bytes_max, .. } = &*own;
        Err(format!(
            "the shard's log is full until a checkpoint is made: it has {bytes} bytes and takes \
             {bytes_max} (cluster.stream_bytes_max)"
        ))
    }

    fn reopen(&self) -> Result<Tail, LogError> {
        let mut own = self.own.lock();
        own.check()?;
        let looked_at = self.inner.now_ms();
        let tail = match self.inner.reopen() {
            Err(LogError::Lost { last, applied }) => {
                let why = format!("the log ends at {last}, but {applied} was acknowledged");
                // A server that no longer leads may have answered: the end is believed if it stays
                // the same.
                let since = *own.short_since.get_or_insert(looked_at);
                if looked_at < since + SHORT_FOR_MS {
                    self.inner.switch_server();
                    return Err(LogError::Failed(format!("{why}, as one server says")));
                }
                return Err(own.fence(why, Settled::Lost { last }));
            }
            tail => tail?,
        };
        own.short_since = None;
        self.take_own(&mut own, tail)?;
        Ok(own.end.clone())
    }

    fn close(&self) -> Result<(), LogError> {
        self.inner.close()
    }
}

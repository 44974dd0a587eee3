//! The log of a shard as its owner's engine sees it: it ends where the owner's own entries end.
//!
//! It owns what the owner knows of the end, and whether it has been fenced.
//! It promises that an engine never writes behind what it has not applied: once another's entry
//! stands in the log, nothing is appended through this handle any more.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use postrider_log::{AppendError, Entry, Header, Log, LogError, LogId, Position, Tail};

use super::replicated::ReplicatedLog;
use crate::settle::Settled;

/// What the engine's log tells the shard's life.
#[derive(Debug)]
pub(crate) enum Told {
    /// This entry was appended.
    Appended(Bytes),
    /// The log has another's entry, or less than it had.
    NotAppended(Settled),
}

/// Hears what the engine's log tells.
pub(crate) type Tell = Box<dyn Fn(Told) + Send>;

/// The log of one owner.
pub struct OwnedLog {
    inner: ReplicatedLog,
    own: Mutex<Own>,
}

struct Own {
    end: Tail,
    fenced: Option<String>,
    tell: Tell,
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
        (self.tell)(Told::NotAppended(settled));
        self.fenced = Some(why.clone());
        LogError::Failed(why)
    }
}

fn taken(header: &Header) -> String {
    format!("another node owns the shard: entry {} has epoch {}", header.position, header.epoch)
}

impl OwnedLog {
    /// The log behind the owner's claim, which must be its last entry.
    pub(crate) fn behind_claim(
        inner: ReplicatedLog,
        claim: Position,
        tell: Tell,
    ) -> Result<Arc<Self>, LogError> {
        let end = inner.tail()?;
        let mut own = Own { end, fenced: None, tell };
        if own.end.last != claim {
            let header = own.end.header.take();
            let why = header.as_ref().map_or_else(|| "the claim is gone".to_owned(), taken);
            return Err(LogError::Failed(why));
        }
        Ok(Arc::new(Self { inner, own: Mutex::new(own) }))
    }

    /// Has every append from now on refused.
    pub(crate) fn fence(&self) {
        self.own.lock().fenced.get_or_insert_with(|| "the shard is given up".to_owned());
    }

    /// Takes what the log has behind the own end, which must be of the own epoch.
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
        entries.into_iter().for_each(|bytes| (own.tell)(Told::Appended(bytes)));
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
        match self.inner.append(at, entries) {
            Ok(()) => {}
            Err(AppendError::Taken(header)) => {
                own.fence(taken(&header), Settled::Taken(header.clone()));
                return Err(AppendError::Taken(header));
            }
            Err(error) => return Err(error),
        }
        (own.end.last, own.end.epoch, own.end.hash) = self.inner.known_end();
        own.end.header = entries.last().and_then(|bytes| Header::decode(bytes).ok());
        entries.iter().for_each(|bytes| (own.tell)(Told::Appended(bytes.clone())));
        Ok(())
    }

    fn read(
        &self,
        from: Position,
        visit: &mut dyn FnMut(Entry) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        let last = self.own.lock().end.last;
        self.inner.read(from, &mut |entry| {
            if entry.header.position > last {
                return ControlFlow::Break(());
            }
            visit(entry)
        })
    }

    fn entry(&self, at: Position) -> Result<Option<Bytes>, LogError> {
        self.inner.entry(at)
    }

    fn bytes_after(&self, after: Position) -> Result<u64, LogError> {
        self.inner.bytes_after(after)
    }

    fn trim(&self, _through: Position) -> Result<(), LogError> {
        // Whoever follows may need all of it.
        Ok(())
    }

    fn reopen(&self) -> Result<Tail, LogError> {
        let mut own = self.own.lock();
        own.check()?;
        let tail = match self.inner.reopen() {
            Err(LogError::Lost { last, applied }) => {
                let why = format!("the log ends at {last}, but {applied} was acknowledged");
                return Err(own.fence(why, Settled::Lost { last }));
            }
            tail => tail?,
        };
        self.take_own(&mut own, tail)?;
        Ok(own.end.clone())
    }

    fn close(&self) -> Result<(), LogError> {
        self.inner.close()
    }
}

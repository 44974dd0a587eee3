//! A log that several nodes write to, as its owner among them sees it.
//!
//! A node that has claimed the log sees only its own end. Once another node's entry follows it, the
//! node appends nothing more, and cannot be opened again.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use postrider_store::Position;
use postrider_store::postrider_log::{
    AppendError, Entry, Header, Log, LogError, LogId, MemoryFault, MemoryLog, Start, Tail,
};

/// The log of one shard.
#[derive(Debug, Clone)]
pub(super) struct SharedLog {
    inner: Arc<MemoryLog>,
    /// Locked by the writer.
    turn: Arc<Mutex<()>>,
}

impl SharedLog {
    pub(super) fn new() -> Self {
        let inner = Arc::new(MemoryLog::new(&Start::new(LogId([3; 16]))));
        Self { inner, turn: Arc::default() }
    }

    /// Returns the handle of a node that will claim it.
    pub(super) fn handle(&self) -> OwnedLog {
        let (inner, own) = (self.inner.open_again(), Mutex::default());
        OwnedLog { inner, turn: self.turn.clone(), own }
    }

    /// Makes the next append, by any node, end with an unknown outcome.
    pub(super) fn fail_next_append(&self, fault: MemoryFault) {
        self.inner.fail_next_append(fault);
    }

    /// Returns the time of the last entry, in milliseconds.
    pub(super) fn time_ms(&self) -> Option<u64> {
        Some(self.inner.tail().unwrap().header?.time_ms)
    }
}

/// The log as one owner sees it.
#[derive(Debug)]
pub(super) struct OwnedLog {
    inner: MemoryLog,
    turn: Arc<Mutex<()>>,
    own: Mutex<Own>,
}

#[derive(Debug, Default)]
struct Own {
    /// The end of the log; `None` until the node has claimed it.
    end: Option<Tail>,
    /// The last entries that the node tried to append: they are its own too.
    tried: Vec<Bytes>,
    /// Another node's entry.
    fenced: Option<Header>,
}

impl Own {
    fn check(&self) -> Result<(), LogError> {
        let taken = |it: &Header| Err(LogError::Failed(format!("epoch {} owns it", it.epoch)));
        self.fenced.as_ref().map_or(Ok(()), taken)
    }

    /// Checks for another node's entry behind the own ones.
    fn look(&mut self, log: &MemoryLog) -> Result<(), LogError> {
        let Some(Tail { last, epoch, .. }) = self.end else { return Ok(()) };
        log.read(last.next(), &mut |entry| {
            if entry.header.epoch == epoch || self.tried.contains(&entry.bytes) {
                return ControlFlow::Continue(());
            }
            self.fenced = Some(entry.header);
            ControlFlow::Break(())
        })?;
        self.check()
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
        own.end.clone().map_or_else(|| self.inner.tail(), Ok)
    }

    fn append(&self, at: Position, entries: &[Bytes]) -> Result<(), AppendError> {
        let (_turn, mut own) = (self.turn.lock(), self.own.lock());
        let refused = |error: LogError| AppendError::Refused(error.to_string());
        if own.look(&self.inner).is_err()
            && let Some(header) = own.fenced.clone()
        {
            return Err(AppendError::Taken(header));
        }
        own.tried = entries.to_vec();
        self.inner.append(at, entries)?;
        own.end = Some(self.inner.tail().map_err(refused)?);
        Ok(())
    }

    fn read(
        &self,
        from: Position,
        visit: &mut dyn FnMut(Entry) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        let last = self.own.lock().end.as_ref().map(|end| end.last);
        self.inner.read(from, &mut |entry| match last {
            Some(last) if entry.header.position > last => ControlFlow::Break(()),
            _ => visit(entry),
        })
    }

    fn entry(&self, at: Position) -> Result<Option<Bytes>, LogError> {
        self.inner.entry(at)
    }

    fn bytes_after(&self, after: Position) -> Result<u64, LogError> {
        self.inner.bytes_after(after)
    }

    fn trim(&self, through: Position) -> Result<(), LogError> {
        self.inner.trim(through)
    }

    fn reopen(&self) -> Result<Tail, LogError> {
        let (_turn, mut own) = (self.turn.lock(), self.own.lock());
        own.check()?;
        let tail = self.inner.reopen()?;
        own.look(&self.inner)?;
        if own.end.is_some() {
            own.end = Some(tail.clone());
        }
        Ok(tail)
    }

    fn close(&self) -> Result<(), LogError> {
        self.inner.close()
    }
}

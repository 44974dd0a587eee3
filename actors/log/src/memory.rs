//! A log in memory keeps its entries for as long as one of its handles exists.
//!
//! Several handles may write, as several nodes write to a replicated log: positions and epochs
//! decide who wins. Failed appends can be scripted.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::chain::Chain;
use crate::commit_parts::check_commit;
use crate::entry::{Entry, LogId, Position};
use crate::port::{AppendError, Log, LogError, Start, Tail};

#[cfg(test)]
mod tests;

/// The default maximum bytes of an entry.
const ENTRY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The remains of an append that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryFault {
    /// Nothing.
    Lost,
    /// All of the commit.
    Kept,
    /// This many of its first bytes; an entry that is not whole is lost.
    Bytes(usize),
}

/// A log in memory.
#[derive(Debug)]
pub struct MemoryLog {
    id: LogId,
    shared: Arc<Mutex<SharedEntries>>,
    handle: Mutex<HandleState>,
}

#[derive(Debug)]
struct SharedEntries {
    chain: Chain,
    first: Position,
    entries: VecDeque<Entry>,
    entry_bytes_max: usize,
    faults: VecDeque<MemoryFault>,
}

#[derive(Debug, Default)]
struct HandleState {
    claimed: bool,
    failed: Option<String>,
    closed: bool,
}

impl MemoryLog {
    /// Returns an empty log.
    #[must_use]
    pub fn new(start: &Start) -> Self {
        Self::with_entry_bytes_max(start, ENTRY_BYTES_MAX)
    }

    /// Returns an empty log whose entries have at most this many bytes.
    #[must_use]
    pub fn with_entry_bytes_max(start: &Start, entry_bytes_max: usize) -> Self {
        let shared = SharedEntries {
            chain: start.chain(),
            first: start.after.next(),
            entries: VecDeque::new(),
            entry_bytes_max,
            faults: VecDeque::new(),
        };
        let (shared, handle) = (Arc::new(Mutex::new(shared)), Mutex::default());
        Self { id: start.id, shared, handle }
    }

    /// Returns another handle of the same log, as for a new process. It must claim before it
    /// writes.
    #[must_use]
    pub fn open_again(&self) -> Self {
        Self { id: self.id, shared: self.shared.clone(), handle: Mutex::default() }
    }

    /// Returns a log with the same entries that is independent from here on.
    #[must_use]
    pub fn copy(&self) -> Self {
        let shared = self.shared.lock();
        let shared = SharedEntries {
            chain: shared.chain.clone(),
            first: shared.first,
            entries: shared.entries.clone(),
            entry_bytes_max: shared.entry_bytes_max,
            faults: VecDeque::new(),
        };
        let (shared, handle) = (Arc::new(Mutex::new(shared)), Mutex::default());
        Self { id: self.id, shared, handle }
    }

    /// Adds entries of an append whose outcome was unknown, as far as they follow the last one.
    pub fn restore(&self, entries: &[Bytes]) {
        let mut shared = self.shared.lock();
        for bytes in entries {
            let Ok(entry) = Entry::decode(bytes.clone()) else { return };
            if shared.chain.check_and_push(&entry).is_err() {
                return;
            }
            shared.entries.push_back(entry);
        }
    }

    /// Makes the next append that would succeed fail with [`AppendError::Unknown`].
    pub fn fail_next_append(&self, fault: MemoryFault) {
        self.shared.lock().faults.push_back(fault);
    }
}

impl SharedEntries {
    fn tail(&self) -> Tail {
        Tail::of(&self.chain, self.first, self.entries.back().map(|entry| entry.header.clone()))
    }

    fn index(&self, at: Position) -> Result<usize, LogError> {
        let first = self.first;
        // An index that does not fit is behind the end anyway.
        let index = at.0.checked_sub(first.0).ok_or(LogError::Trimmed { asked: at, first })?;
        Ok(usize::try_from(index).unwrap_or(usize::MAX))
    }

    fn append(
        &mut self,
        handle: &mut HandleState,
        at: Position,
        entries: &[Bytes],
    ) -> Result<(), AppendError> {
        let refused = AppendError::Refused;
        let checked = check_commit(&self.chain, at, entries, handle.claimed, self.entry_bytes_max);
        let checked = checked.map_err(refused)?;
        let fault = self.faults.pop_front();
        let mut kept = match fault {
            None | Some(MemoryFault::Kept) => usize::MAX,
            Some(MemoryFault::Lost) => 0,
            Some(MemoryFault::Bytes(bytes)) => bytes,
        };
        for entry in checked.entries {
            let Some(left) = kept.checked_sub(entry.bytes.len()) else { break };
            kept = left;
            self.chain.push(&entry);
            self.entries.push_back(entry);
        }
        if let Some(fault) = fault {
            let failed = format!("a scripted fault: {fault:?}");
            handle.failed = Some(failed.clone());
            return Err(AppendError::Unknown(failed));
        }
        handle.claimed = true;
        Ok(())
    }
}

impl HandleState {
    fn check(&self) -> Result<(), LogError> {
        self.failed.clone().map_or(Ok(()), |failed| Err(LogError::Failed(failed)))
    }
}

impl Log for MemoryLog {
    fn id(&self) -> LogId {
        self.id
    }

    fn entry_bytes_max(&self) -> usize {
        self.shared.lock().entry_bytes_max
    }

    fn tail(&self) -> Result<Tail, LogError> {
        self.handle.lock().check()?;
        Ok(self.shared.lock().tail())
    }

    fn append(&self, at: Position, entries: &[Bytes]) -> Result<(), AppendError> {
        let mut handle = self.handle.lock();
        if handle.closed {
            return Err(AppendError::Refused("the log is closed".to_owned()));
        }
        if let Some(failed) = &handle.failed {
            return Err(AppendError::Refused(format!("the log must be reopened: {failed}")));
        }
        let mut shared = self.shared.lock();
        if at <= shared.chain.last() {
            let taken = shared.index(at).ok().and_then(|index| shared.entries.get(index));
            let trimmed = AppendError::Refused(format!("position {at} is trimmed"));
            return Err(taken.map_or(trimmed, |it| AppendError::Taken(it.header.clone())));
        }
        shared.append(&mut handle, at, entries)
    }

    fn read(
        &self,
        from: Position,
        visit: &mut dyn FnMut(Entry) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        let entries = {
            let shared = self.shared.lock();
            let index = shared.index(from)?;
            shared.entries.iter().skip(index).cloned().collect::<Vec<_>>()
        };
        for entry in entries {
            if visit(entry).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn entry(&self, at: Position) -> Result<Option<Bytes>, LogError> {
        let handle = self.handle.lock();
        let shared = self.shared.lock();
        let found = shared.entries.get(shared.index(at)?).map(|entry| entry.bytes.clone());
        if found.is_none() {
            handle.check()?;
        }
        Ok(found)
    }

    fn bytes_after(&self, after: Position) -> Result<u64, LogError> {
        let shared = self.shared.lock();
        let entries = shared.entries.iter().filter(|entry| entry.header.position > after);
        Ok(entries.map(|entry| entry.bytes.len() as u64).sum())
    }

    fn trim(&self, through: Position) -> Result<(), LogError> {
        let mut shared = self.shared.lock();
        // Whole commits are removed, up to the one that ends the log.
        let ends_commit = |entry: &Entry| entry.header.part + 1 == entry.header.parts;
        let last_begins = shared.entries.back().map(|entry| entry.header.commit_begins());
        let goes = |entry: &Entry| {
            entry.header.position <= through && Some(entry.header.position) < last_begins
        };
        let count = shared.entries.iter().take_while(|entry| goes(entry)).count();
        let kept = shared.entries.iter().take(count).rposition(ends_commit);
        let count = kept.map_or(0, |index| index + 1);
        shared.entries.drain(..count);
        shared.first = Position(shared.first.0 + count as u64);
        Ok(())
    }

    fn reopen(&self) -> Result<Tail, LogError> {
        let mut handle = self.handle.lock();
        if handle.failed.take().is_some() {
            handle.claimed = false;
        }
        Ok(self.shared.lock().tail())
    }

    fn close(&self) -> Result<(), LogError> {
        let mut handle = self.handle.lock();
        handle.check()?;
        handle.closed = true;
        Ok(())
    }
}

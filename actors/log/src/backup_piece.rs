//! A piece of a log is a file of the entries that follow a position, for a backup.
//!
//! It starts with the header of a segment, which holds its place in the log, and ends with its last
//! entry. A piece without entries is a header alone.

use std::io::{self, Read, Write};
use std::ops::ControlFlow;

use bytes::Bytes;

use crate::chain::Chain;
use crate::commit_parts::{Commit, Joiner};
use crate::entry::{Entry, EntryFault, HEADER_BYTES, Header, Kind, LogId, Position};
use crate::file::segment::{SEGMENT_HEADER_BYTES, SegmentFault, SegmentHeader};
use crate::port::{Log, LogError, Mark};

#[cfg(test)]
mod tests;

/// The reason why a piece could not be written.
#[derive(Debug, thiserror::Error)]
pub enum PieceError {
    /// The log cannot be read, or the requested entries are trimmed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The log ends before the position.
    #[error("the log ends at {last}, before {after}")]
    Ahead {
        /// The given position.
        after: Position,
        /// The last position of the log.
        last: Position,
    },
    /// The output failed.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// Writes the entries after a position, up to the end at the time of the call.
///
/// Returns the mark of that end.
///
/// # Errors
/// See [`PieceError`]. [`LogError::Trimmed`]: the entries after the position are removed.
pub fn write_piece(
    log: &dyn Log,
    after: Position,
    out: &mut dyn Write,
) -> Result<Mark, PieceError> {
    let mut end = mark_at(log, after)?;
    let tail = log.tail()?;
    let header = SegmentHeader {
        log: tail.log,
        shard: tail.shard,
        first: after.next(),
        prev: end.hash,
        epoch: end.epoch,
        segment_before: Position::START,
    };
    out.write_all(&header.encode())?;
    if after == tail.last {
        return Ok(end);
    }
    let mut failed = None;
    log.read(after.next(), &mut |entry| match out.write_all(&entry.bytes) {
        Ok(()) => {
            let Header { position, epoch, .. } = entry.header;
            end = Mark { position, epoch, hash: entry.hash() };
            ControlFlow::Continue(())
        }
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    failed.map_or(Ok(end), |error| Err(error.into()))
}

/// Returns the mark of a position, which the entry behind it names.
fn mark_at(log: &dyn Log, position: Position) -> Result<Mark, PieceError> {
    let tail = log.tail()?;
    if position == tail.last {
        return Ok(Mark { position, epoch: tail.epoch, hash: tail.hash });
    }
    let ahead = PieceError::Ahead { after: position, last: tail.last };
    let bytes = log.entry(position.next())?.ok_or(ahead)?;
    let failed = |fault: EntryFault| LogError::Failed(fault.to_string());
    let Header { kind, prev, epoch, .. } = Header::decode(&bytes).map_err(failed)?;
    // Only a claim raises the epoch.
    let epoch = if kind == Kind::Claim { epoch.saturating_sub(1) } else { epoch };
    Ok(Mark { position, epoch, hash: prev })
}

/// Reads a piece, and checks every entry and its link to the one before it.
#[derive(Debug)]
pub struct PieceReader<R> {
    input: R,
    file: String,
    offset: u64,
    start: Mark,
    chain: Chain,
    joiner: Joiner,
}

impl<R: Read> PieceReader<R> {
    /// Reads the header of a piece. Errors name it `file`.
    ///
    /// # Errors
    /// [`LogError::Damaged`], [`LogError::Newer`], or [`LogError::Failed`] when it cannot be read.
    pub fn new(mut input: R, file: &str) -> Result<Self, LogError> {
        let mut bytes = Vec::with_capacity(SEGMENT_HEADER_BYTES);
        let read = input.by_ref().take(SEGMENT_HEADER_BYTES as u64).read_to_end(&mut bytes);
        read.map_err(|error| LogError::Failed(format!("{file} cannot be read: {error}")))?;
        let header = SegmentHeader::decode(&bytes).map_err(|fault| {
            let (file, what) = (file.to_owned(), fault.to_string());
            match fault {
                SegmentFault::Newer(_) => LogError::Newer { file, offset: 0, what },
                _ => LogError::Damaged { position: None, file, offset: 0, what },
            }
        })?;
        let chain = header.chain();
        let start = Mark { position: chain.last(), epoch: chain.epoch(), hash: chain.hash() };
        let (file, joiner) = (file.to_owned(), Joiner::default());
        Ok(Self { input, file, offset: SEGMENT_HEADER_BYTES as u64, start, chain, joiner })
    }

    /// Returns the log of the piece.
    #[must_use]
    pub const fn log(&self) -> LogId {
        self.chain.log()
    }

    /// Returns the mark that the piece follows.
    #[must_use]
    pub const fn start(&self) -> Mark {
        self.start
    }

    /// Returns the mark of the last entry that was read.
    #[must_use]
    pub const fn end(&self) -> Mark {
        let chain = &self.chain;
        Mark { position: chain.last(), epoch: chain.epoch(), hash: chain.hash() }
    }

    /// Returns the input.
    pub fn into_input(self) -> R {
        self.input
    }

    /// Reads up to and including the next whole commit. `None` is the end of the piece.
    ///
    /// # Errors
    /// Those of [`new`](Self::new). A piece that ends within an entry or a commit is damaged.
    pub fn next_commit(&mut self) -> Result<Option<Commit>, LogError> {
        loop {
            let Some(entry) = self.next_entry()? else {
                if self.chain.is_whole() {
                    return Ok(None);
                }
                return Err(self.damaged("it ends within a commit"));
            };
            let joined = self.joiner.push(&entry);
            if let Some(commit) = joined.map_err(|error| self.damaged(&error.to_string()))? {
                return Ok(Some(commit));
            }
        }
    }

    fn next_entry(&mut self) -> Result<Option<Entry>, LogError> {
        let mut bytes = Vec::new();
        self.fill(&mut bytes, HEADER_BYTES)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let expected = self.chain.last().next();
        let of_entry = |it: &Self, fault| LogError::of_entry(&fault, expected, &it.file, it.offset);
        let header = Header::decode(&bytes).map_err(|fault| of_entry(self, fault))?;
        self.fill(&mut bytes, header.entry_bytes())?;
        let entry = Entry::decode(Bytes::from(bytes)).map_err(|fault| of_entry(self, fault))?;
        let fits = self.chain.check_and_push(&entry);
        fits.map_err(|fault| LogError::of_chain(&fault, expected, &self.file, self.offset))?;
        self.offset += entry.bytes.len() as u64;
        Ok(Some(entry))
    }

    /// Reads until there are so many bytes, or the piece ends.
    fn fill(&mut self, bytes: &mut Vec<u8>, count: usize) -> Result<(), LogError> {
        let missing = count.saturating_sub(bytes.len()) as u64;
        let read = self.input.by_ref().take(missing).read_to_end(bytes);
        let file = &self.file;
        read.map_err(|error| LogError::Failed(format!("{file} cannot be read: {error}")))?;
        Ok(())
    }

    fn damaged(&self, what: &str) -> LogError {
        LogError::Damaged {
            position: Some(self.chain.last().next()),
            file: self.file.clone(),
            offset: self.offset,
            what: what.to_owned(),
        }
    }
}

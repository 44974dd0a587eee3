//! Reads a segment entry by entry, and distinguishes its end from damage.

use std::io;

use bytes::Bytes;
use memchr::memmem;

use super::disk::DiskFile;
use super::segment::SEGMENT_HEADER_BYTES;
use crate::chain::Chain;
use crate::entry::{Entry, EntryFault, HEADER_BYTES, Header, MAGIC, Position, verify};
use crate::port::LogError;

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// Reads the entries of a segment in order.
#[derive(Debug)]
pub(super) struct EntryReader<'a> {
    file: &'a dyn DiskFile,
    /// The offset of the next entry.
    at: u64,
    /// The offset at which the reading ends.
    limit: u64,
    window: Vec<u8>,
    /// The offset of the window's first byte.
    window_at: u64,
}

impl<'a> EntryReader<'a> {
    /// Reads from the first entry up to `limit`, an offset.
    pub(super) fn new(file: &'a dyn DiskFile, limit: u64) -> Self {
        Self::from(file, SEGMENT_HEADER_BYTES as u64, limit)
    }

    /// Reads from the entry at an offset.
    pub(super) fn from(file: &'a dyn DiskFile, at: u64, limit: u64) -> Self {
        Self { file, at, limit, window: Vec::new(), window_at: at }
    }

    /// Returns the offset of the next entry.
    pub(super) const fn at(&self) -> u64 {
        self.at
    }

    /// Returns the next `count` bytes, or fewer at the end of the segment.
    fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        let left = usize::try_from(self.limit.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let count = count.min(left);
        // `at` never falls behind the window, see `advance`.
        let mut from = (self.at - self.window_at) as usize;
        if self.window.len() < from + count {
            self.window.drain(..from.min(self.window.len()));
            self.window_at = self.at;
            from = 0;
            let have = self.window.len();
            self.window.resize(count.max(CHUNK_BYTES).min(left), 0);
            let begin = self.at + have as u64;
            let read = self.file.read_at(begin, &mut self.window[have..])?;
            self.window.truncate(have + read);
        }
        let end = self.window.len().min(from + count);
        Ok(&self.window[from..end])
    }

    const fn advance(&mut self, bytes: usize) {
        self.at += bytes as u64;
    }

    /// Reads the next entry and moves behind it. A fault leaves the reader where it was.
    pub(super) fn next_entry(&mut self) -> io::Result<Result<Entry, EntryFault>> {
        let header = match Header::decode(self.peek(HEADER_BYTES)?) {
            Ok(header) => header,
            Err(fault) => return Ok(Err(fault)),
        };
        let bytes = self.peek(header.entry_bytes())?;
        if let Err(fault) = verify(bytes) {
            return Ok(Err(fault));
        }
        let bytes = Bytes::copy_from_slice(bytes);
        self.advance(bytes.len());
        Ok(Ok(Entry { header, bytes }))
    }
}

/// The end of the newest segment.
#[derive(Debug)]
pub(super) struct SegmentEnd {
    /// The chain up to the last whole commit.
    pub(super) chain: Chain,
    /// The header of that commit's last entry, if the segment has one.
    pub(super) header: Option<Header>,
    /// The offset behind it.
    pub(super) offset: u64,
    /// The bytes of a commit that was not written whole.
    pub(super) torn_bytes: u64,
}

/// Finds the end of the newest segment.
///
/// `keep_through` cuts off the whole commits behind it, whose sync is known to have failed.
///
/// Only one commit is ever written without being synced. So the first place without a whole entry
/// is the end of the log, unless a whole entry of a later commit follows. In that case it was
/// synced once, and is damaged.
pub(super) fn find_end(
    name: &str,
    file: &dyn DiskFile,
    chain: Chain,
    keep_through: Option<Position>,
) -> Result<SegmentEnd, LogError> {
    let failed = |error: io::Error| read_failed(name, &error);
    let length = file.length().map_err(failed)?;
    let mut reader = EntryReader::new(file, length);
    let mut end =
        SegmentEnd { chain: chain.clone(), header: None, offset: reader.at(), torn_bytes: 0 };
    let mut chain = chain;
    loop {
        if keep_through.is_some_and(|last| end.chain.last() >= last) {
            break;
        }
        let at = reader.at();
        match reader.next_entry().map_err(failed)? {
            Ok(entry) => match chain.check(&entry.header) {
                Ok(()) => {
                    chain.push(&entry);
                    if chain.is_whole() {
                        end.chain = chain.clone();
                        end.header = Some(entry.header);
                        end.offset = reader.at();
                    }
                }
                // Bytes that were written there before the segment was created are no entry of the
                // log.
                Err(_) if entry.header.position < chain.last().next() => {
                    refuse_later_entry(name, file, at + 1, length, &chain)?;
                    break;
                }
                Err(fault) => {
                    return Err(LogError::of_chain(&fault, chain.last().next(), name, at));
                }
            },
            Err(_) => {
                refuse_later_entry(name, file, at, length, &chain)?;
                break;
            }
        }
    }
    end.torn_bytes = bytes_before_zeros(file, end.offset, length).map_err(failed)?;
    Ok(end)
}

/// Fails if a later whole entry, or one of a newer version, is behind `from`.
///
/// A later entry belongs to a later commit than the one that must be at `from`.
fn refuse_later_entry(
    name: &str,
    file: &dyn DiskFile,
    from: u64,
    length: u64,
    chain: &Chain,
) -> Result<(), LogError> {
    let (log, torn) = (chain.log(), chain.commit_begins());
    let failed = |error: io::Error| read_failed(name, &error);
    let is_later = |header: &Header| header.log == log && header.commit_begins() > torn;
    match find_entry(file, from, length, &is_later).map_err(failed)? {
        None => Ok(()),
        Some(FoundEntry::Newer(offset, fault)) => {
            Err(LogError::of_entry(&fault, chain.last().next(), name, offset))
        }
        Some(FoundEntry::Entry(offset, header)) => Err(LogError::Damaged {
            position: Some(chain.last().next()),
            file: name.to_owned(),
            offset: from,
            what: describe_not_whole(offset, header.position),
        }),
    }
}

/// Describes an entry behind a place without one.
pub(super) fn describe_not_whole(offset: u64, position: Position) -> String {
    format!("no whole entry is here, but entry {position} follows at byte {offset}")
}

/// The result of a search behind a place without an entry.
pub(super) enum FoundEntry {
    /// A whole entry, at an offset.
    Entry(u64, Header),
    /// An entry of a newer version.
    Newer(u64, EntryFault),
}

/// Returns the first wanted whole entry at or behind `from`.
pub(super) fn find_entry(
    file: &dyn DiskFile,
    from: u64,
    length: u64,
    is_wanted: &dyn Fn(&Header) -> bool,
) -> io::Result<Option<FoundEntry>> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = from;
    while at < length {
        let read = file.read_at(at, &mut chunk)?;
        for found in memmem::find_iter(&chunk[..read], &MAGIC) {
            let offset = at + found as u64;
            let mut reader = EntryReader::from(file, offset, length);
            match Header::decode(reader.peek(HEADER_BYTES)?) {
                Err(fault @ EntryFault::Newer { .. }) => {
                    return Ok(Some(FoundEntry::Newer(offset, fault)));
                }
                Ok(header) if is_wanted(&header) => {
                    if reader.next_entry()?.is_ok() {
                        return Ok(Some(FoundEntry::Entry(offset, header)));
                    }
                }
                Ok(_) | Err(_) => {}
            }
        }
        if read < chunk.len() {
            break;
        }
        // A magic may span two chunks.
        at += (read - (MAGIC.len() - 1)) as u64;
    }
    Ok(None)
}

/// Returns the number of bytes from `from` up to the last one that is not zero.
pub(super) fn bytes_before_zeros(file: &dyn DiskFile, from: u64, length: u64) -> io::Result<u64> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let no_bytes = vec![0; CHUNK_BYTES];
    let (mut at, mut used) = (from, 0);
    while at < length {
        let read = file.read_at(at, &mut chunk)?;
        if read == 0 {
            break;
        }
        // Most of it is zeros, which one comparison of memory finds.
        if chunk[..read] != no_bytes[..read]
            && let Some(last) = chunk[..read].iter().rposition(|byte| *byte != 0)
        {
            used = at + last as u64 + 1 - from;
        }
        at += read as u64;
    }
    Ok(used)
}

/// Returns the error for a file that cannot be read.
pub(super) fn read_failed(name: &str, error: &io::Error) -> LogError {
    LogError::Failed(format!("{name} cannot be read: {error}"))
}

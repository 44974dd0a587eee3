//! Opens a log: checks its segments, and repairs the end of the newest one.
//!
//! The mark of a clean stop, which is written here too, makes the repair unnecessary.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::disk::{Disk, DiskFile};
use super::prepare::{NEXT, Preparer, fill_with_zeros, remove_unfinished};
use super::scan::{SegmentEnd, find_end, read_failed};
use super::segment::{
    SEGMENT_HEADER_BYTES, SegmentFault, SegmentHeader, position_in_name, segment_name,
};
use crate::chain::Chain;
use crate::entry::{EntryHash, Header, LogId, Position, field, u32_at, u64_at};
use crate::port::{LogError, Start};

/// The name of a segment's copy while it is written.
const COPY: &str = "copy.tmp";
/// Bytes that are copied at once.
const COPY_BYTES: usize = 1024 * 1024;
/// The name of the file that records the end of the log at a clean stop.
pub(super) const CLOSED: &str = "closed";
/// Its name while it is written.
pub(super) const CLOSED_TMP: &str = "closed.tmp";

const CLOSED_MAGIC: [u8; 8] = *b"PRCL\x01\0\0\0";
const CLOSED_BYTES: usize = 52;
const CLOSED_CHECKED: usize = CLOSED_BYTES - 4;

/// A segment that is part of the log.
#[derive(Debug, Clone)]
pub(super) struct LogSegment {
    pub(super) header: SegmentHeader,
    pub(super) file: Arc<dyn DiskFile>,
    /// The last position in it; while it is empty, the position before its first one.
    pub(super) last: Position,
    /// The offset behind the last entry. It may be higher in a segment that is not the newest.
    pub(super) end: u64,
    /// The length of the file.
    pub(super) length: u64,
}

impl LogSegment {
    pub(super) fn name(&self) -> String {
        segment_name(self.header.first)
    }
}

/// The end of a log that was stopped cleanly, which a file records.
///
/// The file holds the magic `PRCL`, the version 1, three zeros, the id of the log, the last
/// position, the hash of the last entry, and the CRC-32C of all that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CleanStop {
    pub(super) log: LogId,
    pub(super) last: Position,
    pub(super) hash: EntryHash,
}

impl CleanStop {
    pub(super) const fn of(chain: &Chain) -> Self {
        Self { log: chain.log(), last: chain.last(), hash: chain.hash() }
    }

    pub(super) fn encode(&self) -> [u8; CLOSED_BYTES] {
        let mut out = [0; CLOSED_BYTES];
        out[..8].copy_from_slice(&CLOSED_MAGIC);
        out[8..24].copy_from_slice(&self.log.0);
        out[24..32].copy_from_slice(&self.last.0.to_be_bytes());
        out[32..48].copy_from_slice(&self.hash.0);
        let checksum = crc32c::crc32c(&out[..CLOSED_CHECKED]);
        out[CLOSED_CHECKED..].copy_from_slice(&checksum.to_be_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let is_whole = bytes.len() == CLOSED_BYTES && bytes[..8] == CLOSED_MAGIC;
        if !is_whole || u32_at(bytes, CLOSED_CHECKED) != crc32c::crc32c(&bytes[..CLOSED_CHECKED]) {
            return None;
        }
        let (log, hash) = (LogId(field(bytes, 8)), EntryHash(field(bytes, 32)));
        Some(Self { log, last: Position(u64_at(bytes, 24)), hash })
    }

    /// Creates the file, durably.
    pub(super) fn write(&self, disk: &dyn Disk) -> io::Result<()> {
        let file = disk.create(CLOSED_TMP)?;
        file.write_at(0, &self.encode())?;
        file.sync()?;
        disk.rename(CLOSED_TMP, CLOSED)?;
        disk.sync_names()
    }

    /// Reads the file.
    ///
    /// A damaged file is ignored: the log is then repaired as after a crash.
    pub(super) fn read(disk: &dyn Disk) -> io::Result<Option<Self>> {
        let file = disk.open(CLOSED)?;
        let mut bytes = [0; CLOSED_BYTES + 1];
        let read = file.read_at(0, &mut bytes)?;
        Ok(Self::decode(&bytes[..read]))
    }
}

/// An opened log.
#[derive(Debug)]
pub(super) struct RecoveredLog {
    /// The segments, at least one.
    pub(super) segments: Vec<LogSegment>,
    pub(super) end: SegmentEnd,
}

/// The options for opening a log.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecoverOptions<'a> {
    /// The length of segments.
    pub(super) segment_bytes: u64,
    /// The start of a new log.
    pub(super) start: &'a Start,
    /// A position that the log must reach. If it does not, nothing is changed.
    pub(super) acknowledged: Position,
    /// The last durable position, if the log is opened after a failed append.
    pub(super) keep_through: Option<Position>,
}

/// Opens the log, or creates one.
///
/// Unless the log was stopped cleanly, a synced copy of its whole part replaces the newest segment.
/// After a failed sync the kernel may show bytes that are not on the disk.
pub(super) fn recover(
    disk: &Arc<dyn Disk>,
    options: &RecoverOptions<'_>,
) -> Result<RecoveredLog, LogError> {
    let names = disk.list().map_err(|error| failed("the directory cannot be read", &error))?;
    for unfinished in [NEXT, COPY, CLOSED_TMP] {
        if names.iter().any(|name| name == unfinished) {
            let remove = disk.remove(unfinished);
            remove.map_err(|error| failed("an unfinished file cannot be removed", &error))?;
        }
    }
    let closed = match names.iter().any(|name| name == CLOSED) {
        true => CleanStop::read(&**disk).map_err(|error| read_failed(CLOSED, &error))?,
        false => None,
    };
    let mut segments = open_segments(&**disk, &names)?;
    let Some(newest) = segments.last() else {
        let marked = closed.map_or(Position::START, |closed| closed.last);
        check_reaches(options.start.after, options.acknowledged.max(marked))?;
        return create_log(disk, options);
    };
    if newest.header.shard != options.start.shard {
        let (name, first) = (newest.name(), newest.header.first);
        return Err(damaged(&name, Some(first), "it belongs to another shard"));
    }
    let chain = newest.header.chain();
    let mut end = find_end(&newest.name(), &*newest.file, chain, options.keep_through)?;
    check_reaches(end.chain.last(), options.acknowledged)?;
    if end.header.is_none() {
        let before = segments.len().checked_sub(2).map(|index| &segments[index]);
        end.header = last_header(before, &newest.header)?;
    }
    let is_clean =
        options.keep_through.is_none() && is_at_clean_stop(closed, &newest.name(), &end)?;
    if !is_clean || end.torn_bytes > 0 {
        if end.torn_bytes > 0 && options.keep_through.is_none() {
            let (file, offset, bytes) = (newest.name(), end.offset, end.torn_bytes);
            tracing::warn!(file, offset, bytes, "cut off a commit that was not written whole");
        }
        let copy = replace_by_copy(&**disk, newest, end.offset, options.segment_bytes);
        let copy = copy.map_err(|error| failed("the newest segment cannot be copied", &error))?;
        segments.pop();
        segments.push(copy);
    }
    if let Some(newest) = segments.last_mut() {
        (newest.last, newest.end) = (end.chain.last(), end.offset);
    }
    Ok(RecoveredLog { segments, end })
}

/// Fails if an acknowledged position is behind the end of the log.
fn check_reaches(last: Position, applied: Position) -> Result<(), LogError> {
    if applied > last { Err(LogError::Lost { last, applied }) } else { Ok(()) }
}

fn failed(what: &str, error: &io::Error) -> LogError {
    LogError::Failed(format!("{what}: {error}"))
}

/// Opens all segments and checks that their headers have no gap.
fn open_segments(disk: &dyn Disk, names: &[String]) -> Result<Vec<LogSegment>, LogError> {
    let mut firsts = Vec::new();
    for name in names {
        match position_in_name(name) {
            None => {}
            Some(Ok(first)) => firsts.push(first),
            Some(Err(())) => return Err(damaged(name, None, "its name is not a segment's")),
        }
    }
    firsts.sort_unstable();
    let mut segments: Vec<LogSegment> = Vec::new();
    for first in firsts {
        let segment = open_segment(disk, first)?;
        if let Some(before) = segments.last_mut() {
            let (old, new) = (&before.header, &segment.header);
            let what = if (old.log, old.shard) != (new.log, new.shard) {
                "it belongs to another log"
            } else if new.segment_before != old.first {
                "the segment before it is missing"
            } else {
                ""
            };
            if !what.is_empty() {
                return Err(damaged(&segment.name(), Some(first), what));
            }
            before.last = first.previous();
        }
        segments.push(segment);
    }
    Ok(segments)
}

/// Opens a segment and reads its header.
pub(super) fn open_segment(disk: &dyn Disk, first: Position) -> Result<LogSegment, LogError> {
    let name = segment_name(first);
    let unreadable = |error: io::Error| read_failed(&name, &error);
    let file = disk.open(&name).map_err(unreadable)?;
    let mut bytes = vec![0; SEGMENT_HEADER_BYTES];
    let read = file.read_at(0, &mut bytes).map_err(unreadable)?;
    let header = SegmentHeader::decode(&bytes[..read]).map_err(|fault| match fault {
        SegmentFault::Newer(_) => {
            LogError::Newer { file: name.clone(), offset: 0, what: fault.to_string() }
        }
        _ => damaged(&name, Some(first), &fault.to_string()),
    })?;
    if header.first != first {
        return Err(damaged(&name, Some(first), "its header has another position than its name"));
    }
    let length = file.length().map_err(unreadable)?;
    Ok(LogSegment { header, file, last: first.previous(), end: length, length })
}

fn damaged(file: &str, position: Option<Position>, what: &str) -> LogError {
    LogError::Damaged { position, file: file.to_owned(), offset: 0, what: what.to_owned() }
}

/// Returns the header of the last entry of a segment, which an empty segment follows.
///
/// `None` before the first entry of a log. The segment must end at the position in the other
/// header. A segment is followed only after all of it was synced, and stays as long as it has the
/// last entry.
fn last_header(
    before: Option<&LogSegment>,
    next: &SegmentHeader,
) -> Result<Option<Header>, LogError> {
    let Some(before) = before else {
        let is_first = next.segment_before == Position::START;
        let missing =
            damaged(&segment_name(next.first), Some(next.first), "the segment before is missing");
        return if is_first { Ok(None) } else { Err(missing) };
    };
    let file = before.name();
    let end = find_end(&file, &*before.file, before.header.chain(), None)?;
    match end.header {
        Some(header) if (end.chain.last(), end.chain.hash()) == (before.last, next.prev) => {
            Ok(Some(header))
        }
        _ => Err(LogError::Damaged {
            position: Some(end.chain.last().next()),
            file,
            offset: end.offset,
            what: format!("it does not end with entry {}, which the next one follows", before.last),
        }),
    }
}

/// Returns whether the log was stopped cleanly, and still ends there.
fn is_at_clean_stop(
    closed: Option<CleanStop>,
    file: &str,
    end: &SegmentEnd,
) -> Result<bool, LogError> {
    let here = CleanStop::of(&end.chain);
    let Some(closed) = closed.filter(|closed| closed.log == here.log) else { return Ok(false) };
    check_reaches(here.last, closed.last)?;
    if closed.last == here.last && closed.hash != here.hash {
        return Err(LogError::Damaged {
            position: Some(closed.last),
            file: file.to_owned(),
            offset: end.offset,
            what: "the last entry is another one than at the clean stop".to_owned(),
        });
    }
    Ok(closed == here)
}

/// Replaces a segment by a synced copy of its bytes before `end`, with zeros behind them.
fn replace_by_copy(
    disk: &dyn Disk,
    segment: &LogSegment,
    end: u64,
    segment_bytes: u64,
) -> io::Result<LogSegment> {
    let length = segment.length.max(segment_bytes);
    let copy = disk.create(COPY)?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut at = 0;
    while at < end {
        let step = usize::try_from(end - at).unwrap_or(COPY_BYTES).min(COPY_BYTES);
        if segment.file.read_at(at, &mut buffer[..step])? != step {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        copy.write_at(at, &buffer[..step])?;
        at += step as u64;
    }
    copy.sync()?;
    fill_with_zeros(&*copy, end, length, &AtomicBool::new(false))?;
    disk.rename(COPY, &segment.name())?;
    disk.sync_names()?;
    Ok(LogSegment { file: copy, length, ..segment.clone() })
}

/// Creates the first segment of a new log.
fn create_log(
    disk: &Arc<dyn Disk>,
    options: &RecoverOptions<'_>,
) -> Result<RecoveredLog, LogError> {
    let chain = options.start.chain();
    let header = SegmentHeader::after(&chain, Position::START);
    let mut preparer = Preparer::new(disk.clone(), false);
    let made = preparer
        .take(options.segment_bytes)
        .and_then(|file| begin_segment(&**disk, &header, &file).map(|()| file));
    let file = made.map_err(|error| failed("the first segment cannot be made", &error))?;
    let renamed = name_segment(&**disk, &header);
    renamed.map_err(|error| failed("the first segment cannot be made", &error))?;
    let offset = SEGMENT_HEADER_BYTES as u64;
    let (last, length) = (options.start.after, options.segment_bytes);
    let segments = vec![LogSegment { header, file, last, end: offset, length }];
    Ok(RecoveredLog { segments, end: SegmentEnd { chain, header: None, offset, torn_bytes: 0 } })
}

/// Writes the header of the prepared segment.
pub(super) fn begin_segment(
    disk: &dyn Disk,
    header: &SegmentHeader,
    file: &Arc<dyn DiskFile>,
) -> io::Result<()> {
    let written = file.write_at(0, &header.encode()).and_then(|()| file.sync());
    written.inspect_err(|_| remove_unfinished(disk))
}

/// Makes the prepared segment the newest one.
pub(super) fn name_segment(disk: &dyn Disk, header: &SegmentHeader) -> io::Result<()> {
    disk.rename(NEXT, &segment_name(header.first))?;
    disk.sync_names()
}

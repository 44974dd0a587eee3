//! Reads all files of a log without a writer, and reports all damage.
//!
//! Nothing is changed. Entries behind damage are read too: the chain starts again at the next whole
//! commit in the segment.

use std::io;
use std::path::Path;

use super::disk::{Disk, DiskFile, ReadOnlyDisk};
use super::recover::{CLOSED, CleanStop, LogSegment, open_segment};
use super::scan::{
    EntryReader, FoundEntry, bytes_before_zeros, describe_not_whole, find_entry, read_failed,
};
use super::segment::{SEGMENT_HEADER_BYTES, position_in_name};
use crate::chain::Chain;
use crate::entry::{Entry, EntryHash, Header, Kind, LogId, Position};
use crate::port::LogError;

/// A log that is not written as long as this exists.
#[derive(Debug)]
pub struct StoppedLog {
    disk: Box<dyn Disk>,
}

/// The contents of a log's files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inspection {
    /// The log; `None` without a readable segment.
    pub id: Option<LogId>,
    /// The first position; 0 without a segment.
    pub first: Position,
    /// The last position of a whole commit.
    pub last: Position,
    /// The epoch of the last entry.
    pub epoch: u64,
    /// The hash of the last entry.
    pub hash: EntryHash,
    /// The number of files.
    pub segments: usize,
    /// The bytes of all readable entries.
    pub bytes: u64,
    /// The bytes of a commit at the end that was not written whole.
    pub torn_bytes: u64,
    /// The end, as a file and an offset.
    pub end: (String, u64),
    /// The damage, in the order of the positions.
    pub gaps: Vec<LogGap>,
}

/// A damaged place of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogGap {
    /// The error with its place.
    pub error: LogError,
    /// The first and the last unreadable position; `None` if all can be read.
    pub positions: Option<(Position, Position)>,
    /// The last position in the segment.
    pub segment_ends: Position,
    /// Set if it is in the newest segment, which every start reads.
    pub is_newest: bool,
}

/// Called with each entry, its file and its offset.
pub type VisitEntry<'a> = &'a mut dyn FnMut(&Entry, &str, u64);

impl StoppedLog {
    /// Locks the log in an existing directory.
    ///
    /// # Errors
    /// [`LogError::Locked`] if a writer has it; [`LogError::Failed`] if it cannot be read.
    pub fn open(dir: &Path) -> Result<Self, LogError> {
        Ok(Self { disk: Box::new(ReadOnlyDisk::open(dir)?) })
    }

    #[cfg(test)]
    pub(crate) fn open_on(disk: impl Disk + 'static) -> Self {
        Self { disk: Box::new(disk) }
    }

    /// Reads all segments, and visits their whole entries.
    ///
    /// An entry is visited if it follows the one before it, or starts a commit behind damage.
    ///
    /// # Errors
    /// [`LogError::Failed`] when a file cannot be read at all.
    pub fn inspect(&self, visit: VisitEntry<'_>) -> Result<Inspection, LogError> {
        self.inspect_while(visit, &|| true)
    }

    /// Does the same, but reads no further segment once `goes_on` returns false.
    ///
    /// The result then covers the segments that were read.
    ///
    /// # Errors
    /// [`LogError::Failed`] when a file cannot be read at all.
    pub fn inspect_while(
        &self,
        visit: VisitEntry<'_>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Inspection, LogError> {
        let failed = |error: io::Error| LogError::Failed(format!("log/ cannot be read: {error}"));
        let mut found = Inspection::default();
        let (mut firsts, names) = (Vec::new(), self.disk.list().map_err(failed)?);
        for name in &names {
            match position_in_name(name) {
                None => {}
                Some(Ok(first)) => firsts.push(first),
                Some(Err(())) => found.gaps.push(bad_name_gap(name)),
            }
        }
        firsts.sort_unstable();
        found.first = firsts.first().copied().unwrap_or_default();
        found.segments = firsts.len();
        let opened: Vec<_> = firsts.iter().map(|first| open_segment(&*self.disk, *first)).collect();
        let mut hash = None;
        for (index, &first) in firsts.iter().enumerate() {
            if !goes_on() {
                return Ok(found);
            }
            let next = opened.get(index + 1).map(|next| match next {
                // The missing entries between them may have been the end of this one.
                Ok(next) if next.header.segment_before != first => None,
                _ => Some(firsts[index + 1].previous()),
            });
            let place = SegmentPlace {
                first,
                before: index.checked_sub(1).map(|before| firsts[before]),
                ends: next.flatten(),
                is_newest: next.is_none(),
            };
            hash = inspect_segment(&place, &opened[index], hash, &mut found, visit)?;
        }
        if names.iter().any(|name| name == CLOSED) {
            let closed =
                CleanStop::read(&*self.disk).map_err(|error| read_failed(CLOSED, &error))?;
            found.check_closed(closed);
        }
        Ok(found)
    }
}

/// The place of a segment among the others.
struct SegmentPlace {
    first: Position,
    /// The first position of the previous segment.
    before: Option<Position>,
    /// Its required last position, if that is known.
    ends: Option<Position>,
    is_newest: bool,
}

impl SegmentPlace {
    fn gap(&self, error: LogError, positions: Option<(Position, Position)>) -> LogGap {
        let through = positions.map_or(self.first, |(_, through)| through);
        let segment_ends = self.ends.unwrap_or(through);
        LogGap { error, positions, segment_ends, is_newest: self.is_newest }
    }
}

/// Reads one segment. Returns the hash of its last entry, if all of it was readable.
fn inspect_segment(
    place: &SegmentPlace,
    opened: &Result<LogSegment, LogError>,
    hash: Option<EntryHash>,
    found: &mut Inspection,
    visit: VisitEntry<'_>,
) -> Result<Option<EntryHash>, LogError> {
    let first = place.first;
    let segment = match opened {
        Ok(segment) => segment,
        Err(error @ LogError::Failed(_)) => return Err(error.clone()),
        Err(error) => {
            let positions = Some((first, place.ends.unwrap_or(first)));
            found.gaps.push(place.gap(error.clone(), positions));
            return Ok(None);
        }
    };
    let name = segment.name();
    let (header, id) = (&segment.header, *found.id.get_or_insert(segment.header.log));
    let missing = Some((found.last.next(), first.previous()));
    let mut report = |what: &str, positions| {
        let (file, what) = (name.clone(), what.to_owned());
        let error = LogError::Damaged { position: Some(first), file, offset: 0, what };
        found.gaps.push(place.gap(error, positions));
    };
    if header.log != id {
        report("it belongs to another log", None);
    } else if header.segment_before != place.before.unwrap_or(header.segment_before) {
        report("the segment before it is missing", missing);
    } else if hash.is_some_and(|hash| hash != header.prev) {
        report("it follows another entry than the last one before it", None);
    }
    let walk = SegmentWalk { segment, name: &name, place };
    walk.read_to_end(found, visit).map_err(|error| read_failed(&name, &error))
}

impl Inspection {
    /// Checks that the end of a clean stop is reached.
    fn check_closed(&mut self, closed: Option<CleanStop>) {
        let Some(closed) = closed.filter(|closed| Some(closed.log) == self.id) else { return };
        let is_reported = self.gaps.iter().any(|gap| gap.is_newest);
        if closed.last > self.last && !is_reported {
            self.gaps.push(LogGap {
                error: LogError::Lost { last: self.last, applied: closed.last },
                positions: Some((self.last.next(), closed.last)),
                segment_ends: self.last,
                is_newest: true,
            });
        }
    }

    /// Returns whether all positions from this one on can be read.
    #[must_use]
    pub fn reads_from(&self, from: Position) -> bool {
        let is_behind = |gap: &LogGap| gap.positions.is_none_or(|(_, through)| through >= from);
        from >= self.first && !self.gaps.iter().any(is_behind)
    }
}

fn bad_name_gap(name: &str) -> LogGap {
    let what = "its name is not a segment's".to_owned();
    let error = LogError::Damaged { position: None, file: name.to_owned(), offset: 0, what };
    LogGap { error, positions: None, segment_ends: Position::START, is_newest: true }
}

/// The reading of one segment.
struct SegmentWalk<'a> {
    segment: &'a LogSegment,
    name: &'a str,
    place: &'a SegmentPlace,
}

impl SegmentWalk<'_> {
    fn file(&self) -> &dyn DiskFile {
        &*self.segment.file
    }

    /// Reads the segment to its end. Returns the hash of its last entry, if that was read.
    fn read_to_end(
        &self,
        found: &mut Inspection,
        visit: VisitEntry<'_>,
    ) -> io::Result<Option<EntryHash>> {
        let length = self.segment.length;
        let mut chain = self.segment.header.chain();
        let mut reader = EntryReader::new(self.file(), length);
        // The end of the last whole commit.
        let mut whole = (chain.clone(), SEGMENT_HEADER_BYTES as u64);
        while self.place.ends.is_none_or(|ends| chain.last() < ends) {
            let (at, next) = (reader.at(), chain.last().next());
            let (error, is_old) = match reader.next_entry()? {
                Ok(entry) => match chain.check_and_push(&entry) {
                    Ok(()) => {
                        found.bytes += entry.bytes.len() as u64;
                        visit(&entry, self.name, at);
                        if chain.is_whole() {
                            whole = (chain.clone(), reader.at());
                        }
                        continue;
                    }
                    Err(fault) => {
                        let is_old = entry.header.position < next;
                        (LogError::of_chain(&fault, next, self.name, at), is_old)
                    }
                },
                Err(fault) => (LogError::of_entry(&fault, next, self.name, at), true),
            };
            match self.resume_behind(&chain, at, error, is_old, found)? {
                Some((anew, offset)) => {
                    reader = EntryReader::from(self.file(), offset, length);
                    chain = anew;
                }
                None => break,
            }
        }
        let (chain, offset) = whole;
        if chain.last() > found.last || found.hash == EntryHash::NONE {
            (found.last, found.epoch, found.hash) = (chain.last(), chain.epoch(), chain.hash());
        }
        found.end = (self.name.to_owned(), offset);
        let is_to_the_end = self.place.ends.is_none_or(|ends| chain.last() == ends);
        if is_to_the_end {
            self.check_rest(offset, found)?;
        }
        Ok(is_to_the_end.then(|| chain.hash()))
    }

    /// Reports a place without its entry, and finds the next whole commit behind it.
    ///
    /// `None` is the end of the readable part.
    fn resume_behind(
        &self,
        chain: &Chain,
        at: u64,
        mut error: LogError,
        may_be_end: bool,
        found: &mut Inspection,
    ) -> io::Result<Option<(Chain, u64)>> {
        let (log, shard, torn) = (chain.log(), chain.shard(), chain.commit_begins());
        let length = self.segment.length;
        let is_later = |header: &Header| header.log == log && header.commit_begins() > torn;
        let later = match error {
            LogError::Newer { .. } => None,
            _ => find_entry(self.file(), at + 1, length, &is_later)?,
        };
        let ends = self.place.ends;
        let is_end = may_be_end && ends.is_none() && later.is_none();
        if is_end && !matches!(error, LogError::Newer { .. }) {
            return Ok(None);
        }
        let begins = |header: &Header| is_later(header) && header.part == 0;
        let (through, anew) = match later {
            Some(FoundEntry::Newer(offset, fault)) => {
                error = LogError::of_entry(&fault, chain.last().next(), self.name, offset);
                (ends, None)
            }
            Some(FoundEntry::Entry(offset, header)) => {
                if let LogError::Damaged { what, .. } = &mut error {
                    *what = describe_not_whole(offset, header.position);
                }
                match find_entry(self.file(), offset, length, &begins)? {
                    Some(FoundEntry::Entry(offset, header)) => {
                        let last = header.position.previous();
                        let epoch = header.epoch - u64::from(header.kind == Kind::Claim);
                        let anew = Chain::new(log, shard, last, epoch, header.prev);
                        (Some(last), Some((anew, offset)))
                    }
                    _ => (Some(ends.unwrap_or(header.position)), None),
                }
            }
            None => (ends, None),
        };
        let through = through.unwrap_or(torn).max(torn);
        found.gaps.push(self.place.gap(error, Some((torn, through))));
        Ok(anew)
    }

    /// Checks that only zeros follow the last entry of a segment.
    ///
    /// A commit that was not written whole may also follow.
    fn check_rest(&self, offset: u64, found: &mut Inspection) -> io::Result<()> {
        let bytes = bytes_before_zeros(self.file(), offset, self.segment.length)?;
        if self.place.is_newest {
            found.torn_bytes = bytes;
        } else if bytes > 0 {
            let error = LogError::Damaged {
                position: None,
                file: self.name.to_owned(),
                offset: offset + bytes - 1,
                what: "there must be zeros behind the last entry".to_owned(),
            };
            found.gaps.push(self.place.gap(error, None));
        }
        Ok(())
    }
}

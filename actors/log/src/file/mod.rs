//! A log in files: zero-filled segments, one sync for each append, and a recoverable end.
//!
//! At most one commit is written and not yet synced. So an incomplete commit at the end of the
//! newest segment was never acknowledged, unless a later commit is behind it; then it is damage.
//! The log assumes one thing about the disk: writing a sector again with a longer tail does not
//! harm the unchanged bytes in it.

mod append;
pub(crate) mod disk;
pub mod inspect;
mod prepare;
mod recover;
mod scan;
pub(crate) mod segment;

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use append::{AppendFailure, SegmentWriter};
use disk::{Disk, RealDisk};
use recover::{CleanStop, LogSegment, RecoverOptions, RecoveredLog, recover};
use scan::{EntryReader, read_failed};
use segment::SEGMENT_HEADER_BYTES;

use crate::entry::{Entry, LogId, Position};
use crate::port::{AppendError, Log, LogError, Start, Tail};

/// The options of a log in files.
#[derive(Debug, Clone)]
pub struct FileOptions {
    /// The length of a segment. A segment for a larger commit is longer.
    pub segment_bytes: u64,
    /// The maximum bytes of one entry.
    pub entry_bytes_max: usize,
    /// Set if the next segment is prepared on a thread of its own.
    pub prepares_ahead: bool,
    /// An acknowledged position, such as one that a view applied.
    ///
    /// Opening refuses a log that ends before it, and changes no byte.
    pub acknowledged: Position,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 64 * 1024 * 1024,
            entry_bytes_max: 16 * 1024 * 1024,
            prepares_ahead: true,
            acknowledged: Position::START,
        }
    }
}

/// A log in the files of one directory.
#[derive(Debug)]
pub struct FileLog {
    disk: Arc<dyn Disk>,
    options: FileOptions,
    start: Start,
    /// The part that readers see: only durable entries.
    shown: RwLock<ShownLog>,
    /// Held for the whole of an append. Taken before `trimming`.
    writer: Mutex<SegmentWriter>,
    trimming: Mutex<()>,
}

/// The durable part of the log.
#[derive(Debug, Clone)]
struct ShownLog {
    tail: Tail,
    segments: Vec<LogSegment>,
    /// The reason why the log must be reopened.
    failed: Option<String>,
}

impl FileLog {
    /// Opens the log in a directory, and creates both if they are missing.
    ///
    /// `start` describes a new log; the id of an existing one is read from it.
    ///
    /// # Errors
    /// [`LogError::Locked`] when another process has it; [`LogError::Damaged`],
    /// [`LogError::Newer`] and [`LogError::Lost`] when it must not be used;
    /// [`LogError::Failed`] when the disk failed.
    pub fn open(dir: &Path, options: FileOptions, start: Start) -> Result<Self, LogError> {
        Self::open_on(Arc::new(RealDisk::open(dir)?), options, start)
    }

    pub(crate) fn open_on(
        disk: Arc<dyn Disk>,
        options: FileOptions,
        start: Start,
    ) -> Result<Self, LogError> {
        let recover_options = RecoverOptions {
            segment_bytes: options.segment_bytes,
            start: &start,
            acknowledged: options.acknowledged,
            keep_through: None,
        };
        let opened = recover(&disk, &recover_options)?;
        let writer = SegmentWriter::new(&disk, &options, opened.end.chain.clone());
        let shown = ShownLog::of(opened);
        let start = Start { id: shown.tail.log, shard: shown.tail.shard, ..start };
        let (shown, writer) = (RwLock::new(shown), Mutex::new(writer));
        Ok(Self { disk, options, start, shown, writer, trimming: Mutex::default() })
    }

    /// Returns the reason why the next segment cannot be created, as long as that holds.
    ///
    /// Appends succeed while the present one has space. Each call retries after a failure.
    #[must_use]
    pub fn next_segment_problem(&self) -> Option<String> {
        self.writer.lock().next_segment_problem(self.options.segment_bytes)
    }

    /// Returns the number of the log's segments.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.shown.read().segments.len()
    }
}

impl ShownLog {
    fn of(opened: RecoveredLog) -> Self {
        let first = opened.segments.first().map(|segment| segment.header.first);
        let first = first.unwrap_or(opened.end.chain.last().next());
        let tail = Tail::of(&opened.end.chain, first, opened.end.header);
        Self { tail, segments: opened.segments, failed: None }
    }

    fn check(&self) -> Result<(), LogError> {
        self.failed.clone().map_or(Ok(()), |failed| Err(LogError::Failed(failed)))
    }

    /// Returns the segments with entries from this position on.
    fn segments_from(&self, from: Position) -> Result<Vec<LogSegment>, LogError> {
        let first = self.tail.first;
        if from < first {
            return Err(LogError::Trimmed { asked: from, first });
        }
        let segments = self.segments.iter().filter(|segment| segment.last >= from);
        Ok(segments.cloned().collect())
    }
}

/// Visits the entries of a segment from `from` on. Everything before them is checked too.
fn read_segment(
    segment: &LogSegment,
    from: Position,
    visit: &mut dyn FnMut(Entry) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, LogError> {
    let name = segment.name();
    let mut chain = segment.header.chain();
    let mut reader = EntryReader::new(&*segment.file, segment.end);
    while chain.last() < segment.last {
        let (at, next) = (reader.at(), chain.last().next());
        let entry = reader.next_entry().map_err(|error| read_failed(&name, &error))?;
        let entry = entry.map_err(|fault| LogError::of_entry(&fault, next, &name, at))?;
        let fits = chain.check_and_push(&entry);
        fits.map_err(|fault| LogError::of_chain(&fault, next, &name, at))?;
        if next >= from && visit(entry).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

impl Log for FileLog {
    fn id(&self) -> LogId {
        self.start.id
    }

    fn entry_bytes_max(&self) -> usize {
        self.options.entry_bytes_max
    }

    fn tail(&self) -> Result<Tail, LogError> {
        let shown = self.shown.read();
        shown.check()?;
        Ok(shown.tail.clone())
    }

    fn append(&self, at: Position, entries: &[Bytes]) -> Result<(), AppendError> {
        let mut writer = self.writer.lock();
        let shown = self.shown.read().clone();
        if let Some(failed) = &shown.failed {
            return Err(AppendError::Refused(format!("the log must be reopened: {failed}")));
        }
        if at <= shown.tail.last {
            let there = self.entry(at).ok().flatten();
            let header = there.and_then(|bytes| crate::entry::verify(&bytes).ok());
            let unreadable = AppendError::Refused(format!("position {at} cannot be read"));
            return Err(header.map_or(unreadable, AppendError::Taken));
        }
        let outcome = writer.append(&self.options, shown.segments.last(), at, entries);
        let mut shown = self.shown.write();
        match outcome {
            Ok(done) => {
                let (first, last) = (shown.tail.first, writer.chain().last());
                shown.tail = Tail::of(writer.chain(), first, done.header);
                if let Some(began) = done.began {
                    shown.segments.push(began);
                }
                if let Some(newest) = shown.segments.last_mut() {
                    (newest.last, newest.end) = (last, done.end);
                }
                Ok(())
            }
            Err(AppendFailure { error, must_reopen }) => {
                if must_reopen {
                    shown.failed = Some(error.to_string());
                }
                Err(error)
            }
        }
    }

    fn read(
        &self,
        from: Position,
        visit: &mut dyn FnMut(Entry) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        let segments = self.shown.read().segments_from(from)?;
        for (index, segment) in segments.iter().enumerate() {
            let mut hash = segment.header.prev;
            let flow = read_segment(segment, from, &mut |entry| {
                hash = entry.hash();
                visit(entry)
            })?;
            if flow.is_break() {
                break;
            }
            if let Some(next) = segments.get(index + 1)
                && next.header.prev != hash
            {
                return Err(LogError::Damaged {
                    position: Some(segment.last),
                    file: next.name(),
                    offset: 0,
                    what: "it follows another entry than the last one before it".to_owned(),
                });
            }
        }
        Ok(())
    }

    fn entry(&self, at: Position) -> Result<Option<Bytes>, LogError> {
        let shown = self.shown.read().clone();
        if at > shown.tail.last {
            return shown.check().map(|()| None);
        }
        let mut found = None;
        for segment in shown.segments_from(at)?.iter().take(1) {
            let flow = read_segment(segment, at, &mut |entry| {
                found = Some(entry.bytes);
                ControlFlow::Break(())
            })?;
            debug_assert!(flow.is_break(), "a segment has what it says");
        }
        Ok(found)
    }

    fn bytes_after(&self, after: Position) -> Result<u64, LogError> {
        let shown = self.shown.read();
        let bytes = shown.segments.iter().filter(|segment| segment.last > after).map(|segment| {
            let first = segment.header.first;
            let used = segment.end.saturating_sub(SEGMENT_HEADER_BYTES as u64);
            let all = u128::from(segment.last.0 - first.0 + 1);
            let wanted = u128::from(segment.last.0 - after.next().max(first).0 + 1);
            // This is the share of the segment's positions; it is at most `used`, a u64.
            (u128::from(used) * wanted / all) as u64
        });
        Ok(bytes.sum())
    }

    fn trim(&self, through: Position) -> Result<(), LogError> {
        let _trimming = self.trimming.lock();
        loop {
            let oldest = {
                let shown = self.shown.read();
                // The segment of the last entry stays: the tail shows that entry's header.
                match shown.segments.as_slice() {
                    [oldest, _, ..] if oldest.last <= through.min(shown.tail.last.previous()) => {
                        oldest.clone()
                    }
                    _ => return Ok(()),
                }
            };
            let name = oldest.name();
            let failed = |error| LogError::Failed(format!("{name} cannot be removed: {error}"));
            // Each removal is durable before the next: a gap would be taken for damage.
            let removed = match self.disk.remove(&name) {
                // An earlier try removed it and could not sync that.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                removed => removed,
            };
            removed.and_then(|()| self.disk.sync_names()).map_err(failed)?;
            let mut shown = self.shown.write();
            shown.segments.remove(0);
            shown.tail.first = oldest.last.next();
        }
    }

    fn reopen(&self) -> Result<Tail, LogError> {
        let mut writer = self.writer.lock();
        let _trimming = self.trimming.lock();
        let shown = self.shown.read().clone();
        if shown.failed.is_none() {
            return Ok(shown.tail);
        }
        writer.stop_preparing();
        let recover_options = RecoverOptions {
            segment_bytes: self.options.segment_bytes,
            start: &self.start,
            acknowledged: shown.tail.last,
            keep_through: Some(shown.tail.last),
        };
        let opened = recover(&self.disk, &recover_options)?;
        *writer = SegmentWriter::new(&self.disk, &self.options, opened.end.chain.clone());
        let shown = ShownLog::of(opened);
        let tail = shown.tail.clone();
        *self.shown.write() = shown;
        Ok(tail)
    }

    fn problem(&self) -> Option<String> {
        self.next_segment_problem()
    }

    fn segments(&self) -> usize {
        Self::segments(self)
    }

    fn close(&self) -> Result<(), LogError> {
        let mut writer = self.writer.lock();
        self.shown.read().check()?;
        let closed = CleanStop::of(writer.chain());
        writer.stop_preparing();
        let failed = |error| LogError::Failed(format!("the clean stop was not marked: {error}"));
        closed.write(&*self.disk).map_err(failed)?;
        writer.close();
        Ok(())
    }
}

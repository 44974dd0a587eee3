//! The writer of a log in files: one write and one sync for each commit.

use std::sync::Arc;

use bytes::Bytes;

use super::FileOptions;
use super::disk::Disk;
use super::prepare::Preparer;
use super::recover::{CLOSED, LogSegment, begin_segment, name_segment};
use super::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::chain::Chain;
use crate::commit_parts::check_commit;
use crate::entry::{Header, Position};
use crate::port::AppendError;

/// The state of appends.
#[derive(Debug)]
pub(super) struct SegmentWriter {
    disk: Arc<dyn Disk>,
    chain: Chain,
    /// Set once the claim of this opening was appended.
    claimed: bool,
    closed: bool,
    /// Set if the mark of a clean stop may exist.
    may_be_marked: bool,
    preparer: Preparer,
    prepares_ahead: bool,
}

/// A commit that is durable.
#[derive(Debug)]
pub(super) struct DurableCommit {
    /// The header of its last entry.
    pub(super) header: Option<Header>,
    /// The segment that it started, if it did.
    pub(super) began: Option<LogSegment>,
    /// The offset behind it.
    pub(super) end: u64,
}

/// A commit that was not acknowledged.
#[derive(Debug)]
pub(super) struct AppendFailure {
    pub(super) error: AppendError,
    /// Set if the files may differ from their known state.
    pub(super) must_reopen: bool,
}

impl AppendFailure {
    fn refused(why: String) -> Self {
        Self { error: AppendError::Refused(why), must_reopen: false }
    }

    fn refused_until_reopened(why: String) -> Self {
        Self { error: AppendError::Refused(why), must_reopen: true }
    }

    fn unknown(why: String) -> Self {
        Self { error: AppendError::Unknown(why), must_reopen: true }
    }
}

impl SegmentWriter {
    pub(super) fn new(disk: &Arc<dyn Disk>, options: &FileOptions, chain: Chain) -> Self {
        Self {
            disk: disk.clone(),
            chain,
            claimed: false,
            closed: false,
            may_be_marked: true,
            preparer: Preparer::new(disk.clone(), options.prepares_ahead),
            prepares_ahead: options.prepares_ahead,
        }
    }

    /// Returns the chain of the durable entries.
    pub(super) const fn chain(&self) -> &Chain {
        &self.chain
    }

    pub(super) fn next_segment_problem(&mut self, segment_bytes: u64) -> Option<String> {
        self.preparer.problem(segment_bytes)
    }

    /// Ends the preparation of the next segment, and drops it.
    pub(super) fn stop_preparing(&mut self) {
        self.preparer = Preparer::new(self.disk.clone(), self.prepares_ahead);
    }

    /// Refuses everything from now on.
    pub(super) const fn close(&mut self) {
        self.closed = true;
    }

    /// Makes a commit durable.
    pub(super) fn append(
        &mut self,
        options: &FileOptions,
        newest: Option<&LogSegment>,
        at: Position,
        entries: &[Bytes],
    ) -> Result<DurableCommit, AppendFailure> {
        if self.closed {
            return Err(AppendFailure::refused("the log is closed".to_owned()));
        }
        let max = options.entry_bytes_max;
        let checked = check_commit(&self.chain, at, entries, self.claimed, max)
            .map_err(AppendFailure::refused)?;
        self.remove_mark()?;
        let bytes = checked.bytes() as u64;
        let (segment, began) = match newest {
            Some(newest) if newest.end + bytes <= newest.length => (newest.clone(), None),
            newest => {
                let segment = self.next_segment(options.segment_bytes, newest, bytes)?;
                (segment.clone(), Some(segment))
            }
        };
        let unknown = |what: &str, error: std::io::Error| {
            AppendFailure::unknown(format!("{} cannot be {what}: {error}", segment.name()))
        };
        let written = segment.file.write_at(segment.end, &checked.to_bytes());
        written.map_err(|error| unknown("written", error))?;
        segment.file.sync().map_err(|error| unknown("synced", error))?;
        let header = checked.last_header();
        self.chain = checked.chain;
        self.claimed = true;
        self.preparer.begin(options.segment_bytes);
        Ok(DurableCommit { header, began, end: segment.end + bytes })
    }

    /// Removes the mark of a clean stop, durably, before the next append.
    fn remove_mark(&mut self) -> Result<(), AppendFailure> {
        let disk = &self.disk;
        if !self.may_be_marked {
            return Ok(());
        }
        let removed = disk.list().and_then(|names| {
            if names.iter().any(|name| name == CLOSED) {
                disk.remove(CLOSED)?;
                disk.sync_names()?;
            }
            Ok(())
        });
        let refused = |error| format!("the mark of the clean stop cannot be removed: {error}");
        removed.map_err(|error| AppendFailure::refused(refused(error)))?;
        self.may_be_marked = false;
        Ok(())
    }

    /// Creates the next segment, with space for these bytes.
    fn next_segment(
        &mut self,
        segment_bytes: u64,
        newest: Option<&LogSegment>,
        bytes: u64,
    ) -> Result<LogSegment, AppendFailure> {
        let offset = SEGMENT_HEADER_BYTES as u64;
        let length = segment_bytes.max((offset + bytes).next_multiple_of(offset));
        let before = newest.map_or_else(Default::default, |newest| newest.header.first);
        let header = SegmentHeader::after(&self.chain, before);
        let made = self.preparer.take(length).and_then(|file| {
            begin_segment(&*self.disk, &header, &file)?;
            Ok(file)
        });
        let cannot = |error: std::io::Error| format!("the next segment cannot be made: {error}");
        let file = made.map_err(|error| AppendFailure::refused(cannot(error)))?;
        // It is unknown whether the new name exists, but the commit certainly does not.
        let named = name_segment(&*self.disk, &header);
        named.map_err(|error| AppendFailure::refused_until_reopened(cannot(error)))?;
        let last = header.first.previous();
        Ok(LogSegment { header, file, last, end: offset, length })
    }
}

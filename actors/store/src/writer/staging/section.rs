//! The part of one subscriber in a group: its journal events, and its event log in chunks.

use std::sync::Arc;

use crate::view::log_chunk::{Head, event_log_key_into};
use crate::{Frame, Section, Table};

use super::super::Batch;
use super::{Changes, Owner};

/// The maximum bytes of event-log entries that several batches share in one record.
const CHUNK_BYTES_MAX: usize = 64 * 1024;

/// The part of one subscriber in a group.
pub(in super::super) struct StagedSection {
    pub(in super::super) owner: Arc<Owner>,
    events: Vec<u8>,
    /// The chunks, in the order of their entries.
    chunks: Vec<Chunk>,
    /// Bytes of its bulk batches.
    pub(super) bulk_bytes: usize,
}

/// Entries of the event log without a gap, which become one record.
struct Chunk {
    first: u64,
    before: u64,
    count: u32,
    /// Space for the head, then the entries.
    bytes: Vec<u8>,
}

impl Chunk {
    /// Returns whether the entries of a batch follow this chunk, and fit.
    fn takes(&self, batch: &Batch<'_>) -> bool {
        batch.log_first == self.first + u64::from(self.count)
            && self.bytes.len() + batch.log.len() <= Head::BYTES + CHUNK_BYTES_MAX
    }
}

impl StagedSection {
    /// Returns an empty section that writes its events to `events`, a reused buffer.
    pub(super) fn new(owner: Arc<Owner>, events: Vec<u8>) -> Self {
        Self { owner, events, chunks: Vec::new(), bulk_bytes: 0 }
    }

    /// Returns whether the frame has no section for it yet.
    pub(super) const fn has_no_events(&self) -> bool {
        self.events.is_empty()
    }

    /// Adds a batch's journal events and log entries. `buffers` are for reuse.
    pub(super) fn push(&mut self, batch: &Batch<'_>, buffers: &mut Vec<Vec<u8>>) {
        self.events.extend_from_slice(batch.events);
        if batch.log.is_empty() {
            return;
        }
        if !self.chunks.last().is_some_and(|last| last.takes(batch)) {
            let mut bytes = buffers.pop().unwrap_or_default();
            bytes.extend_from_slice(&[0; Head::BYTES]);
            let (first, before) = (batch.log_first, batch.log_before);
            self.chunks.push(Chunk { first, before, count: 0, bytes });
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.bytes.extend_from_slice(batch.log);
            chunk.count += batch.log_count;
        }
    }

    /// Moves the events into `frame`, and turns the chunks into changes.
    pub(super) fn seal(&mut self, frame: &mut Frame, changes: &mut Changes, key: &mut Vec<u8>) {
        let workspace = &self.owner.workspace;
        if !self.events.is_empty() {
            let events = std::mem::take(&mut self.events);
            frame.sections.push(Section { workspace: workspace.clone(), events });
        }
        for chunk in &mut self.chunks {
            let head = Head { count: chunk.count, before: chunk.before };
            chunk.bytes[..Head::BYTES].copy_from_slice(&head.encode());
            event_log_key_into(workspace, chunk.first, key);
            changes.upsert(Table::Events, key, Some(&chunk.bytes));
        }
    }

    /// Returns its buffers.
    pub(super) fn into_buffers(self) -> impl Iterator<Item = Vec<u8>> {
        std::iter::once(self.events).chain(self.chunks.into_iter().map(|chunk| chunk.bytes))
    }
}

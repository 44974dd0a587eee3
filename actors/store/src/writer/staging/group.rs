//! Pure: the content of one group: the section of each subscriber, and the changes of records.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::{KEPT_BUFFER_BYTES_MAX, KEPT_BUFFERS_MAX, SectionOwner};
use crate::audit_chain::{self, AuditMark};
use crate::view::log_chunk::{Head, event_log_key_into};
use crate::writer::Batch;
use crate::{Change, Frame, Section, Table};

/// The maximum bytes of event-log entries that several batches share in one record.
const CHUNK_BYTES_MAX: usize = 64 * 1024;

/// The part of one subscriber in a group: its journal events, and its event log in chunks.
pub(in crate::writer) struct StagedSection {
    pub(in crate::writer) owner: Arc<SectionOwner>,
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
    pub(super) fn new(owner: Arc<SectionOwner>, events: Vec<u8>) -> Self {
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
    pub(super) fn seal(
        &mut self,
        frame: &mut Frame,
        changes: &mut GroupChanges,
        key: &mut Vec<u8>,
    ) {
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

/// A list of changes with an index by record: the last change of a record wins.
///
/// The entries behind the live ones are left over from earlier groups, and their buffers are
/// reused.
#[derive(Default)]
pub(in crate::writer) struct GroupChanges {
    entries: Vec<Change>,
    live: usize,
    /// The number of live changes of the audit log.
    audits: usize,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl GroupChanges {
    /// Returns at most one change of each record, in the order in which the records were first
    /// named.
    pub(in crate::writer) fn live(&self) -> &[Change] {
        &self.entries[..self.live]
    }

    /// Links the staged records of the audit log to its end, and moves the end.
    ///
    /// Returns the new end if there were any. No change may be added afterwards, since the records
    /// then have other keys.
    pub(in crate::writer) fn link_audit(&mut self, end: &AuditMark) -> Option<AuditMark> {
        if self.audits == 0 {
            return None;
        }
        let newest = audit_chain::link_staged(&mut self.entries[..self.live], end)?;
        self.upsert(Table::Meta, audit_chain::HEAD_KEY, Some(&newest.encode()));
        Some(newest)
    }

    /// Puts or deletes a record, and replaces an earlier change of it.
    pub(in crate::writer) fn upsert(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) {
        let slot = self.slot(table, key);
        match value {
            Some(value) => {
                let buffer = slot.get_or_insert_default();
                buffer.clear();
                buffer.extend_from_slice(value);
            }
            None => *slot = None,
        }
    }

    /// Does the same without copying the value.
    pub(in crate::writer) fn upsert_owned(&mut self, change: Change) {
        *self.slot(change.table, &change.key) = change.value;
    }

    fn slot(&mut self, table: Table, key: &[u8]) -> &mut Option<Vec<u8>> {
        let Self { entries, live, audits, index, hasher } = self;
        let hash = hasher.hash_one((table, key));
        let same = |&at: &u32| {
            let entry = &entries[at as usize];
            entry.table == table && entry.key == key
        };
        if let Some(&at) = index.find(hash, same) {
            return &mut entries[at as usize].value;
        }
        let at = *live;
        if let Some(entry) = entries.get_mut(at) {
            entry.table = table;
            entry.key.clear();
            entry.key.extend_from_slice(key);
        } else {
            entries.push(Change { table, key: key.to_vec(), value: None });
        }
        // A group is bounded in bytes and every change takes some, so there are far fewer than
        // 2^32.
        index.insert_unique(hash, at as u32, |&at| {
            let entry = &entries[at as usize];
            hasher.hash_one((entry.table, entry.key.as_slice()))
        });
        *live += 1;
        *audits += usize::from(table == Table::Audit);
        &mut entries[at].value
    }

    /// Removes the changes and keeps their buffers, up to a bound.
    pub(in crate::writer) fn recycle(&mut self) {
        let large = |buffer: &Vec<u8>| buffer.capacity() > KEPT_BUFFER_BYTES_MAX;
        for entry in &mut self.entries[..self.live] {
            if entry.value.as_ref().is_some_and(large) {
                entry.value = None;
            }
        }
        self.entries.truncate(KEPT_BUFFERS_MAX);
        if self.index.capacity() > 4 * KEPT_BUFFERS_MAX {
            self.index = HashTable::new();
        }
        self.index.clear();
        (self.live, self.audits) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_change_of_a_record_holds_and_left_overs_do_not_show() {
        let mut changes = GroupChanges::default();
        for round in 0..3u8 {
            assert_eq!(changes.live(), []);
            for at in 0..200u8 {
                changes.upsert(Table::Keys, &[at % 100], Some(&[at, round]));
                changes.upsert(Table::Meta, &[at % 100], Some(b"gone"));
            }
            changes.upsert(Table::Meta, &[7], None);
            assert_eq!(changes.live().len(), 200);
            for change in changes.live() {
                let expected = match (change.table, change.key[0]) {
                    (Table::Keys, at) => Some(vec![at + 100, round]),
                    (_, 7) => None,
                    _ => Some(b"gone".to_vec()),
                };
                assert_eq!(change.value, expected, "{change:?}");
            }
            changes.recycle();
        }
    }
}

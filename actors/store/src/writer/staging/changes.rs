//! Pure: the record changes of one group, in which the last one of each record wins.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::view::audit::{self, AuditMark};
use crate::{Change, Table};

use super::{KEPT_BUFFER_BYTES_MAX, KEPT_BUFFERS_MAX};

/// A list of changes with an index by record.
///
/// The entries behind the live ones are left over from earlier groups, and their buffers are
/// reused.
#[derive(Default)]
pub(in super::super) struct Changes {
    entries: Vec<Change>,
    live: usize,
    /// The number of live changes of the audit log.
    audits: usize,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Changes {
    /// Returns at most one change of each record, in the order in which the records were first
    /// named.
    pub(in super::super) fn live(&self) -> &[Change] {
        &self.entries[..self.live]
    }

    /// Links the staged records of the audit log to its end, and moves the end.
    ///
    /// Returns the new end if there were any. No change may be added afterwards, since the records
    /// then have other keys.
    pub(in super::super) fn link_audit(&mut self, end: &AuditMark) -> Option<AuditMark> {
        if self.audits == 0 {
            return None;
        }
        let newest = audit::link_staged(&mut self.entries[..self.live], end)?;
        self.upsert(Table::Meta, audit::HEAD_KEY, Some(&newest.encode()));
        Some(newest)
    }

    /// Puts or deletes a record, and replaces an earlier change of it.
    pub(in super::super) fn upsert(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) {
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
    pub(in super::super) fn upsert_owned(&mut self, change: Change) {
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
    pub(in super::super) fn recycle(&mut self) {
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
        let mut changes = Changes::default();
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

//! Pure: records as commands see them: the committed ones, below pending changes.

use std::cell::Cell;
use std::collections::VecDeque;

use hashbrown::HashMap;

use postrider_store::GroupNumber;
use postrider_store::{StoreError, Table, View};

use crate::core::read_ahead::{ReadAhead, Recent};
use postrider_domain::unavailable::{Unavailable, UnavailableReason};

/// Changes of records by table and key; `None` deletes.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    tables: HashMap<Table, HashMap<Vec<u8>, Option<Vec<u8>>>>,
    bytes: usize,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    pub(crate) fn set(&mut self, table: Table, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        self.tables.entry(table).or_default().insert(key, value);
    }

    /// Returns the bytes of all changes, also of those that were set again.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the change of a record, if there is one.
    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Option<Option<&[u8]>> {
        Some(self.tables.get(&table)?.get(key)?.as_deref())
    }

    /// Returns every change, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Table, &[u8], Option<&[u8]>)> {
        self.tables.iter().flat_map(|(table, changes)| {
            changes.iter().map(|(key, value)| (*table, key.as_slice(), value.as_deref()))
        })
    }

    /// Takes all changes out.
    fn drain(&mut self) -> impl Iterator<Item = (Table, Vec<u8>, Option<Vec<u8>>)> + use<> {
        self.bytes = 0;
        std::mem::take(&mut self.tables).into_iter().flat_map(|(table, changes)| {
            changes.into_iter().map(move |(key, value)| (table, key, value))
        })
    }

    pub(crate) fn clear(&mut self) {
        self.bytes = 0;
        self.tables.clear();
    }
}

/// The group of a change, and the new value.
type Submitted = (GroupNumber, Option<Vec<u8>>);

/// Changes that were submitted and are not known to be durable yet.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    tables: HashMap<Table, HashMap<Vec<u8>, Submitted>>,
    /// In the order of their groups.
    order: VecDeque<(GroupNumber, Table, Vec<u8>)>,
}

impl Pending {
    /// Notes changes that were put into `group`.
    pub(crate) fn submitted(&mut self, group: GroupNumber, changes: &mut Changes) {
        for (table, key, value) in changes.drain() {
            self.order.push_back((group, table, key.clone()));
            self.tables.entry(table).or_default().insert(key, (group, value));
        }
    }

    /// Forgets the durable changes of `group`, and visits their keys: the store has them now.
    pub(crate) fn committed(&mut self, group: GroupNumber, visit: &mut dyn FnMut(Table, Vec<u8>)) {
        while let Some((_, table, key)) = self.order.pop_front_if(|(of, ..)| *of <= group) {
            if let Some(changes) = self.tables.get_mut(&table)
                && changes.get(&key).is_some_and(|(of, _)| *of <= group)
            {
                changes.remove(&key);
            }
            visit(table, key);
        }
    }

    /// Returns every change, in no particular order, and whether it writes the record.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (Table, &[u8], bool)> {
        self.tables.iter().flat_map(|(table, changes)| {
            changes.iter().map(|(key, (_, value))| (*table, key.as_slice(), value.is_some()))
        })
    }

    /// Returns the change of a record, if there is one.
    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Option<Option<&[u8]>> {
        let (_, value) = self.tables.get(&table)?.get(key)?;
        Some(value.as_deref())
    }
}

/// The records of one workspace, with pending changes.
#[derive(Clone, Copy)]
pub(crate) struct Records<'a> {
    pub(crate) store: &'a dyn View,
    pub(crate) pending: &'a Pending,
    /// The keys of recent changes.
    pub(crate) recent: &'a Recent,
    /// Counts the records that the command reads from the store.
    pub(crate) reads: &'a Cell<usize>,
}

impl Records<'_> {
    /// Returns a record, from those read ahead if that copy counts.
    pub(crate) fn get(
        &self,
        ahead: Option<&ReadAhead>,
        table: Table,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, Unavailable> {
        let known = self.pending.get(table, key);
        match known.or_else(|| ahead.and_then(|it| it.get(self.recent, table, key))) {
            Some(value) => Ok(value.map(<[u8]>::to_vec)),
            None => {
                self.reads.update(|reads| reads + 1);
                self.store.get(table, key).map_err(unreadable)
            }
        }
    }
}

/// Logs that the store cannot be read, and returns the error for it.
pub fn unreadable(error: StoreError) -> Unavailable {
    tracing::error!(%error, "a record cannot be read");
    Unavailable::because(UnavailableReason::Storage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_until_its_group_is_durable_and_a_later_one_longer() {
        let mut pending = Pending::default();
        let change = |key: &[u8], value: Option<&[u8]>| {
            let mut changes = Changes::default();
            changes.set(Table::Meta, key.to_vec(), value.map(<[u8]>::to_vec));
            changes
        };
        pending.submitted(1, &mut change(b"a", Some(b"1")));
        pending.submitted(1, &mut change(b"b", None));
        pending.submitted(2, &mut change(b"a", Some(b"2")));
        assert_eq!(pending.get(Table::Meta, b"b"), Some(None));
        pending.committed(1, &mut |_, _| {});
        assert_eq!(pending.get(Table::Meta, b"a"), Some(Some(&b"2"[..])));
        assert_eq!(pending.get(Table::Meta, b"b"), None);
        pending.committed(2, &mut |_, _| {});
        assert_eq!(pending.get(Table::Meta, b"a"), None);
        assert_eq!(pending.get(Table::Keys, b"a"), None);
    }
}

//! Pure: records as commands see them: the committed ones, below pending changes.
//!
//! Records may be read for a command beside the actor, before its turn. A reader takes the number
//! of the last commit first. The actor uses a record that was read unless it has changed it since.
//! It sees its pending changes before, and it remembers the keys of durable ones while somebody
//! reads. Without that memory no record read ahead counts, and the actor reads itself.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hashbrown::{Equivalent, HashMap};
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_store::{GroupNumber, StoreError, Table, View};

/// Values by table and key.
type ByKey<T> = HashMap<(Table, Vec<u8>), T>;

/// The table and the key of a record, to look it up in a [`ByKey`]. It hashes as the pair does.
#[derive(PartialEq, Eq, Hash)]
struct RecordKey<'a>(Table, &'a [u8]);

impl Equivalent<(Table, Vec<u8>)> for RecordKey<'_> {
    fn equivalent(&self, (table, key): &(Table, Vec<u8>)) -> bool {
        self.0 == *table && self.1 == key
    }
}

/// The capacity above which an emptied map gives its memory back: an import changes thousands.
const CAPACITY_MAX: usize = 64;

/// Changes of records by table and key; `None` deletes.
#[derive(Debug, Default)]
pub(crate) struct RecordChanges {
    changes: ByKey<Option<Vec<u8>>>,
    bytes: usize,
}

impl RecordChanges {
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    pub(crate) fn set(&mut self, table: Table, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        self.changes.insert((table, key), value);
    }

    /// Returns the bytes of all changes, also of those that were set again.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the change of a record, if there is one.
    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Option<Option<&[u8]>> {
        Some(self.changes.get(&RecordKey(table, key))?.as_deref())
    }

    /// Returns every change, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Table, &[u8], Option<&[u8]>)> {
        self.changes.iter().map(|((table, key), value)| (*table, key.as_slice(), value.as_deref()))
    }

    /// Takes all changes out, and visits them in no particular order.
    fn drain(&mut self, visit: impl FnMut(((Table, Vec<u8>), Option<Vec<u8>>))) {
        self.changes.drain().for_each(visit);
        self.clear();
    }

    pub(crate) fn clear(&mut self) {
        self.bytes = 0;
        if self.changes.capacity() > CAPACITY_MAX {
            self.changes = HashMap::new();
        }
        self.changes.clear();
    }
}

/// The group of a change, and the new value.
type Submitted = (GroupNumber, Option<Vec<u8>>);

/// Changes that were submitted and are not known to be durable yet.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    changes: ByKey<Submitted>,
    /// In the order of their groups.
    order: VecDeque<(GroupNumber, (Table, Vec<u8>))>,
}

impl Pending {
    /// Returns whether every change is durable.
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Notes changes that were put into `group`.
    pub(crate) fn submitted(&mut self, group: GroupNumber, changes: &mut RecordChanges) {
        changes.drain(|(record, value)| {
            self.order.push_back((group, record.clone()));
            self.changes.insert(record, (group, value));
        });
    }

    /// Forgets the durable changes of `group`, and visits their keys: the store has them now.
    pub(crate) fn committed(&mut self, group: GroupNumber, visit: &mut dyn FnMut(Table, Vec<u8>)) {
        while let Some((_, record)) = self.order.pop_front_if(|(of, _)| *of <= group) {
            if self.changes.get(&record).is_some_and(|(of, _)| *of <= group) {
                self.changes.remove(&record);
            }
            visit(record.0, record.1);
        }
    }

    /// Returns every change, in no particular order, and whether it writes the record.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (Table, &[u8], bool)> {
        self.changes
            .iter()
            .map(|((table, key), (_, value))| (*table, key.as_slice(), value.is_some()))
    }

    /// Returns the change of a record, if there is one.
    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Option<Option<&[u8]>> {
        let (_, value) = self.changes.get(&RecordKey(table, key))?;
        Some(value.as_deref())
    }
}

/// The records of one workspace, with pending changes.
#[derive(Clone, Copy)]
pub(crate) struct RecordView<'a> {
    pub(crate) store: &'a dyn View,
    pub(crate) pending: &'a Pending,
    /// The keys of recent changes.
    pub(crate) recent: &'a RecentChanges,
    /// Counts the records that the command reads from the store.
    pub(crate) reads: &'a Cell<usize>,
    pub(crate) decoded: &'a DecodedRecords,
}

impl RecordView<'_> {
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

/// The most decoded records that a workspace has in memory.
const DECODED_MAX: usize = 64;

/// Committed records of [`Table::Templates`] in their decoded form: most messages use the same few.
///
/// The actor is the only writer of its records. It empties this when it submits a change of one.
#[derive(Debug, Default)]
pub(crate) struct DecodedRecords(RefCell<HashMap<Vec<u8>, Arc<dyn Any + Send + Sync>>>);

impl DecodedRecords {
    /// Returns a record; `None` if it is not here.
    pub(crate) fn get<T: Send + Sync + 'static>(&self, key: &[u8]) -> Option<Arc<T>> {
        Arc::clone(self.0.borrow().get(key)?).downcast().ok()
    }

    pub(crate) fn set<T: Send + Sync + 'static>(&self, key: &[u8], record: Arc<T>) {
        let mut records = self.0.borrow_mut();
        if records.len() >= DECODED_MAX {
            records.clear();
        }
        records.insert(key.to_vec(), record);
    }

    /// Forgets all if one of them changes.
    pub(crate) fn submitted(&mut self, changes: &RecordChanges) {
        if changes.iter().any(|(table, ..)| table == Table::Templates) {
            self.0.get_mut().clear();
        }
    }
}

/// The maximum of keys that are remembered of a workspace.
const REMEMBERED_MAX: usize = 8192;

/// The state that a workspace's readers and its actor share.
#[derive(Debug, Default)]
pub(crate) struct ReadingAhead {
    /// Readers whose commands are not over.
    readers: AtomicUsize,
    /// The number of commits that the actors have seen.
    commits: AtomicU64,
}

impl ReadingAhead {
    /// Starts the memory of a new actor; records that were read before it count no more.
    pub(crate) fn restart(&self) -> RecentChanges {
        let floor = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        RecentChanges { floor, ..RecentChanges::default() }
    }

    /// Starts to read. Records that are read from now on count until the returned value is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Reading {
        self.readers.fetch_add(1, Ordering::SeqCst);
        Reading { of: Arc::clone(self), since: self.commits.load(Ordering::SeqCst) }
    }
}

/// A reader that reads, or has a command carried out with its records.
#[derive(Debug)]
pub(crate) struct Reading {
    of: Arc<ReadingAhead>,
    since: u64,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.of.readers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The keys of recent durable changes.
#[derive(Debug, Default)]
pub(crate) struct RecentChanges {
    /// The first commit that counts: records read before it do not.
    floor: u64,
    order: VecDeque<(u64, (Table, Vec<u8>))>,
    last: ByKey<u64>,
}

impl RecentChanges {
    /// Takes a durable group. `keys` visits its changed keys, which are remembered if somebody
    /// reads.
    pub(crate) fn committed(
        &mut self,
        reading: &ReadingAhead,
        keys: impl FnOnce(&mut dyn FnMut(Table, Vec<u8>)),
    ) {
        let commit = reading.commits.load(Ordering::SeqCst) + 1;
        if reading.readers.load(Ordering::SeqCst) == 0 {
            keys(&mut |_, _| {});
            // A reader that came meanwhile has the number of an earlier commit.
            if !self.order.is_empty() {
                *self = Self::default();
            }
            self.floor = commit;
        } else {
            keys(&mut |table, key| self.remember(commit, table, key));
        }
        reading.commits.store(commit, Ordering::SeqCst);
    }

    fn remember(&mut self, commit: u64, table: Table, key: Vec<u8>) {
        self.last.insert((table, key.clone()), commit);
        self.order.push_back((commit, (table, key)));
        if self.order.len() <= REMEMBERED_MAX {
            return;
        }
        if let Some((of, record)) = self.order.pop_front() {
            self.floor = self.floor.max(of);
            if self.last.get(&record) == Some(&of) {
                self.last.remove(&record);
            }
        }
    }

    /// Returns whether a record is unchanged since a reader started after the commit `since`.
    fn is_unchanged(&self, since: u64, table: Table, key: &[u8]) -> bool {
        let changed = self.last.get(&RecordKey(table, key));
        since >= self.floor && changed.is_none_or(|changed| *changed <= since)
    }
}

/// Records that were read beside the actor.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    reading: Reading,
    records: RecordChanges,
}

impl ReadAhead {
    /// Returns an unchanged record that was read; the outer `None` if the actor must read it.
    pub(crate) fn get(
        &self,
        recent: &RecentChanges,
        table: Table,
        key: &[u8],
    ) -> Option<Option<&[u8]>> {
        let found = self.records.get(table, key)?;
        recent.is_unchanged(self.reading.since, table, key).then_some(found)
    }
}

/// Reads records, each once, and keeps them for a command.
pub(crate) struct Reader<'a> {
    store: &'a dyn View,
    ahead: ReadAhead,
}

impl<'a> Reader<'a> {
    /// Returns a reader of committed records, at least as new as when `reading` started.
    pub(crate) fn new(store: &'a dyn View, reading: Reading) -> Self {
        Self { store, ahead: ReadAhead { reading, records: RecordChanges::default() } }
    }

    /// Returns the store, for what the command does not read itself.
    pub(crate) const fn store(&self) -> &'a dyn View {
        self.store
    }

    /// Reads a record that the command may read.
    ///
    /// # Errors
    /// [`StoreError`]: the store cannot be read.
    pub(crate) fn get(
        &mut self,
        table: Table,
        key: Vec<u8>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        if let Some(known) = self.ahead.records.get(table, &key) {
            return Ok(known.map(<[u8]>::to_vec));
        }
        let value = self.store.get(table, &key)?;
        self.ahead.records.set(table, key, value.clone());
        Ok(value)
    }

    /// Returns the records that were read.
    pub(crate) fn done(self) -> ReadAhead {
        self.ahead
    }
}

#[cfg(test)]
mod read_ahead_tests {
    use super::*;
    use postrider_store::{Change, Group, MemoryStore, Store};

    const KEY: &[u8] = b"a";
    const TABLE: Table = Table::Meta;

    /// Reads one record beside an actor that has this memory.
    fn read(reading: &Arc<ReadingAhead>, store: &MemoryStore) -> ReadAhead {
        let mut reader = Reader::new(store, reading.begin());
        reader.get(TABLE, KEY.to_vec()).unwrap();
        reader.done()
    }

    fn commit(recent: &mut RecentChanges, reading: &ReadingAhead, key: &[u8]) {
        recent.committed(reading, |visit| visit(TABLE, key.to_vec()));
    }

    #[test]
    fn what_was_read_counts_until_it_is_changed() {
        let (reading, store) = (Arc::new(ReadingAhead::default()), MemoryStore::new());
        let mut recent = reading.restart();
        store.commit(Group::new(None, &[Change::put(TABLE, KEY, [1])])).unwrap();
        commit(&mut recent, &reading, KEY);
        let first = read(&reading, &store);
        assert_eq!(first.get(&recent, TABLE, KEY), Some(Some(&[1][..])));
        assert_eq!(first.get(&recent, TABLE, b"b"), None, "nobody read it");
        commit(&mut recent, &reading, b"b");
        assert_eq!(first.get(&recent, TABLE, KEY), Some(Some(&[1][..])));
        commit(&mut recent, &reading, KEY);
        assert_eq!(first.get(&recent, TABLE, KEY), None);
        assert!(read(&reading, &store).get(&recent, TABLE, KEY).is_some());
    }

    #[test]
    fn what_nobody_remembers_does_not_count() {
        let (reading, store) = (Arc::new(ReadingAhead::default()), MemoryStore::new());
        let mut recent = reading.restart();
        // The reader has its number, and the actor does not know of it yet.
        let late = Reading { of: Arc::clone(&reading), since: 1 };
        reading.readers.fetch_add(1, Ordering::SeqCst);
        let late = Reader::new(&store, late);
        reading.readers.store(0, Ordering::SeqCst);
        commit(&mut recent, &reading, b"b");
        reading.readers.store(1, Ordering::SeqCst);
        let mut late = late;
        late.get(TABLE, KEY.to_vec()).unwrap();
        assert_eq!(late.done().get(&recent, TABLE, KEY), None);
        // More commits than are remembered.
        let before = read(&reading, &store);
        for number in 0..=REMEMBERED_MAX {
            commit(&mut recent, &reading, &number.to_be_bytes());
        }
        assert_eq!(before.get(&recent, TABLE, KEY), None);
        assert!(recent.last.len() <= REMEMBERED_MAX);
        // A read beside an actor before this one.
        let before = read(&reading, &store);
        let recent = reading.restart();
        assert_eq!(before.get(&recent, TABLE, KEY), None);
        assert_eq!(read(&reading, &store).get(&recent, TABLE, KEY), Some(None));
    }

    #[test]
    fn memory_is_freed_when_nobody_reads() {
        let reading = Arc::new(ReadingAhead::default());
        let mut recent = reading.restart();
        let held = reading.begin();
        commit(&mut recent, &reading, KEY);
        assert_eq!(recent.order.len(), 1);
        drop(held);
        commit(&mut recent, &reading, KEY);
        assert!(recent.order.is_empty() && recent.last.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_changes_took_is_given_back() {
        let (mut changes, mut pending) = (RecordChanges::default(), Pending::default());
        for number in 0..1000_u32 {
            changes.set(Table::Meta, number.to_be_bytes().to_vec(), None);
        }
        assert!(changes.changes.capacity() > CAPACITY_MAX);
        assert_eq!(changes.get(Table::Meta, &7_u32.to_be_bytes()), Some(None));
        assert_eq!(changes.get(Table::Keys, &7_u32.to_be_bytes()), None);
        pending.submitted(1, &mut changes);
        assert!(changes.is_empty() && changes.bytes() == 0);
        assert!(changes.changes.capacity() <= CAPACITY_MAX);
        assert_eq!(pending.keys().count(), 1000);
        changes.set(Table::Meta, b"a".to_vec(), None);
        pending.submitted(2, &mut changes);
        assert!(changes.changes.capacity() > 0, "what a few took is used again");
    }

    #[test]
    fn a_change_is_seen_until_its_group_is_durable_and_a_later_one_longer() {
        let mut pending = Pending::default();
        let change = |key: &[u8], value: Option<&[u8]>| {
            let mut changes = RecordChanges::default();
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

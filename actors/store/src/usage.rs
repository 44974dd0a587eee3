//! Counts what each workspace has in the view, within the commits that change it.
//!
//! [`Table::Meta`] holds a record for each workspace under `usage/ ‖ workspace`: a version byte,
//! then the bytes of its records' keys and values and the number of its broadcasts, both as u64 in
//! big endian. The writer adds the changed counts to each group, so they are as durable as what
//! they count. It reads how large a replaced or deleted record was, which its memtable or a bloom
//! filter mostly answers. The journal and these records themselves are not counted.

use std::ops::ControlFlow;

use hashbrown::HashMap;
use postrider_domain::WorkspaceId;

use crate::{Change, Direction, EPOCH_KEY, Group, Store, StoreError, Table, View};

/// What begins the keys of the counts.
const PREFIX: &[u8] = b"usage/";
/// Says that everything is counted. A directory of an earlier version does not have it.
const COMPLETE_KEY: &[u8] = b"usage";
const VERSION: u8 = 1;
/// What follows `workspace ‖ 0` in the key of a broadcast's record in [`Table::Broadcasts`].
const BROADCAST: u8 = b'b';
/// After how many records it is logged that everything is still being counted: some seconds.
const PROGRESS_RECORDS: u64 = 1_000_000;
/// Most counts that are written in one commit when everything is counted.
const COUNTS_AT_ONCE: usize = 1000;

/// What a workspace has in the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// The bytes of the keys and values of its records and of its event log.
    pub bytes: u64,
    /// Its broadcasts, whatever their status.
    pub broadcasts: u64,
}

/// A change of the counts.
#[derive(Debug, Clone, Copy, Default)]
struct Delta {
    bytes: i64,
    broadcasts: i64,
}

impl Usage {
    /// What the workspace has in the committed view. It costs one look-up.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when the counts cannot be decoded, and the errors of [`View::get`].
    pub fn of(view: &dyn View, workspace: &WorkspaceId) -> Result<Self, StoreError> {
        read(view, &Self::key(workspace))
    }

    /// Counts what the workspace has by reading all of it. It is for checks: it reads for long.
    ///
    /// # Errors
    /// Those of [`View::scan`].
    pub fn scan(view: &dyn View, workspace: &WorkspaceId) -> Result<Self, StoreError> {
        let prefix = [workspace.as_str().as_bytes(), &[0]].concat();
        let found = scan(view, &prefix, &mut || {})?;
        Ok(found.into_values().next().unwrap_or_default().on(Self::default()))
    }

    /// The key in [`Table::Meta`] of what a workspace uses.
    #[must_use]
    pub fn key(workspace: &WorkspaceId) -> Vec<u8> {
        key(workspace.as_str().as_bytes())
    }

    fn encode(self) -> Vec<u8> {
        let mut value = vec![VERSION];
        value.extend_from_slice(&self.bytes.to_be_bytes());
        value.extend_from_slice(&self.broadcasts.to_be_bytes());
        value
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let (&VERSION, rest) = value.split_first()? else { return None };
        let (bytes, broadcasts) = rest.split_first_chunk()?;
        let broadcasts = broadcasts.try_into().ok()?;
        Some(Self { bytes: u64::from_be_bytes(*bytes), broadcasts: u64::from_be_bytes(broadcasts) })
    }
}

impl Delta {
    /// The counts after this change.
    fn on(self, before: Usage) -> Usage {
        Usage {
            bytes: before.bytes.saturating_add_signed(self.bytes),
            broadcasts: before.broadcasts.saturating_add_signed(self.broadcasts),
        }
    }

    /// Adds a record, or takes it away with a negative `sign`.
    fn add(&mut self, sign: i64, table: Table, key: &[u8], own_from: usize, value_bytes: u64) {
        let bytes = value_bytes.saturating_add(key.len() as u64);
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.bytes = self.bytes.saturating_add(sign.saturating_mul(bytes));
        if table == Table::Broadcasts && key.get(own_from) == Some(&BROADCAST) {
            self.broadcasts = self.broadcasts.saturating_add(sign);
        }
    }
}

fn key(workspace: &[u8]) -> Vec<u8> {
    [PREFIX, workspace].concat()
}

fn read(view: &dyn View, key: &[u8]) -> Result<Usage, StoreError> {
    let Some(value) = view.get(Table::Meta, key)? else { return Ok(Usage::default()) };
    Usage::decode(&value).ok_or_else(|| {
        StoreError::Damaged(format!("the counts {} cannot be read", key.escape_ascii()))
    })
}

/// A record's key and its new value; `None` deletes the record.
type Counted = (Vec<u8>, Option<Vec<u8>>);

/// The counts, as records of [`Table::Meta`], after changes that are about to be committed. No two
/// of the changes may name the same record.
///
/// # Errors
/// Those of [`View::get`]. Counts that cannot be decoded begin anew, which is logged.
pub(crate) fn counted(view: &dyn View, changes: &[Change]) -> Result<Vec<Counted>, StoreError> {
    let mut deltas: HashMap<&[u8], Delta> = HashMap::new();
    for Change { table, key, value } in changes {
        if !table.is_of_workspaces() {
            continue;
        }
        let Some(end) = key.iter().position(|byte| *byte == 0) else { continue };
        let delta = deltas.entry(&key[..end]).or_default();
        if let Some(value) = value {
            delta.add(1, *table, key, end + 1, value.len() as u64);
        }
        // A chunk of an event log is never written twice.
        let is_new = *table == Table::Events && value.is_some();
        if !is_new && let Some(bytes) = view.value_bytes(*table, key)? {
            delta.add(-1, *table, key, end + 1, bytes);
        }
    }
    let mut counts = Vec::with_capacity(deltas.len());
    for (workspace, delta) in deltas {
        let key = key(workspace);
        let before = match read(view, &key) {
            Err(StoreError::Damaged(why)) => {
                tracing::error!(why, "a workspace's bytes are counted anew from none");
                Usage::default()
            }
            before => before?,
        };
        let after = delta.on(before);
        // Nothing is left of a workspace that has nothing.
        let value = (after != Usage::default()).then(|| after.encode());
        if after != before {
            counts.push((key, value));
        }
    }
    Ok(counts)
}

/// Counts everything once, in a directory that an earlier version wrote. That reads all of it, and
/// nothing is served meanwhile, so the log says how far it is.
///
/// # Errors
/// Those of the store.
pub(crate) fn begin(store: &dyn Store) -> Result<(), StoreError> {
    if store.get(Table::Meta, COMPLETE_KEY)?.is_some() {
        return Ok(());
    }
    // A new directory has nothing to be counted.
    let epoch = store.get(Table::Meta, EPOCH_KEY)?;
    let is_new = epoch.is_none_or(|epoch| epoch == 1_u64.to_be_bytes());
    if !is_new {
        tracing::info!("the bytes of all workspaces are counted once, because no count is kept");
    }
    let mut records = 0_u64;
    let mut progress = || {
        records += 1;
        if records.is_multiple_of(PROGRESS_RECORDS) {
            tracing::info!(records, "the bytes of all workspaces are still being counted");
        }
    };
    let counts: Vec<_> = scan(store, &[], &mut progress)?
        .into_iter()
        .map(|(workspace, delta)| {
            Change::put(Table::Meta, key(&workspace), delta.on(Usage::default()).encode())
        })
        .collect();
    if !is_new {
        let workspaces = counts.len();
        tracing::info!(workspaces, records, "the bytes of all workspaces were counted");
    }
    for some in counts.chunks(COUNTS_AT_ONCE) {
        store.commit(Group::new(None, some))?;
    }
    store.commit(Group::new(None, &[Change::put(Table::Meta, COMPLETE_KEY, [VERSION])]))?;
    Ok(())
}

/// What the workspaces have whose keys begin with `prefix`. Calls `each` for every record.
fn scan(
    view: &dyn View,
    prefix: &[u8],
    each: &mut dyn FnMut(),
) -> Result<HashMap<Vec<u8>, Delta>, StoreError> {
    let mut found: HashMap<Vec<u8>, Delta> = HashMap::new();
    for table in Table::ALL.iter().copied().filter(|table| table.is_of_workspaces()) {
        view.scan(table, prefix, None, Direction::Forward, &mut |key, value| {
            each();
            if let Some(end) = key.iter().position(|byte| *byte == 0) {
                let delta = found.entry_ref(&key[..end]).or_default();
                delta.add(1, table, key, end + 1, value.len() as u64);
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::MemoryStore;

    fn workspaces() -> [WorkspaceId; 2] {
        ["acme", "b-2"].map(|id| id.parse().unwrap())
    }

    /// Commits as the writer does.
    fn commit(store: &MemoryStore, changes: &[Change]) {
        let counts = counted(store, changes).unwrap();
        let counts =
            counts.into_iter().map(|(key, value)| Change { table: Table::Meta, key, value });
        let all: Vec<_> = changes.iter().cloned().chain(counts).collect();
        store.commit(Group::new(None, &all)).unwrap();
    }

    fn step() -> impl Strategy<Value = (usize, usize, u8, Option<usize>)> {
        (0..2_usize, 0..3_usize, 0..6_u8, proptest::option::of(0..40_usize))
    }

    proptest! {
        #[test]
        fn counts_are_what_a_scan_finds(groups in proptest::collection::vec(
            proptest::collection::vec(step(), 0..6), 0..20)) {
            let store = MemoryStore::new();
            for group in groups {
                let mut changes: Vec<Change> = Vec::new();
                for (workspace, table, key, value) in group {
                    let table = [Table::Contacts, Table::Broadcasts, Table::Keys][table];
                    let kind = if key % 2 == 0 { b'b' } else { b'c' };
                    let id = workspaces()[workspace].clone();
                    let key = [id.as_str().as_bytes(), &[0, kind, key]].concat();
                    changes.retain(|change| (change.table, &change.key) != (table, &key));
                    changes.push(Change { table, key, value: value.map(|len| vec![7; len]) });
                }
                commit(&store, &changes);
                for id in &workspaces() {
                    let counted = Usage::of(&store, id).unwrap();
                    prop_assert_eq!(counted, Usage::scan(&store, id).unwrap());
                }
            }
        }
    }

    #[test]
    fn a_directory_of_an_earlier_version_is_counted_once() {
        let store = MemoryStore::new();
        let [acme, other] = workspaces();
        let old = [
            Change::put(Table::Contacts, *b"acme\0x", *b"12345"),
            Change::put(Table::Broadcasts, *b"acme\0b1", *b"{}"),
            Change::put(Table::Keys, *b"acme\0x", *b"not of a workspace"),
        ];
        store.commit(Group::new(None, &old)).unwrap();
        begin(&store).unwrap();
        let counted = Usage { bytes: 6 + 5 + 7 + 2, broadcasts: 1 };
        assert_eq!(Usage::of(&store, &acme).unwrap(), counted);
        assert_eq!(Usage::of(&store, &other).unwrap(), Usage::default());
        // A second start believes the counts.
        store.commit(Group::new(None, &[Change::delete(Table::Contacts, *b"acme\0x")])).unwrap();
        begin(&store).unwrap();
        assert_eq!(Usage::of(&store, &acme).unwrap(), counted);
    }

    #[test]
    fn counts_are_written_and_read_as_ever() {
        let usage = Usage { bytes: 0x0102_0304, broadcasts: 5 };
        let bytes = [&[1][..], &[0, 0, 0, 0, 1, 2, 3, 4], &[0, 0, 0, 0, 0, 0, 0, 5]].concat();
        assert_eq!((usage.encode(), Usage::decode(&bytes)), (bytes, Some(usage)));
        assert_eq!(key(b"acme"), b"usage/acme");
        for damaged in [&[][..], &[2], &[1, 0], &[1; 18]] {
            assert_eq!(Usage::decode(damaged), None);
        }
    }
}

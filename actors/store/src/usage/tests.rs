//! The counts of workspaces' data are those that a scan finds.

use proptest::prelude::*;

use super::*;
use crate::{Group, MemoryStore, Store};

fn workspaces() -> [WorkspaceId; 2] {
    ["acme", "b-2"].map(|id| id.parse().unwrap())
}

/// Commits as the writer does.
fn commit(store: &MemoryStore, changes: &[Change]) {
    let counts = changed_counts(store, changes).unwrap().into_iter();
    let counts = counts.map(|(key, value)| Change { table: Table::Meta, key, value });
    let all: Vec<_> = changes.iter().cloned().chain(counts).collect();
    store.commit(Group::new(None, &all)).unwrap();
}

fn step() -> impl Strategy<Value = (usize, usize, u8, Option<usize>)> {
    (0..2_usize, 0..3_usize, 0..6_u8, proptest::option::of(0..40_usize))
}

proptest! {
    #[test]
    fn counts_are_what_a_scan_finds(
        groups in proptest::collection::vec(proptest::collection::vec(step(), 0..6), 0..20),
    ) {
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
        }
        for id in &workspaces() {
            let counted = Usage::of(&store, id).unwrap();
            prop_assert_eq!(counted, Usage::scan(&store, id).unwrap());
        }
    }
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

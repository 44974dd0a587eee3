//! Tests that the counts of workspaces equal those of a scan, whatever is committed meanwhile.

use proptest::prelude::*;

use super::progress::{CURSOR_KEY, SLICE_BYTES, SLICE_RECORDS};
use super::*;
use crate::{Group, MemoryStore, Store};

fn workspaces() -> [WorkspaceId; 2] {
    ["acme", "b-2"].map(|id| id.parse().unwrap())
}

/// A store that an earlier version has begun.
fn of_earlier_version() -> MemoryStore {
    let store = MemoryStore::new();
    store.begin_epoch().unwrap();
    store.begin_epoch().unwrap();
    store
}

/// Commits as the writer does.
fn commit(store: &MemoryStore, progress: &UsageProgress, changes: &[Change]) -> UsageProgress {
    let (counts, next) = counted(store, progress, progress.slice(store).unwrap(), changes).unwrap();
    let counts = counts.into_iter().map(|(key, value)| Change { table: Table::Meta, key, value });
    let all: Vec<_> = changes.iter().cloned().chain(counts).collect();
    store.commit(Group::new(None, &all)).unwrap();
    next
}

fn step() -> impl Strategy<Value = (usize, usize, u8, Option<usize>)> {
    (0..2_usize, 0..3_usize, 0..6_u8, proptest::option::of(0..40_usize))
}

proptest! {
    #[test]
    fn counts_are_what_a_scan_finds(
        uncounted in 0..20_usize,
        groups in proptest::collection::vec(proptest::collection::vec(step(), 0..6), 0..20),
    ) {
        let store = of_earlier_version();
        let mut progress = UsageProgress::Complete;
        for (number, group) in groups.into_iter().enumerate() {
            let mut changes: Vec<Change> = Vec::new();
            for (workspace, table, key, value) in group {
                let table = [Table::Contacts, Table::Broadcasts, Table::Keys][table];
                let kind = if key % 2 == 0 { b'b' } else { b'c' };
                let id = workspaces()[workspace].clone();
                let key = [id.as_str().as_bytes(), &[0, kind, key]].concat();
                changes.retain(|change| (change.table, &change.key) != (table, &key));
                changes.push(Change { table, key, value: value.map(|len| vec![7; len]) });
            }
            // The first are of an earlier version; then it is counted beside the others.
            if number < uncounted {
                store.commit(Group::new(None, &changes)).unwrap();
                continue;
            }
            if number == uncounted {
                progress = UsageProgress::begin(&store).unwrap();
            }
            progress = commit(&store, &progress, &changes);
        }
        if progress == UsageProgress::Complete && uncounted > 0 {
            progress = UsageProgress::begin(&store).unwrap();
        }
        while progress != UsageProgress::Complete {
            progress = commit(&store, &progress, &[]);
        }
        for id in &workspaces() {
            let counted = Usage::of(&store, id).unwrap();
            prop_assert_eq!(counted, Usage::scan(&store, id).unwrap());
        }
    }
}

#[test]
fn a_directory_of_an_earlier_version_is_counted_once() {
    let store = of_earlier_version();
    let [acme, other] = workspaces();
    let old = [
        Change::put(Table::Contacts, *b"acme\0x", *b"12345"),
        Change::put(Table::Broadcasts, *b"acme\0b1", *b"{}"),
        Change::put(Table::Keys, *b"acme\0x", *b"not of a workspace"),
        // Of a count that was interrupted.
        Change::put(Table::Meta, key(b"acme"), Usage { bytes: 9, broadcasts: 9 }.encode()),
    ];
    store.commit(Group::new(None, &old)).unwrap();
    let begun = UsageProgress::begin(&store).unwrap();
    assert_eq!(Usage::of(&store, &acme).unwrap(), Usage::default());
    assert_eq!(commit(&store, &begun, &[]), UsageProgress::Complete);
    let counted = Usage { bytes: 6 + 5 + 7 + 2, broadcasts: 1 };
    assert_eq!(Usage::of(&store, &acme).unwrap(), counted);
    assert_eq!(Usage::of(&store, &other).unwrap(), Usage::default());
    assert_eq!(store.get(Table::Meta, CURSOR_KEY), Ok(None));
    // A second start believes the counts.
    store.commit(Group::new(None, &[Change::delete(Table::Contacts, *b"acme\0x")])).unwrap();
    assert_eq!(UsageProgress::begin(&store), Ok(UsageProgress::Complete));
    assert_eq!(Usage::of(&store, &acme).unwrap(), counted);
}

#[test]
fn a_slice_is_bounded_by_records_and_by_bytes() {
    let store = of_earlier_version();
    let many: Vec<_> = (0..3 * SLICE_RECORDS as u32)
        .map(|number| {
            let key = [b"acme\0c".as_slice(), &number.to_be_bytes()].concat();
            Change::put(Table::Contacts, key, [1])
        })
        .collect();
    store.commit(Group::new(None, &many)).unwrap();
    let large = |key: &[u8]| Change::put(Table::Events, key, vec![7; SLICE_BYTES]);
    store.commit(Group::new(None, &[large(b"b-2\0a"), large(b"b-2\0b")])).unwrap();
    let (mut progress, mut slices) = (UsageProgress::begin(&store).unwrap(), Vec::new());
    while progress != UsageProgress::Complete {
        progress = commit(&store, &progress, &[]);
        // What a restart goes on with.
        assert_eq!(UsageProgress::begin(&store).as_ref(), Ok(&progress));
        slices.push(workspaces().map(|id| Usage::of(&store, &id).unwrap().bytes));
    }
    let each = (4 + 1 + 1 + 4 + 1) * SLICE_RECORDS as u64;
    let event = 5 + SLICE_BYTES as u64;
    let expected = [
        [0, event],
        [0, 2 * event],
        [each, 2 * event],
        [2 * each, 2 * event],
        [3 * each, 2 * event],
    ];
    assert_eq!(slices[..4], expected[..4]);
    assert_eq!(slices.last(), expected.last());
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
    let at = Table::ALL.iter().position(|table| *table == Table::Contacts).unwrap();
    let upto = UsageProgress::UpTo(at, b"acme\0x".to_vec());
    assert_eq!(upto.record(), (b"usage_cursor".to_vec(), Some(b"\x01\x07acme\0x".to_vec())));
    assert_eq!(UsageProgress::Complete.record(), (b"usage".to_vec(), Some(vec![1])));
    let store = MemoryStore::new();
    for damaged in [&[][..], &[2, 7], &[1], &[1, 0]] {
        let cursor = Change::put(Table::Meta, CURSOR_KEY, damaged);
        store.commit(Group::new(None, &[cursor])).unwrap();
        assert!(matches!(UsageProgress::read(&store), Err(StoreError::Damaged(_))), "{damaged:?}");
    }
}

//! Tests that entries are read as they were written, and that any change is noticed.

use proptest::prelude::*;

use super::*;
use crate::testing::ID;

prop_compose! {
    fn headers()(
        kind in prop::sample::select(&Kind::ALL[..]),
        shard: u16,
        log: [u8; 16],
        position in 1_u64..,
        epoch: u64,
        prev: [u8; 16],
        part: u16,
        more in 1_u16..,
        time_ms: u64,
    ) -> Header {
        let parts = part.saturating_add(more);
        let (log, prev, position) = (LogId(log), EntryHash(prev), Position(position));
        let part = part.min(parts - 1);
        Header { kind, shard, log, position, epoch, prev, part, parts, body_bytes: 0, time_ms }
    }
}

fn entry() -> Bytes {
    let header = Header {
        kind: Kind::Group,
        shard: 0,
        log: ID,
        position: Position(5),
        epoch: 2,
        prev: EntryHash([1; 16]),
        part: 0,
        parts: 1,
        body_bytes: 4,
        time_ms: 0,
    };
    encode(&header, b"body")
}

/// Returns the entry with some changed bytes of the header, and matching checksums.
fn with(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut changed = entry().to_vec();
    changed[at..at + bytes.len()].copy_from_slice(bytes);
    let checksum = crc32c::crc32c(&changed[..76]);
    changed[76..80].copy_from_slice(&checksum.to_be_bytes());
    let end = changed.len() - 8;
    let checksum = crc32c::crc32c(&changed[..end]);
    changed[end..end + 4].copy_from_slice(&checksum.to_be_bytes());
    changed
}

#[test]
fn what_no_writer_writes_is_refused() {
    let newer = |field, number| EntryFault::Newer { field, number };
    let table: [(usize, &[u8], EntryFault); 9] = [
        (0, b"PRLX", EntryFault::Magic),
        (4, &[2], newer("version", 2)),
        (4, &[0], newer("version", 0)),
        (5, &[5], newer("kind", 5)),
        (5, &[0], newer("kind", 0)),
        (24, &[0; 8], EntryFault::Fields),
        (56, &[0, 1], EntryFault::Fields),
        (58, &[0, 0], EntryFault::Fields),
        (75, &[1], EntryFault::Fields),
    ];
    for (at, bytes, fault) in table {
        assert_eq!(verify(&with(at, bytes)), Err(fault), "{at} {bytes:?}");
    }
    let longer = with(60, &5_u32.to_be_bytes());
    assert_eq!(verify(&longer), Err(EntryFault::Short));
    let shorter = with(60, &3_u32.to_be_bytes());
    assert_eq!(verify(&shorter), Err(EntryFault::Long));
    let mut unmarked = entry().to_vec();
    *unmarked.last_mut().unwrap() = 0;
    assert_eq!(verify(&unmarked), Err(EntryFault::EndMark));
}

#[test]
fn every_changed_or_missing_byte_is_noticed() {
    let entry = entry();
    for at in 0..entry.len() {
        for bit in 0..8 {
            let mut bad = entry.to_vec();
            bad[at] ^= 1 << bit;
            assert!(verify(&bad).is_err(), "byte {at}, bit {bit}");
        }
        assert_eq!(verify(&entry[..at]), Err(EntryFault::Short), "cut at {at}");
    }
    assert_eq!(verify(&[&entry[..], &[0]].concat()), Err(EntryFault::Long));
    assert_ne!(entry.last(), Some(&0));
}

proptest! {
    #[test]
    fn what_was_encoded_is_decoded(header in headers(), body: Vec<u8>) {
        let header = Header { body_bytes: body.len() as u32, ..header };
        let bytes = encode(&header, &body);
        prop_assert_eq!(bytes.len(), header.entry_bytes());
        let entry = Entry::decode(bytes).unwrap();
        prop_assert_eq!(&entry.header, &header);
        prop_assert_eq!(&entry.body()[..], &body);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, begins_well: bool) {
        let prefix = if begins_well { &entry()[..HEADER_BYTES] } else { &[] };
        let bytes = [prefix, &bytes].concat();
        prop_assert_eq!(verify(&bytes).is_ok(), bytes == entry());
    }
}

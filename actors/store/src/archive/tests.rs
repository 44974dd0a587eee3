//! The format as bytes, and the effects of damage.

use postrider_domain::golden::Sheet;
use postrider_log::EntryHash;
use proptest::prelude::*;

use super::*;
use crate::{Position, Table};
use expect_test::expect;

fn header() -> ArchiveHeader {
    ArchiveHeader {
        log: LogId(*b"0123456789abcdef"),
        shard: 0,
        at: Mark { position: Position(0x0102), epoch: 3, hash: EntryHash([0xee; 16]) },
        time_ms: 0x0304,
        keys: vec![(1, [0x11; 16]), (2, [0x22; 16])],
        program: "0.1.0".into(),
    }
}

const RECORDS: [(Table, &[u8], &[u8]); 4] = [
    (Table::Meta, b"epoch", b"\x01"),
    (Table::Workspaces, b"acme\0c", b"credits"),
    (Table::Workspaces, b"acme\0p", b""),
    (Table::Workspaces, b"beta\0p", b"profile"),
];

fn small() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ArchiveWriter::new(&mut bytes, &header()).unwrap();
    for (table, key, value) in RECORDS {
        writer.record(table, key, value).unwrap();
    }
    writer.state("acme", b"hot").unwrap();
    let counts = writer.finish().unwrap();
    assert_eq!(counts, ArchiveCounts { records: 4, workspaces: 2, states: 1 });
    bytes
}

fn rows(bytes: &[u8]) -> Result<Vec<Row>, ArchiveError> {
    let mut reader = ArchiveReader::new(bytes)?;
    assert_eq!(reader.header(), &header());
    let mut rows = Vec::new();
    while let Some(some) = reader.next_rows()? {
        rows.extend(some);
    }
    Ok(rows)
}

#[test]
fn archives_are_written_as_ever() {
    let mut sheet = Sheet::default();
    sheet.bytes("archive", &small());
    sheet.is(expect![[r#"
        archive:
            50524152010000000000006430313233343536373839616263646566000000000000000001020000
            000000000003eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee000000000000030402011111111111111111
            111111111111111102222222222222222222222222222222220005302e312e30c6f2f39f01000000
            00000000000000504b34bbbe01000565706f6368000000010102000661636d650063000000076372
            656469747302000661636d650070000000000200066265746100700000000770726f66696c65ff00
            0461636d6500000003686f74003740ab020000000000000100000038cba863ef0000000000000004
            000000000000000200000000000000012fdf7b0888223fbe867fc456c20a84be451faf196839d42a
            7757448b593c6073f5e91cd0
    "#]]);
}

#[test]
fn what_was_written_is_read() {
    let bytes = small();
    let read = rows(&bytes).unwrap();
    let of = |bytes: &'static [u8]| bytes::Bytes::from_static(bytes);
    let mut expected: Vec<_> = RECORDS
        .into_iter()
        .map(|(table, key, value)| Row::Record(table, of(key), of(value)))
        .collect();
    expected.push(Row::State(of(b"acme"), of(b"hot")));
    assert_eq!(read, expected);
    let counts = ArchiveReader::new(&bytes[..]).unwrap().verify().unwrap();
    assert_eq!(counts, ArchiveCounts { records: 4, workspaces: 2, states: 1 });
}

#[test]
fn any_changed_byte_is_found_and_any_other_length() {
    let bytes = small();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut bad = bytes.clone();
            bad[at] ^= 1 << bit;
            let error = rows(&bad).unwrap_err();
            assert!(matches!(error, ArchiveError::Damaged { .. }), "{at}: {error}");
        }
        let cut = rows(&bytes[..at]).unwrap_err();
        assert!(
            matches!(cut, ArchiveError::Damaged { offset, .. } if offset == at as u64),
            "{cut}"
        );
    }
    let longer = rows(&[&bytes[..], b"x"].concat()).unwrap_err().to_string();
    let at = bytes.len();
    assert_eq!(longer, format!("damaged at byte {at}: there is more behind its end"));
}

/// Returns the start of the first block, and that of the one behind it.
fn blocks(bytes: &[u8]) -> (usize, usize) {
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let first = HEADER_BYTES + word(8) + 4;
    (first, first + BLOCK_HEADER_BYTES + word(first + 8) + 4)
}

/// Changes a byte of the content of the block at `block`, and its checksum with it.
fn forge(bytes: &mut [u8], block: usize, at: usize) {
    let length = u32::from_be_bytes(bytes[block + 8..block + 12].try_into().unwrap()) as usize;
    let content = block + BLOCK_HEADER_BYTES..block + BLOCK_HEADER_BYTES + length;
    bytes[content.start + at] ^= 1;
    let checksum = crc32c::crc32c(&bytes[content.clone()]).to_be_bytes();
    bytes[content.end..content.end + 4].copy_from_slice(&checksum);
}

/// Each block is one that was written, but they do not belong together.
#[test]
fn blocks_that_do_not_belong_together_are_found() {
    let whole = small();
    let (rows_at, end_at) = blocks(&whole);
    let refused = |bytes: &[u8]| rows(bytes).unwrap_err().to_string();
    let mut changed = whole.clone();
    // The value of the first record: behind table, length and key, and its own length.
    forge(&mut changed, rows_at, 1 + 2 + 5 + 4);
    assert!(refused(&changed).contains("the SHA-256 does not match"), "{}", refused(&changed));
    let mut counted = whole.clone();
    forge(&mut counted, end_at, 7);
    assert!(refused(&counted).contains("as much as was written"), "{}", refused(&counted));
    let twice = [&whole[..end_at], &whole[rows_at..]].concat();
    assert!(refused(&twice).contains("another block must be here"), "{}", refused(&twice));
    for second in [b"a", b"b"] {
        let mut bytes = Vec::new();
        let mut writer = ArchiveWriter::new(&mut bytes, &header()).unwrap();
        writer.record(Table::Meta, b"b", b"1").unwrap();
        writer.record(Table::Meta, second, b"2").unwrap();
        writer.finish().unwrap();
        assert!(refused(&bytes).contains("does not follow"), "{}", refused(&bytes));
    }
}

#[test]
fn what_a_newer_version_wrote_is_refused() {
    for version in [0, 2] {
        let mut newer = small();
        newer[4] = version;
        let length = HEADER_BYTES + usize::from(newer[10]) * 256 + usize::from(newer[11]);
        let checksum = crc32c::crc32c(&newer[..length]).to_be_bytes();
        newer[length..length + 4].copy_from_slice(&checksum);
        let error = ArchiveReader::new(&newer[..]).err().unwrap().to_string();
        let expected =
            format!("written by a newer version: version {version} at byte 4 is not known");
        assert_eq!(error, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() })]

    #[test]
    fn large_values_make_blocks_of_their_own(
        lengths in prop::collection::vec(0..3_000_000_usize, 1..6),
        flip in any::<prop::sample::Index>(),
    ) {
        let mut bytes = Vec::new();
        let mut writer = ArchiveWriter::new(&mut bytes, &header()).unwrap();
        for (key, length) in lengths.iter().enumerate() {
            writer.record(Table::Contacts, &[key as u8], &vec![key as u8; *length]).unwrap();
        }
        writer.finish().unwrap();
        let read = rows(&bytes).unwrap();
        let found: Vec<_> = read.iter().map(|row| match row {
            Row::Record(_, _, value) | Row::State(_, value) => value.len(),
        }).collect();
        prop_assert_eq!(found, lengths);
        let at = flip.index(bytes.len());
        bytes[at] ^= 0x10;
        prop_assert!(rows(&bytes).is_err(), "{}", at);
    }
}

//! Golden bytes of a segment's header and of the mark of a clean stop.

use expect_test::expect;

use super::recover::CleanStop;
use super::segment::{SegmentFault, SegmentHeader, position_in_name, segment_name};
use super::*;
use crate::EntryHash;

#[test]
fn a_segment_is_headed_as_ever() {
    let header = SegmentHeader {
        log: ID,
        shard: 3,
        first: Position(0x0102),
        prev: EntryHash([0xee; 16]),
        epoch: 7,
        segment_before: Position(0x80),
    };
    let bytes = header.encode();
    assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
    assert!(bytes[64..4092].iter().all(|byte| *byte == 0));
    expect![[r#"
        5052534701000003303132333435363738396162636465660000000000000102
        eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee00000000000000070000000000000080
        c5a6566f
    "#]]
    .assert_eq(&hex(&[&bytes[..64], &bytes[4092..]].concat()));
    for at in [0, 5, 64, 4091, 4095] {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        assert_eq!(SegmentHeader::decode(&bad), Err(SegmentFault::Checksum), "{at}");
    }
    let mut newer = bytes.clone();
    newer[4] = 2;
    let checksum = crc32c::crc32c(&newer[..4092]);
    newer[4092..].copy_from_slice(&checksum.to_be_bytes());
    assert_eq!(SegmentHeader::decode(&newer), Err(SegmentFault::Newer(2)));
    assert_eq!(SegmentHeader::decode(&bytes[..4095]), Err(SegmentFault::Short));
}

#[test]
fn a_segment_is_named_as_ever() {
    assert_eq!(segment_name(Position(258)), "00000000000000000258.log");
    assert_eq!(position_in_name("00000000000000000258.log"), Some(Ok(Position(258))));
    let last = segment_name(Position(u64::MAX));
    assert_eq!(position_in_name(&last), Some(Ok(Position(u64::MAX))));
    for odd in ["258.log", "+0000000000000000258.log", "99999999999999999999.log", ".log"] {
        assert_eq!(position_in_name(odd), Some(Err(())), "{odd}");
    }
    assert_eq!(position_in_name("closed"), None);
}

#[test]
fn a_clean_stop_is_marked_as_ever() {
    let closed = CleanStop { log: ID, last: Position(0x0102), hash: EntryHash([0xee; 16]) };
    let bytes = closed.encode();
    assert_eq!(CleanStop::decode(&bytes), Some(closed));
    expect![[r#"
        5052434c01000000303132333435363738396162636465660000000000000102
        eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee30fbb27f
    "#]]
    .assert_eq(&hex(&bytes));
    for at in 0..bytes.len() {
        let mut bad = bytes;
        bad[at] ^= 1;
        assert_eq!(CleanStop::decode(&bad), None, "{at}");
        assert_eq!(CleanStop::decode(&bytes[..at]), None, "{at}");
    }
    assert_eq!(CleanStop::decode(&[&bytes[..], &[0]].concat()), None);
}

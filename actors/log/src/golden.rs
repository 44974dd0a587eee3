//! Golden bytes of every kind of entry, of a split commit, a segment's header and a clean stop.

use std::fmt::Write;

use bytes::Bytes;
use expect_test::{Expect, expect};

use crate::testing::hex;
use crate::*;

fn next() -> Next {
    Next {
        log: LogId(*b"0123456789abcdef"),
        shard: 3,
        position: Position(0x0102),
        epoch: 7,
        prev: EntryHash([0xee; 16]),
    }
}

/// Checks that the commit is written as ever, and read back as ever.
fn is(kind: Kind, body: &[u8], max: usize, expected: &[Expect]) {
    let entries = encode_commit(&next(), kind, 0x0a0b_0c0d, body, max).unwrap();
    assert_eq!(entries.len(), expected.len());
    let mut joiner = Joiner::default();
    let mut joined = None;
    let mut chain = Chain::new(next().log, 3, Position(0x0101), 7, EntryHash([0xee; 16]));
    if kind == Kind::Claim {
        chain = Chain::new(next().log, 3, Position(0x0101), 6, EntryHash([0xee; 16]));
    }
    for (bytes, expected) in entries.iter().zip(expected) {
        expected.assert_eq(&hex(bytes));
        let entry = Entry::decode(bytes.clone()).unwrap();
        chain.check_and_push(&entry).unwrap();
        joined = joiner.push(&entry).unwrap();
    }
    let joined = joined.unwrap();
    assert_eq!((joined.kind, joined.epoch, joined.time_ms), (kind, 7, 0x0a0b_0c0d));
    assert_eq!((joined.first, &joined.body[..]), (Position(0x0102), body));
}

#[test]
fn a_claim() {
    let claim = Claim {
        node: "node-a".into(),
        incarnation: *b"ABCDEFGHIJKLMNOP",
        program: "0.1.0".into(),
        readable_from: 1,
    };
    let body = claim.encode().unwrap();
    assert_eq!(Claim::decode(body.clone().into()), Ok(claim));
    is(
        Kind::Claim,
        &body,
        4_096,
        &[expect![[r#"
        50524c4701010003303132333435363738396162636465660000000000000102
        0000000000000007eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee0000000100000021
        000000000a0b0c0d00000000a1e669bd00066e6f64652d614142434445464748
        494a4b4c4d4e4f500005302e312e3000016a122dc5674c5250
    "#]]],
    );
}

fn group() -> GroupBody {
    let change = |table, key: &'static [u8], value: Option<&'static [u8]>| RecordChange {
        table,
        key: Bytes::from_static(key),
        value: value.map(Bytes::from_static),
    };
    GroupBody {
        frame: Bytes::from_static(b"frame"),
        changes: vec![
            change(1, b"put", Some(b"value")),
            change(25, b"deleted", None),
            change(5, b"", Some(b"")),
        ],
    }
}

#[test]
fn a_group() {
    let body = group().encode().unwrap();
    assert_eq!(GroupBody::decode(body.clone().into()), Ok(group()));
    is(
        Kind::Group,
        &body,
        4_096,
        &[expect![[r#"
        50524c4701020003303132333435363738396162636465660000000000000102
        0000000000000007eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee0000000100000030
        000000000a0b0c0d00000000bcbe6640000000056672616d6500000003010100
        037075740000000576616c75651900000764656c657465640501000000000000
        4df125f3674c5250
    "#]]],
    );
}

#[test]
fn a_group_in_parts() {
    let body = group().encode().unwrap();
    is(
        Kind::Group,
        &body,
        108,
        &[
            expect![[r#"
        50524c4701020003303132333435363738396162636465660000000000000102
        0000000000000007eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee0000000300000014
        000000000a0b0c0d00000000c61105ec000000056672616d6500000003010100
        0370757407e14dfe674c5250
    "#]],
            expect![[r#"
        50524c4701020003303132333435363738396162636465660000000000000103
        0000000000000007a7b0cd02d732e3b552112a961ff76db80001000300000014
        000000000a0b0c0d00000000a0d367190000000576616c75651900000764656c
        65746564a94bdd43674c5250
    "#]],
            expect![[r#"
        50524c4701020003303132333435363738396162636465660000000000000104
        00000000000000074bc590257121dc886e0bf78d5ebd9f500002000300000008
        000000000a0b0c0d000000000eb1591b05010000000000000586c808674c5250
    "#]],
        ],
    );
}

#[test]
fn a_checkpoint() {
    let note = CheckpointNote {
        position: Position(99),
        archive: "00000000000000000099.ckpt".into(),
        sha256: [0x5a; 32],
        bytes: 123_456,
    };
    let body = note.encode().unwrap();
    assert_eq!(CheckpointNote::decode(body.clone().into()), Ok(note));
    is(
        Kind::Checkpoint,
        &body,
        4_096,
        &[expect![[r#"
        50524c4701030003303132333435363738396162636465660000000000000102
        0000000000000007eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee000000010000004b
        000000000a0b0c0d000000007da42fb600000000000000630019303030303030
        30303030303030303030303039392e636b70745a5a5a5a5a5a5a5a5a5a5a5a5a
        5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a000000000001e240a1f1052367
        4c5250
    "#]]],
    );
}

#[test]
fn a_handoff() {
    let handoff = Handoff { node: "node-b".into() };
    let body = handoff.encode().unwrap();
    assert_eq!(Handoff::decode(body.clone().into()), Ok(handoff));
    is(
        Kind::Handoff,
        &body,
        4_096,
        &[expect![[r#"
        50524c4701040003303132333435363738396162636465660000000000000102
        0000000000000007eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee0000000100000008
        000000000a0b0c0d0000000067c0a1ea00066e6f64652d6288e456e9674c5250
    "#]]],
    );
}

#[test]
fn the_tables_keep_their_numbers() {
    let mut out = String::new();
    for (number, name) in table::NUMBERS {
        writeln!(out, "{number} {name}").unwrap();
        assert_eq!((table::name(*number), table::number(name)), (Some(*name), Some(*number)));
    }
    assert_eq!((table::name(0), table::name(34), table::number("other")), (None, None, None));
    expect![[r#"
        1 meta
        2 workspaces
        3 keys
        4 buckets
        5 events
        6 idempotency
        7 contacts
        8 contact_index
        9 segments
        10 conversations
        11 webhooks
        12 messages
        13 windows
        14 aliases
        15 received
        16 templates
        17 broadcasts
        18 broadcast_audience
        19 broadcast_phones
        20 broadcast_outcomes
        21 broadcast_reports
        22 suppressions
        23 analytics
        24 mails
        25 mail_queue
        26 audit
        27 otps
        28 message_index
        29 media
        30 otp_index
        31 portfolios
        32 broadcast_names
        33 event_index
    "#]]
    .assert_eq(&out);
}

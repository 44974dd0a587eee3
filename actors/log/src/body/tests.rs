//! Tests that bodies are read as they were written, and that those of a newer version are refused.

use proptest::prelude::*;

use super::*;

prop_compose! {
    fn changes()(
        table in 1_u8..=25,
        key: Vec<u8>,
        value: Option<Vec<u8>>,
    ) -> RecordChange {
        RecordChange { table, key: key.into(), value: value.map(Bytes::from) }
    }
}

fn one_change(table: u8, operation: u8) -> Bytes {
    Bytes::from(vec![0, 0, 0, 0, 0, 0, 0, 1, table, operation, 0, 0])
}

#[test]
fn what_a_newer_version_wrote_is_refused() {
    let newer = |field, number| Err(BodyError::Newer { field, number });
    assert!(GroupBody::decode(one_change(33, 0)).is_ok());
    assert_eq!(GroupBody::decode(one_change(34, 0)), newer("table", 34));
    assert_eq!(GroupBody::decode(one_change(0, 0)), newer("table", 0));
    assert_eq!(GroupBody::decode(one_change(1, 2)), newer("operation", 2));
    for readable_from in 1..=2 {
        let (node, program) = ("n".into(), "2.0.0".into());
        let claim = Claim { node, incarnation: [0; 16], program, readable_from };
        let decoded = Claim::decode(claim.encode().unwrap().into());
        match readable_from {
            ..=DATA_FORMAT => assert_eq!(decoded, Ok(claim)),
            number => assert_eq!(decoded, Err(BodyError::Newer { field: "data format", number })),
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let change = RecordChange { table: 1, key: vec![0; 65_536].into(), value: None };
    let group = GroupBody { frame: Bytes::new(), changes: vec![change] };
    let too_long = EncodeError::TooLong { field: "a key", length: 65_536, max: 65_535 };
    assert_eq!(group.encode(), Err(too_long.clone()));
    assert_eq!(too_long.to_string(), "a key of a commit has 65536 bytes, more than 65535");
    assert!(Handoff { node: "n".repeat(65_536) }.encode().is_err());
}

#[test]
fn a_cut_or_longer_body_is_refused() {
    let note =
        CheckpointNote { position: Position(1), archive: "a".into(), sha256: [1; 32], bytes: 2 };
    let claim =
        Claim { node: "n".into(), incarnation: [0; 16], program: "1".into(), readable_from: 1 };
    let bodies = [
        (note.encode().unwrap(), (|it| CheckpointNote::decode(it).is_ok()) as fn(Bytes) -> bool),
        (claim.encode().unwrap(), |it| Claim::decode(it).is_ok()),
        (Handoff { node: "node".into() }.encode().unwrap(), |it| Handoff::decode(it).is_ok()),
        (one_change(1, 0).to_vec(), |it| GroupBody::decode(it).is_ok()),
    ];
    for (body, is_read) in bodies {
        assert!(is_read(body.clone().into()));
        for at in 0..body.len() {
            assert!(!is_read(body[..at].to_vec().into()), "{at}");
        }
        assert!(!is_read([&body[..], &[0]].concat().into()));
    }
}

proptest! {
    #[test]
    fn a_group_is_read_as_it_was_written(
        frame: Vec<u8>,
        changes in prop::collection::vec(changes(), 0..10),
    ) {
        let group = GroupBody { frame: frame.into(), changes };
        prop_assert_eq!(GroupBody::decode(group.encode().unwrap().into()), Ok(group));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
        let bytes = Bytes::from(bytes);
        drop((GroupBody::decode(bytes.clone()), Claim::decode(bytes.clone())));
        drop((CheckpointNote::decode(bytes.clone()), Handoff::decode(bytes)));
    }
}

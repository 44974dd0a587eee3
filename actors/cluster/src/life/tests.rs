//! Tests that a shard which a repair has marked is not claimed, and that its report has the reason.

use bytes::Bytes;
use postrider_log::{Claim, EntryHash, Kind, LogId, Next, Position, encode_commit};

use super::*;
use crate::shard::Question;
use crate::watch::tests::Cluster;

fn claim_of_first() -> Question {
    let next = Next {
        log: LogId([7; 16]),
        shard: 0,
        position: Position(1),
        epoch: 1,
        prev: EntryHash::NONE,
    };
    let (node, program) = ("a".to_owned(), "1".to_owned());
    let claim = Claim { node, incarnation: [1; 16], program, readable_from: 1 };
    let entries = encode_commit(&next, Kind::Claim, 0, &claim.encode().unwrap(), 4_096).unwrap();
    Question::Append { at: Position(1), bytes: entries[0].clone() }
}

#[test]
fn a_claim_waits_for_a_repair_and_reports_why() {
    let inner = Cluster::new().inner;
    let (sender, inbox) = channel();
    let life = Life::new(inner.clone(), 0, inbox, sender);
    let mark = |is_finished: bool, revision| {
        let mark = format!(
            r#"{{"is_finished":{is_finished},"incarnation":{:?},"epoch":0,"was_missing":false}}"#,
            [1; 16]
        );
        inner.bucket.write("repair.0", Bytes::from(mark), revision, None).unwrap().unwrap()
    };
    let revision = mark(false, 0);
    assert!(life.ask(claim_of_first()).is_none());
    assert_eq!(inner.streams[0].ends().unwrap().last, 0, "nothing was written");
    let why = life.reason(Standing::Claiming).unwrap();
    assert!(why.contains("cluster repair --shard 0"), "{why}");
    assert_eq!(life.reason(Standing::Following), None);
    mark(true, revision);
    let answer = life.ask(claim_of_first());
    assert!(matches!(answer, Some(Answer::Settled(Settled::Durable))), "{answer:?}");
    assert_eq!(life.reason(Standing::Claiming), None);
}

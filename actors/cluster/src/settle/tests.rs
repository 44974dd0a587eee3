//! Tests that every order of answers ends with the true state of the stream.

use postrider_log::{Claim, EntryHash, Kind, LogId, Next, encode_commit};

use super::*;

/// The entry at position 4.
const BEFORE: Bytes = Bytes::from_static(b"the entry before it");

fn entry(epoch: u64) -> Bytes {
    let claim = Claim {
        node: "a".to_owned(),
        incarnation: [0; 16],
        program: String::new(),
        readable_from: 1,
    };
    let prev = EntryHash::of(&BEFORE);
    let next = Next { log: LogId([1; 16]), shard: 3, position: Position(5), epoch, prev };
    let body = claim.encode().unwrap();
    encode_commit(&next, Kind::Claim, 0, &body, 10_000).unwrap().remove(0)
}

fn settlement() -> Settlement {
    Settlement::new(Position(5), entry(1))
}

#[test]
fn an_acknowledgement_is_durable() {
    let mut settlement = settlement();
    assert_eq!(settlement.begin(0), Act::Publish);
    assert_eq!(settlement.begin(0), Act::LookUp(Position(5)), "it may have landed");
    assert_eq!(settlement.step(0, Heard::Acknowledged), Act::Done(Settled::Durable));
}

#[test]
fn neither_a_refusal_nor_a_silence_is_an_outcome() {
    for first in [Heard::Refused, Heard::Nothing] {
        let mut mine = settlement();
        assert_eq!(mine.step(0, first.clone()), Act::LookUp(Position(5)));
        assert_eq!(mine.step(1, Heard::Nothing), Act::LookUp(Position(5)));
        assert_eq!(mine.step(2, Heard::Found(entry(1))), Act::Done(Settled::Durable));

        let mut other = settlement();
        other.step(0, first.clone());
        let Act::Done(Settled::Taken(header)) = other.step(1, Heard::Found(entry(2))) else {
            panic!("it is not taken");
        };
        assert_eq!(header.epoch, 2);

        let mut none = settlement();
        none.step(0, first);
        let end = Heard::Absent { last: Position(4) };
        assert_eq!(none.step(1, end), Act::LookUp(Position(4)));
        assert_eq!(none.step(2, Heard::Found(BEFORE)), Act::Publish);
        assert_eq!(none.step(3, Heard::Acknowledged), Act::Done(Settled::Durable));
    }
}

#[test]
fn a_stream_is_too_short_only_when_it_stays_so() {
    let mut settlement = settlement();
    let short = Heard::Absent { last: Position(3) };
    assert_eq!(settlement.step(0, short.clone()), Act::WaitUntil(1_000));
    assert_eq!(settlement.step(1_000, Heard::Woken), Act::LookUp(Position(5)));
    // A stale answer is forgotten when the right one arrives.
    let end = Heard::Absent { last: Position(4) };
    assert_eq!(settlement.step(11_000, end), Act::LookUp(Position(4)));
    assert_eq!(settlement.step(11_000, Heard::Found(BEFORE)), Act::Publish);
    assert_eq!(settlement.step(11_500, Heard::Refused), Act::LookUp(Position(5)));
    assert_eq!(settlement.step(12_000, short.clone()), Act::WaitUntil(13_000));
    assert_eq!(settlement.step(23_999, Heard::Woken), Act::LookUp(Position(5)));
    // The answer arrives late, but was given before.
    assert_eq!(settlement.step(30_000, short.clone()), Act::WaitUntil(31_000));
    assert_eq!(settlement.step(31_000, Heard::Woken), Act::LookUp(Position(5)));
    let lost = Act::Done(Settled::Lost { last: Position(3) });
    assert_eq!(settlement.step(31_000, short), lost);
}

#[test]
fn nothing_is_published_again_behind_what_it_does_not_follow() {
    let end = Heard::Absent { last: Position(4) };
    let mut settlement = settlement();
    settlement.step(0, Heard::Refused);
    assert_eq!(settlement.step(1, end.clone()), Act::LookUp(Position(4)));
    // Neither was answered, so both are looked up again.
    assert_eq!(settlement.step(2, Heard::Nothing), Act::LookUp(Position(5)));
    assert_eq!(settlement.step(3, end.clone()), Act::LookUp(Position(4)));
    assert_eq!(settlement.step(4, end.clone()), Act::WaitUntil(1_004), "it is missing");
    assert_eq!(settlement.step(1_004, Heard::Woken), Act::LookUp(Position(5)));
    assert_eq!(settlement.step(1_005, end), Act::LookUp(Position(4)));
    // The stream has lost its entry, and another node has written since.
    let other = settlement.step(1_006, Heard::Found(entry(2)));
    assert!(matches!(other, Act::Done(Settled::Damaged(_))), "{other:?}");
    // No entry precedes the first one.
    let mut first = Settlement::new(Position(1), entry(1));
    first.step(0, Heard::Refused);
    assert_eq!(first.step(1, Heard::Absent { last: Position(0) }), Act::Publish);
}

#[test]
fn an_entry_that_is_none_is_damage() {
    let mut settlement = settlement();
    settlement.step(0, Heard::Refused);
    let found = Heard::Found(Bytes::from_static(b"PRLG and nothing else"));
    assert!(matches!(settlement.step(0, found), Act::Done(Settled::Damaged(_))));
    let beyond = Heard::Absent { last: Position(9) };
    assert_eq!(settlement.step(5, beyond), Act::WaitUntil(1_005));
}

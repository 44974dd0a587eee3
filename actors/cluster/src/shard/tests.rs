//! Tests of a shard's life step by step, for faults that the simulation would not show.

use postrider_log::body::DATA_FORMAT;
use postrider_log::{
    Chain, Claim, Entry, EntryHash, Header, Kind, LogId, Next, Position, encode_commit,
};

use super::*;

const LOG: LogId = LogId([1; 16]);

fn name(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

const fn moment(now: u64) -> Moment {
    Moment { now, term: Some(1), engine_ms: now }
}

fn shard(node: &str) -> Shard {
    let number = node.as_bytes()[0];
    let identity = Identity { directory: [number; 16], incarnation: [number; 16] };
    Shard::new(name(node), identity, LOG, 0)
}

/// Returns the only question among the outputs.
fn question(outputs: &[ShardOutput]) -> (u64, Question) {
    let mut asked = outputs.iter().filter_map(|output| match output {
        ShardOutput::Ask(ticket, question) => Some((*ticket, question.clone())),
        _ => None,
    });
    let question = asked.next().unwrap_or_else(|| panic!("nothing is asked: {outputs:?}"));
    assert!(asked.next().is_none(), "{outputs:?}");
    question
}

fn answer(shard: &mut Shard, now: u64, ticket: u64, answer: Answer) -> Vec<ShardOutput> {
    shard.step(moment(now), ShardInput::Answered(ticket, answer))
}

/// Brings a shard to the state in which it follows, with these entries applied.
fn following(node: &str, entries: &[Bytes]) -> Shard {
    let mut shard = shard(node);
    shard.step(moment(0), ShardInput::Role(Role::Standby(0)));
    let (ticket, asked) = question(&shard.step(moment(0), ShardInput::Tick));
    assert_eq!(asked, Question::Restore);
    let mut replica = Replica::empty(LOG, 0);
    for entry in entries {
        replica.take(entry.clone()).unwrap();
    }
    answer(&mut shard, 1, ticket, Answer::Restored(Box::new(replica)));
    assert_eq!(shard.state(), ShardState::Following);
    shard
}

/// Claims an empty log, and returns the claim.
fn owning(node: &str) -> (Shard, Bytes) {
    let mut shard = following(node, &[]);
    shard.step(moment(2), ShardInput::Role(Role::Owner));
    let (ticket, asked) = question(&shard.step(moment(2), ShardInput::Tick));
    assert_eq!(asked, Question::Tail);
    let tail = Answer::Tail { last: Position(0), hash: EntryHash::NONE };
    let (ticket, asked) = question(&answer(&mut shard, 3, ticket, tail));
    let Question::Append { at: Position(1), bytes } = asked else { panic!("{asked:?}") };
    let outputs = answer(&mut shard, 4, ticket, Answer::Settled(Settled::Durable));
    assert!(matches!(outputs[1], ShardOutput::StartEngine { epoch: 1 }), "{outputs:?}");
    assert_eq!(shard.owned_in(), Some(1));
    (shard, bytes)
}

/// A node of an older version stops at a claim behind which it can read nothing.
#[test]
fn a_claim_says_which_data_format_follows_it_and_a_newer_one_is_not_applied() {
    let (_, claim) = owning("a");
    let claim = Claim::decode(Entry::decode(claim).unwrap().body()).unwrap();
    assert_eq!(claim.readable_from, DATA_FORMAT);
    let newer = Claim { readable_from: DATA_FORMAT + 1, ..claim };
    let log = Chain::new(LOG, 0, Position::START, 0, EntryHash::NONE);
    let (next, body) = (Next::after(&log, 1), newer.encode().unwrap());
    let entries = encode_commit(&next, Kind::Claim, 5, &body, 4_096).unwrap();
    let mut shard = following("b", &[]);
    let (ticket, _) = question(&shard.step(moment(1_000), ShardInput::Tick));
    answer(&mut shard, 1_001, ticket, Answer::Entries { entries, last: Position(1) });
    let reason = shard.stop_reason().unwrap().to_string();
    assert!(reason.contains("newer version: data format 2 is not known"), "{reason}");
}

#[test]
fn a_standby_waits_for_the_owners_key_and_asks_for_it_anew() {
    let (_, claim) = owning("a");
    let mut shard = following("b", &[claim]);
    shard.step(moment(10), ShardInput::OwnerKey(false));
    // The hint was wrong: the key exists.
    let (ticket, asked) = question(&shard.step(moment(20), ShardInput::Tick));
    assert_eq!(asked, Question::Lease { node: name("a") });
    answer(&mut shard, 30, ticket, Answer::Lease(Some([b'a'; 16])));
    assert_eq!(shard.state(), ShardState::Following);
    shard.step(moment(40), ShardInput::OwnerKey(false));
    let (ticket, _) = question(&shard.step(moment(50), ShardInput::Tick));
    let (_, asked) = question(&answer(&mut shard, 60, ticket, Answer::Lease(None)));
    assert_eq!(asked, Question::Tail);
}

#[test]
fn an_owner_hands_over_when_it_is_asked_and_not_in_the_middle_of_a_claim() {
    let (mut a, claim) = owning("a");
    let outputs = a.step(moment(10), ShardInput::ReleaseAsked { by: name("b") });
    assert!(matches!(outputs[0], ShardOutput::CloseAdmission), "{outputs:?}");
    assert!(matches!(outputs[1], ShardOutput::AnswerRelease(ReleaseAnswer::Accepted)));
    assert_eq!(a.owned_in(), None);
    let (ticket, asked) = question(&a.step(moment(11), ShardInput::Drained));
    let Question::Append { bytes: handoff, .. } = asked else { panic!("{asked:?}") };
    let outputs = answer(&mut a, 12, ticket, Answer::Settled(Settled::Durable));
    assert!(matches!(outputs[1], ShardOutput::StopEngine), "{outputs:?}");
    a.step(moment(13), ShardInput::EngineStopped);
    assert_eq!(a.state(), ShardState::Following);

    let mut b = following("b", &[claim, handoff]);
    b.step(moment(20), ShardInput::Role(Role::Owner));
    let (ticket, asked) = question(&b.step(moment(20), ShardInput::Tick));
    assert_eq!(asked, Question::Tail);
    let tail = Answer::Tail { last: Position(2), hash: b.replica().chain().hash() };
    question(&answer(&mut b, 21, ticket, tail));
    let outputs = b.step(moment(22), ShardInput::ReleaseAsked { by: name("a") });
    assert!(matches!(outputs[0], ShardOutput::AnswerRelease(ReleaseAnswer::Busy)), "{outputs:?}");
}

#[test]
fn a_living_owner_is_asked_when_the_records_are_close_and_a_dead_one_is_not_waited_for() {
    let (_, claim) = owning("a");
    let mut b = following("b", &[claim]);
    b.step(moment(10), ShardInput::Role(Role::Owner));
    b.step(moment(10), ShardInput::RecordsAreClose(false));
    let (ticket, asked) = question(&b.step(moment(10), ShardInput::Tick));
    assert_eq!(asked, Question::Lease { node: name("a") });
    let held = || Answer::Lease(Some([b'a'; 16]));
    assert!(answer(&mut b, 11, ticket, held()).is_empty());
    assert!(b.prepares());
    // The shard follows meanwhile, and looks again.
    let (ticket, asked) = question(&b.step(moment(500), ShardInput::Tick));
    assert_eq!(asked, Question::Entries { from: Position(2) });
    answer(&mut b, 501, ticket, Answer::Entries { entries: Vec::new(), last: Position(1) });
    let (ticket, _) = question(&b.step(moment(520), ShardInput::Tick));
    answer(&mut b, 521, ticket, held());
    b.step(moment(1_100), ShardInput::RecordsAreClose(true));
    let (ticket, asked) = question(&b.step(moment(1_100), ShardInput::Tick));
    assert_eq!(asked, Question::Lease { node: name("a") });
    let (_, asked) = question(&answer(&mut b, 1_101, ticket, held()));
    assert_eq!(asked, Question::Release { node: name("a") });

    let (_, claim) = owning("a");
    let mut c = following("c", &[claim]);
    c.step(moment(10), ShardInput::Role(Role::Owner));
    c.step(moment(10), ShardInput::RecordsAreClose(false));
    let (ticket, _) = question(&c.step(moment(10), ShardInput::Tick));
    let (_, asked) = question(&answer(&mut c, 11, ticket, Answer::Lease(None)));
    assert_eq!(asked, Question::Tail);
}

#[test]
fn a_claim_of_a_term_that_is_over_owns_nothing() {
    let mut shard = following("a", &[]);
    shard.step(moment(2), ShardInput::Role(Role::Owner));
    let (ticket, _) = question(&shard.step(moment(2), ShardInput::Tick));
    let tail = Answer::Tail { last: Position(0), hash: EntryHash::NONE };
    let (ticket, _) = question(&answer(&mut shard, 3, ticket, tail));
    let later = Moment { now: 30_000, term: Some(2), engine_ms: 30_000 };
    let settled = ShardInput::Answered(ticket, Answer::Settled(Settled::Durable));
    let outputs = shard.step(later, settled);
    assert_eq!(outputs.len(), 1, "{outputs:?}");
    assert_eq!((shard.state(), shard.owned_in()), (ShardState::Following, None));
}

#[test]
fn an_owner_whose_tenure_is_over_stops_its_engine() {
    let (mut shard, _) = owning("a");
    let over = Moment { now: 20_000, term: None, engine_ms: 20_000 };
    let outputs = shard.step(over, ShardInput::Tick);
    assert!(matches!(outputs[..], [ShardOutput::StopEngine]), "{outputs:?}");
    assert_eq!(shard.state(), ShardState::Abandoned);
}

#[test]
fn a_log_that_stays_short_stops_the_shard_and_a_stale_answer_does_not() {
    let (_, claim) = owning("a");
    let mut shard = following("b", &[claim]);
    let ask = |shard: &mut Shard, now: u64, last: u64| {
        let (ticket, _) = question(&shard.step(moment(now), ShardInput::Tick));
        answer(shard, now, ticket, Answer::Entries { entries: vec![], last: Position(last) });
        shard.state()
    };
    assert_eq!(ask(&mut shard, 1_000, 0), ShardState::Following);
    assert_eq!(ask(&mut shard, 9_000, 1), ShardState::Following);
    assert_eq!(ask(&mut shard, 10_000, 0), ShardState::Following);
    assert_eq!(ask(&mut shard, 21_000, 0), ShardState::Following);
    assert_eq!(ask(&mut shard, 22_000, 0), ShardState::Stopped);
    let short = StopReason::Short { last: Position(0), applied: Position(1) };
    assert_eq!(shard.stop_reason(), Some(&short));
}

#[test]
fn a_node_whose_clock_differs_follows_and_claims_nothing() {
    let mut shard = following("a", &[]);
    shard.step(moment(2), ShardInput::Role(Role::Owner));
    shard.step(moment(2), ShardInput::ClockAgrees(false));
    let (ticket, asked) = question(&shard.step(moment(2), ShardInput::Tick));
    assert_eq!(asked, Question::Entries { from: Position(1) });
    let entries = Answer::Entries { entries: vec![], last: Position(0) };
    answer(&mut shard, 3, ticket, entries);
    assert_eq!(shard.state(), ShardState::Following);
    shard.step(moment(4), ShardInput::ClockAgrees(true));
    let (ticket, asked) = question(&shard.step(moment(4), ShardInput::Tick));
    assert_eq!(asked, Question::Tail);
    // A claim that is not appended yet is given up.
    shard.step(moment(5), ShardInput::ClockAgrees(false));
    let tail = Answer::Tail { last: Position(0), hash: EntryHash::NONE };
    assert_eq!(answer(&mut shard, 6, ticket, tail).len(), 0);
    assert_eq!(shard.state(), ShardState::Following);
}

#[test]
fn a_claim_is_not_dated_before_the_last_entry_even_if_that_was_restored() {
    let log = Chain::new(LOG, 0, Position::START, 0, EntryHash::NONE);
    let claim = Claim {
        node: "a".to_owned(),
        incarnation: [b'a'; 16],
        program: String::new(),
        readable_from: 1,
    };
    let (next, body) = (Next::after(&log, 1), claim.encode().unwrap());
    let entries = encode_commit(&next, Kind::Claim, 5_000, &body, 4_096).unwrap();
    let mut shard = following("b", &entries);
    shard.step(moment(10), ShardInput::Role(Role::Owner));
    let (ticket, _) = question(&shard.step(moment(20), ShardInput::Tick));
    let (ticket, asked) = question(&answer(&mut shard, 30, ticket, Answer::Lease(None)));
    assert_eq!(asked, Question::Tail);
    let tail = Answer::Tail { last: Position(1), hash: shard.chain().hash() };
    // The node's clock shows 40, long before the time that the owner before wrote.
    let (_, asked) = question(&answer(&mut shard, 40, ticket, tail));
    let Question::Append { bytes, .. } = asked else { panic!("{asked:?}") };
    assert_eq!(Header::decode(&bytes).unwrap().time_ms, 5_000);
}

#[test]
fn a_handoff_is_dated_as_the_last_entry_whatever_the_clock_of_the_node_shows() {
    let (mut shard, claim) = owning("a");
    let jumped = |now| Moment { engine_ms: 3_600_000, ..moment(now) };
    shard.step(jumped(50), ShardInput::ReleaseAsked { by: name("b") });
    let (_, asked) = question(&shard.step(jumped(60), ShardInput::Drained));
    let Question::Append { bytes, .. } = asked else { panic!("{asked:?}") };
    let header = Header::decode(&bytes).unwrap();
    let claimed = Header::decode(&claim).unwrap().time_ms;
    assert_eq!((header.kind, header.time_ms), (Kind::Handoff, claimed));
}

#[test]
fn a_shard_that_cannot_be_restored_after_a_repair_stays_stopped_until_the_next_one() {
    let mut shard = shard("b");
    shard.step(moment(0), ShardInput::Role(Role::Standby(0)));
    let unrestorable = || Answer::Unrestorable { first: Position(9) };
    let (ticket, _) = question(&shard.step(moment(1), ShardInput::Tick));
    answer(&mut shard, 2, ticket, unrestorable());
    let mut now = 5_000;
    for (epoch, begins) in [(1_004, true), (1_004, false), (2_005, true), (2_005, false)] {
        now += 5_000;
        let (ticket, asked) = question(&shard.step(moment(now), ShardInput::Tick));
        assert_eq!(asked, Question::Repaired);
        assert!(!shard.doubts());
        answer(&mut shard, now + 1, ticket, Answer::Repaired { epoch });
        assert_eq!(shard.state() == ShardState::Absent, begins, "{epoch}");
        if begins {
            let (ticket, asked) = question(&shard.step(moment(now + 2), ShardInput::Tick));
            assert_eq!(asked, Question::Restore);
            answer(&mut shard, now + 3, ticket, unrestorable());
        }
        assert_eq!(shard.state(), ShardState::Stopped);
    }
}

#[test]
fn a_shard_that_has_stopped_as_short_doubts_no_more() {
    let (_, claim) = owning("a");
    let mut shard = following("b", &[claim]);
    let mut now = 10_000;
    while shard.state() == ShardState::Following {
        let (ticket, _) = question(&shard.step(moment(now), ShardInput::Tick));
        let short = Answer::Entries { entries: Vec::new(), last: Position(0) };
        answer(&mut shard, now + 1, ticket, short);
        now += 5_000;
        assert!(now < 100_000);
    }
    assert_eq!(shard.state(), ShardState::Stopped);
    question(&shard.step(moment(now), ShardInput::Tick));
    assert!(shard.is_suspicious() && !shard.doubts(), "it asks for a repair only");
}

//! Tests that an owner writes only behind applied entries, and stops when its log stays too short.

use std::sync::mpsc::{Receiver, channel};

use postrider_log::{Claim, Kind, claim, encode_commit};

use super::*;
use crate::clock::{SteadyClock as _, StillClock};
use crate::gate::Gate;
use crate::log::{FakeStream, ReplicatedOptions, Stream as _};

mod behind;

const LOG: LogId = LogId([7; 16]);

fn handle(stream: &FakeStream) -> ReplicatedLog {
    let (stream, clock) = (Arc::new(stream.clone()), Arc::new(StillClock::default()));
    ReplicatedLog::open(LOG, 0, stream, clock, ReplicatedOptions::default()).unwrap()
}

fn by(node: &str) -> Claim {
    let (node, program) = (node.to_owned(), "1".to_owned());
    Claim { node, incarnation: [1; 16], program, readable_from: 1 }
}

/// Returns the log of an owner whose claim is the last entry, and its reports.
fn owned(stream: &FakeStream) -> (Arc<OwnedLog>, Receiver<LogReport>) {
    let claimed = claim(&handle(stream), &by("a"), 0).unwrap().last;
    let (sender, heard) = channel();
    let send = Box::new(move |it| drop(sender.send(it)));
    (OwnedLog::behind_claim(handle(stream), claimed, 1 << 20, tenure(), send).unwrap(), heard)
}

/// Returns the tenure of an owner whose lease holds until its clock is advanced by a second.
fn leased() -> (ShardTenure, Arc<StillClock>) {
    let clock = Arc::new(StillClock::default());
    let gate = Gate::new(clock.clone(), 1);
    gate.publish(1, 1_000);
    (ShardTenure::new(gate, Some(1)), clock)
}

fn tenure() -> ShardTenure {
    leased().0
}

#[test]
fn an_owner_that_stood_idle_beyond_its_lease_writes_nothing_behind_what_it_did_not_read() {
    let stream = FakeStream::default();
    let claimed = claim(&handle(&stream), &by("a"), 0).unwrap().last;
    let (tenure, clock) = leased();
    let log = OwnedLog::behind_claim(handle(&stream), claimed, 1 << 20, tenure, Box::new(drop));
    let log = log.unwrap();
    claim(&*log, &by("a"), 0).unwrap();
    append(&*log, b"1").unwrap();
    // The log loses the entries that only this owner has read, and another owner writes as many.
    stream.lose(2);
    let other = handle(&stream);
    claim(&other, &by("b"), 0).unwrap();
    append(&other, b"2").unwrap();
    clock.wait_ms(1_000);
    let error = append(&*log, b"3").unwrap_err();
    assert!(matches!(&error, AppendError::Refused(why) if why.contains("lease")), "{error}");
    assert_eq!(handle(&stream).tail().unwrap().last, Position(3), "it is one chain still");
    append(&other, b"4").unwrap();
}

fn append(log: &dyn Log, body: &[u8]) -> Result<(), AppendError> {
    let tail = log.tail().map_err(|error| AppendError::Refused(error.to_string()))?;
    let next = tail.next(tail.epoch);
    let entries = encode_commit(&next, Kind::Group, 0, body, log.entry_bytes_max()).unwrap();
    log.append(next.position, &entries)
}

#[test]
fn an_owner_reports_what_it_appends_and_knows_its_end() {
    let stream = FakeStream::default();
    let (log, reports) = owned(&stream);
    claim(&*log, &by("a"), 0).unwrap();
    append(&*log, b"1").unwrap();
    assert_eq!(log.tail().unwrap().last, Position(3));
    assert_eq!(reports.try_iter().filter(|it| matches!(it, LogReport::Appended(_))).count(), 2);
}

#[test]
fn whoever_was_replaced_writes_nothing_any_more() {
    let stream = FakeStream::default();
    let (log, reports) = owned(&stream);
    claim(&*log, &by("a"), 0).unwrap();
    let other = handle(&stream);
    claim(&other, &by("b"), 0).unwrap();
    // The log still ends where the owner's own entries do: the other's claim is not applied.
    assert_eq!(log.tail().unwrap().last, Position(2));
    assert!(matches!(append(&*log, b"1"), Err(AppendError::Taken(_))));
    let reports: Vec<_> = reports.try_iter().collect();
    let is_taken = |it: &LogReport| matches!(it, LogReport::NotAppended(Settled::Taken(_)));
    assert!(reports.last().is_some_and(is_taken), "{reports:?}");
    assert!(log.reopen().is_err() && log.tail().is_err(), "it must not take the shard back");
    assert!(claim(&*log, &by("a"), 0).is_err());
    append(&other, b"2").unwrap();
}

#[test]
fn a_claim_that_is_not_the_last_entry_starts_nothing() {
    let stream = FakeStream::default();
    let mine = claim(&handle(&stream), &by("a"), 0).unwrap().last;
    claim(&handle(&stream), &by("b"), 0).unwrap();
    let error = OwnedLog::behind_claim(handle(&stream), mine, 1 << 20, tenure(), Box::new(drop))
        .unwrap_err();
    assert!(error.to_string().contains("another node"), "{error}");
}

#[test]
fn a_log_that_looks_too_short_for_a_moment_has_lost_nothing() {
    let stream = FakeStream::default();
    let clock = Arc::new(StillClock::default());
    let of_owner = ReplicatedLog::open(
        LOG,
        0,
        Arc::new(stream.clone()),
        clock.clone(),
        ReplicatedOptions::default(),
    );
    let claimed = claim(&handle(&stream), &by("a"), 0).unwrap().last;
    let (sender, reports) = channel();
    let send = Box::new(move |it| drop(sender.send(it)));
    let log = OwnedLog::behind_claim(of_owner.unwrap(), claimed, 1 << 20, tenure(), send).unwrap();
    claim(&*log, &by("a"), 0).unwrap();
    append(&*log, b"1").unwrap();
    let last = stream.message(3).unwrap().unwrap();
    // A server that no longer leads answers, and then the leader.
    stream.lose(1);
    let error = log.reopen().unwrap_err();
    assert!(matches!(&error, LogError::Failed(why) if why.contains("ends at 2")), "{error}");
    stream.publish(2, &last);
    assert_eq!(log.reopen().unwrap().last, Position(3));
    stream.lose(1);
    for _ in 0..2 {
        assert!(matches!(log.reopen(), Err(LogError::Failed(_))));
        clock.wait_ms(SHORT_FOR_MS / 2);
    }
    let is_lost = |it: LogReport| matches!(it, LogReport::NotAppended(Settled::Lost { .. }));
    assert!(!reports.try_iter().any(is_lost), "it may come back");
    assert!(log.reopen().is_err());
    assert!(reports.try_iter().any(is_lost), "it has stayed so");
    assert!(log.tail().is_err());
}

#[test]
fn what_was_given_up_takes_nothing() {
    let stream = FakeStream::default();
    let (log, _reports) = owned(&stream);
    claim(&*log, &by("a"), 0).unwrap();
    log.fence();
    assert!(append(&*log, b"1").is_err());
    assert_eq!(handle(&stream).tail().unwrap().last, Position(2));
}

#[test]
fn it_is_trimmed_by_who_owns_it_and_knows_what_is_left() {
    let stream = FakeStream::default();
    let (log, _reports) = owned(&stream);
    claim(&*log, &by("a"), 0).unwrap();
    (0..10).for_each(|_| append(&*log, b"1").unwrap());
    let all = log.bytes_after(Position::START).unwrap();
    log.trim(Position(6)).unwrap();
    assert_eq!(log.tail().unwrap().first, Position(7));
    assert!(log.bytes_after(Position::START).unwrap() < all);
    assert_eq!(log.bytes_after(Position(12)), Ok(0));
    claim(&handle(&stream), &by("b"), 0).unwrap();
    assert!(matches!(append(&*log, b"2"), Err(AppendError::Taken(_))));
    assert!(log.trim(Position(9)).is_err(), "it is another's now");
    assert_eq!(stream.ends().unwrap().first, 7);
}

#[test]
fn a_full_log_has_room_for_claims_and_for_groups_when_it_was_trimmed() {
    let stream = FakeStream::default();
    let claimed = claim(&handle(&stream), &by("a"), 0).unwrap().last;
    let log =
        OwnedLog::behind_claim(handle(&stream), claimed, 16_000, tenure(), Box::new(drop)).unwrap();
    claim(&*log, &by("a"), 0).unwrap();
    while log.has_room(900).is_ok() {
        append(&*log, &[7; 800]).unwrap();
    }
    let why = log.has_room(900).unwrap_err();
    assert!(why.contains("cluster.stream_bytes_max"), "{why}");
    let had = stream.ends().unwrap().bytes;
    assert!(had > 10_000 && had < 15_000, "what is reserved is left: {had}");
    claim(&handle(&stream), &by("b"), 0).unwrap();
    let last = handle(&stream).tail().unwrap().last;
    let log =
        OwnedLog::behind_claim(handle(&stream), last, 16_000, tenure(), Box::new(drop)).unwrap();
    assert!(log.has_room(900).is_err());
    log.trim(last).unwrap();
    assert_eq!(log.has_room(900), Ok(()));
}

#[test]
fn a_read_that_ends_before_what_is_known_to_be_there_is_an_error() {
    let stream = FakeStream::default();
    let (log, _reports) = owned(&stream);
    claim(&*log, &by("a"), 0).unwrap();
    append(&*log, b"1").unwrap();
    let read = |from: u64| log.read(Position(from), &mut |_| ControlFlow::Continue(()));
    assert!(read(1).is_ok() && read(3).is_ok() && read(4).is_ok());
    assert!(log.read(Position(1), &mut |_| ControlFlow::Break(())).is_ok());
    // The server that answers now does not have the last entry yet.
    stream.lose(1);
    for from in [1, 3] {
        let error = read(from).unwrap_err();
        assert!(error.to_string().contains("ends at 2, and it ends at 3"), "{error}");
    }
}

#[test]
fn what_one_server_does_not_have_is_neither_missing_nor_damaged() {
    let stream = FakeStream::default();
    let (log, _reports) = owned(&stream);
    claim(&*log, &by("a"), 0).unwrap();
    append(&*log, b"1").unwrap();
    let last = stream.message(3).unwrap().unwrap();
    stream.lose(1);
    let error = log.entry(Position(3)).unwrap_err();
    assert!(error.to_string().contains("ends at 2, and it ends at 3"), "{error}");
    assert_eq!(log.entry(Position(4)), Ok(None), "nobody has it");
    stream.publish(2, &last);
    assert_eq!(log.entry(Position(3)), Ok(Some(last)));
}

#[test]
fn an_own_entry_that_lands_late_costs_no_owner_its_shard() {
    let stream = FakeStream::default();
    let (log, reports) = owned(&stream);
    claim(&*log, &by("a"), 0).unwrap();
    // An entry that was under way when the log was opened again without it.
    let next = log.tail().unwrap().next(log.tail().unwrap().epoch);
    let late = encode_commit(&next, Kind::Group, 0, b"late", 1_000).unwrap();
    stream.publish(2, &late[0]);
    assert!(matches!(append(&*log, b"1"), Err(AppendError::Unknown(_))));
    assert_eq!(log.reopen().unwrap().last, Position(3));
    append(&*log, b"2").unwrap();
    let is_appended = |it: &LogReport| matches!(it, LogReport::Appended(_));
    assert!(reports.try_iter().all(|it| is_appended(&it)), "it is not fenced");
    assert_eq!(handle(&stream).tail().unwrap().last, Position(4));
}

//! The contract of writing: the accepted entries of each writer, and their known outcomes.

use bytes::Bytes;

use super::{ENTRY_BYTES_MAX, Outcome, Subject};
use crate::testing::*;
use crate::*;

pub fn a_position_that_is_taken_shows_who_has_it(subject: &mut dyn Subject) {
    let log = subject.open();
    claimed(&*log);
    let (at, first) = group(&*log, b"first");
    let (_, second) = group(&*log, b"another");
    log.append(at, &first).unwrap();
    let before = entries(&*log);
    for entries in [&first, &second] {
        let Err(AppendError::Taken(header)) = log.append(at, entries) else {
            panic!("position {at} is not taken");
        };
        assert_eq!((header.position, header.body_bytes), (at, 5));
    }
    assert_eq!(entries(&*log), before);
    append(&*log, b"the log still works");
}

pub fn a_position_behind_the_next_is_refused(subject: &mut dyn Subject) {
    let log = subject.open();
    let tail = claimed(&*log);
    for (at, position) in [(4, 4), (3, 3), (2, 3), (3, 2)] {
        let next = Next { position: Position(position), ..tail.next(1) };
        let entries = encode_commit(&next, Kind::Group, 0, b"x", ENTRY_BYTES_MAX).unwrap();
        let refused = log.append(Position(at), &entries);
        assert!(matches!(refused, Err(AppendError::Refused(_))), "{at} {position}: {refused:?}");
    }
    assert_eq!(log.tail(), Ok(tail));
}

pub fn of_two_writers_one_wins_each_position(subject: &mut dyn Subject) {
    const ROUNDS: u64 = 1_000;
    let log = subject.open();
    claimed(&*log);
    let line = std::sync::Barrier::new(2);
    let race = |name: u8| {
        let mut won = 0;
        for round in 0..ROUNDS {
            line.wait();
            let (at, entries) = group(&*log, &[name]);
            line.wait();
            assert_eq!(at, Position(round + 2));
            match log.append(at, &entries) {
                Ok(()) => won += 1,
                Err(AppendError::Taken(header)) => assert_eq!(header.position, at),
                Err(other) => panic!("{other}"),
            }
        }
        won
    };
    let (one, two) = std::thread::scope(|scope| {
        let other = scope.spawn(|| race(2));
        (race(1), other.join().unwrap())
    });
    assert_eq!(one + two, ROUNDS);
    let written = bodies(&*log);
    assert_eq!(written.len() as u64, ROUNDS);
    assert_eq!(written.iter().filter(|body| body[..] == [1]).count() as u64, one);
}

pub fn an_unknown_outcome_is_settled_by_the_entry(subject: &mut dyn Subject) {
    for outcome in [Outcome::Lost, Outcome::Kept] {
        let log = subject.open();
        claimed(&*log);
        let acknowledged = append(&*log, b"acknowledged");
        subject.fail_next(outcome);
        let (at, entries) = group(&*log, b"unknown");
        let failed = log.append(at, &entries);
        assert!(matches!(failed, Err(AppendError::Unknown(_))), "{outcome:?}: {failed:?}");
        assert!(matches!(log.tail(), Err(LogError::Failed(_))));
        assert!(matches!(log.append(at, &entries), Err(AppendError::Refused(_))));
        assert!(log.entry(acknowledged).unwrap().is_some());
        let log = subject.settle(log, outcome);
        let expected = (outcome == Outcome::Kept).then(|| entries[0].clone());
        assert_eq!(log.entry(at), Ok(expected));
        assert!(log.entry(acknowledged).unwrap().is_some());
        claimed(&*log);
        append(&*log, b"after it");
        assert_eq!(bodies(&*log).last().unwrap(), "after it");
    }
}

pub fn a_commit_without_its_last_part_is_void(subject: &mut dyn Subject) {
    for kept in 1..=3 {
        let log = subject.open();
        claimed(&*log);
        let large = vec![kept as u8; 7_000];
        let (at, parts) = group(&*log, &large);
        assert_eq!(parts.len(), 4);
        let bytes = parts[..kept].iter().map(Bytes::len).sum();
        let outcome = Outcome::Torn { bytes };
        subject.fail_next(outcome);
        assert!(matches!(log.append(at, &parts), Err(AppendError::Unknown(_))));
        let log = subject.settle(log, outcome);
        let stale = log.append(log.tail().unwrap().last.next(), &parts[kept..]);
        assert!(matches!(stale, Err(AppendError::Refused(_))), "{stale:?}");
        claimed(&*log);
        append(&*log, b"behind");
        let written = bodies(&*log);
        assert!(!written.contains(&Bytes::from(large)));
        assert_eq!(written.len(), kept);
        drop(log);
        assert_eq!(bodies(&*subject.open()), written);
    }
}

pub fn what_is_too_large_is_refused(subject: &mut dyn Subject) {
    let log = subject.open();
    let tail = claimed(&*log);
    assert_eq!(log.entry_bytes_max(), ENTRY_BYTES_MAX);
    let next = tail.next(1);
    let exact = vec![1; ENTRY_BYTES_MAX - entry::OVERHEAD_BYTES];
    let over = vec![1; exact.len() + 1];
    let entries = encode_commit(&next, Kind::Group, 0, &over, usize::MAX).unwrap();
    let refused = log.append(next.position, &entries);
    assert!(matches!(refused, Err(AppendError::Refused(_))), "{refused:?}");
    assert!(matches!(log.append(next.position, &[]), Err(AppendError::Refused(_))));
    assert_eq!(log.tail(), Ok(tail));
    let entries = encode_commit(&next, Kind::Group, 0, &exact, usize::MAX).unwrap();
    log.append(next.position, &entries).unwrap();
    assert_eq!(bodies(&*log), [exact]);
}

pub fn a_writer_must_claim_after_opening(subject: &mut dyn Subject) {
    let log = subject.open();
    let (at, entries) = group(&*log, b"without a claim");
    assert!(matches!(log.append(at, &entries), Err(AppendError::Refused(_))));
    let epoch = claimed(&*log).epoch;
    append(&*log, b"with one");
    drop(log);
    let log = subject.open();
    let refused = try_append(&*log, b"without a claim");
    assert!(matches!(refused, Err(AppendError::Refused(_))), "{refused:?}");
    assert_eq!(claimed(&*log).epoch, epoch + 1);
    append(&*log, b"with one");
    assert_eq!(bodies(&*log), ["with one", "with one"]);
}

pub fn a_writer_that_was_replaced_is_refused(subject: &mut dyn Subject) {
    let log = subject.open();
    claimed(&*log);
    append(&*log, b"one");
    let old = log.tail().unwrap();
    let new = claimed(&*log);
    assert_eq!(new.epoch, old.epoch + 1);
    for epoch in [old.epoch, new.epoch + 1] {
        let next = new.next(epoch);
        let entries = encode_commit(&next, Kind::Group, 0, b"late", ENTRY_BYTES_MAX).unwrap();
        let refused = log.append(next.position, &entries);
        assert!(matches!(refused, Err(AppendError::Refused(_))), "{epoch}: {refused:?}");
    }
    let again = encode_commit(
        &new.next(new.epoch),
        Kind::Claim,
        0,
        &claim_body().encode().unwrap(),
        ENTRY_BYTES_MAX,
    );
    let refused = log.append(new.last.next(), &again.unwrap());
    assert!(matches!(refused, Err(AppendError::Refused(_))), "{refused:?}");
    assert_eq!(log.tail(), Ok(new));
}

pub fn what_belongs_elsewhere_is_refused(subject: &mut dyn Subject) {
    let log = subject.open();
    let tail = claimed(&*log);
    let next = tail.next(tail.epoch);
    let foreign = [
        Next { log: LogId([9; 16]), ..next.clone() },
        Next { shard: 1, ..next.clone() },
        Next { prev: EntryHash([9; 16]), ..next.clone() },
        Next { epoch: 0, ..next.clone() },
    ];
    for next in foreign {
        let entries = encode_commit(&next, Kind::Group, 0, b"x", ENTRY_BYTES_MAX).unwrap();
        let refused = log.append(next.position, &entries);
        assert!(matches!(refused, Err(AppendError::Refused(_))), "{next:?}: {refused:?}");
    }
    assert_eq!(log.tail(), Ok(tail));
}

pub fn entries_of_two_commits_are_refused(subject: &mut dyn Subject) {
    let log = subject.open();
    let tail = claimed(&*log);
    let (at, mut both) = group(&*log, b"one");
    let next = Next { position: at.next(), prev: EntryHash::of(&both[0]), ..tail.next(tail.epoch) };
    both.extend(encode_commit(&next, Kind::Group, 0, b"two", ENTRY_BYTES_MAX).unwrap());
    assert!(matches!(log.append(at, &both), Err(AppendError::Refused(_))));
    let (_, parts) = group(&*log, &[1; 5_000]);
    for wrong in [&parts[..2], &parts[1..], &[parts[0].clone(), parts[2].clone()]] {
        assert!(matches!(log.append(at, wrong), Err(AppendError::Refused(_))));
    }
    assert_eq!(log.tail(), Ok(tail));
}

pub fn a_changed_byte_is_refused(subject: &mut dyn Subject) {
    let log = subject.open();
    let tail = claimed(&*log);
    let (at, entries) = group(&*log, b"body");
    for index in 0..entries[0].len() {
        let mut bad = entries[0].to_vec();
        bad[index] ^= 1 << (index % 8);
        let refused = log.append(at, &[bad.into()]);
        assert!(matches!(refused, Err(AppendError::Refused(_))), "{index}: {refused:?}");
    }
    assert_eq!(log.tail(), Ok(tail));
    log.append(at, &entries).unwrap();
}

pub fn reopening_a_log_that_works_changes_nothing(subject: &mut dyn Subject) {
    let log = subject.open();
    claimed(&*log);
    append(&*log, b"one");
    let tail = log.tail();
    assert_eq!(log.reopen(), tail);
    assert_eq!(log.tail(), tail);
    append(&*log, b"without another claim");
    assert_eq!(bodies(&*log), ["one", "without another claim"]);
}

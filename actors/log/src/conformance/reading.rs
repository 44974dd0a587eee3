//! The contract of reading: appended entries are readable, in order, until they are trimmed.

use std::ops::ControlFlow;

use super::Subject;
use crate::testing::*;
use crate::*;

pub fn a_new_log_is_empty(subject: &mut dyn Subject) {
    let log = subject.open();
    let tail = log.tail().unwrap();
    assert_eq!((log.id(), tail.log), (ID, ID));
    assert_eq!((tail.first, tail.last, tail.epoch), (Position(1), Position::START, 0));
    assert_eq!((tail.hash, tail.header), (EntryHash::NONE, None));
    assert_eq!(log.entry(Position(1)), Ok(None));
    assert_eq!(try_entries(&*log, Position(1)), Ok(vec![]));
    assert_eq!(log.bytes_after(Position::START), Ok(0));
    assert_eq!(log.trim(Position(10)), Ok(()));
    assert_eq!(log.tail().unwrap().first, Position(1));
}

pub fn what_was_appended_is_read_back(subject: &mut dyn Subject) {
    let log = subject.open();
    claimed(&*log);
    let written = [&b""[..], b"one", &[0; 700], &[0xff; 1500], b"gLRP\0\0PRLG"];
    for body in written {
        append(&*log, body);
    }
    assert_eq!(bodies(&*log), written);
    let claim = Entry::decode(log.entry(Position(1)).unwrap().unwrap()).unwrap();
    assert_eq!(Claim::decode(claim.body()), Ok(claim_body()));
    let third = Entry::decode(log.entry(Position(3)).unwrap().unwrap()).unwrap();
    assert_eq!((third.header.time_ms, &third.body()[..]), (2_000, &b"one"[..]));
    drop(log);
    assert_eq!(bodies(&*subject.open()), written);
}

pub fn entries_are_chained_without_gaps(subject: &mut dyn Subject) {
    for _ in 0..3 {
        let log = subject.open();
        claimed(&*log);
        for index in 0..15_u8 {
            append(&*log, &vec![index; usize::from(index) * 60]);
        }
    }
    let log = subject.open();
    let mut chain = start().chain();
    for entry in entries(&*log) {
        chain.check_and_push(&entry).unwrap();
    }
    let tail = log.tail().unwrap();
    assert_eq!((tail.last, tail.hash, tail.epoch), (Position(48), chain.hash(), 3));
    let last = Entry::decode(log.entry(Position(48)).unwrap().unwrap()).unwrap();
    assert_eq!(tail.header, Some(last.header));
}

pub fn a_large_commit_is_split_and_joined(subject: &mut dyn Subject) {
    let log = subject.open();
    claimed(&*log);
    let large: Vec<u8> = (0..7_000_u32).map(|at| (at % 251) as u8).collect();
    append(&*log, b"before");
    let at = append(&*log, &large);
    append(&*log, b"behind");
    assert_eq!(at, Position(6));
    drop(log);
    let log = subject.open();
    assert_eq!(bodies(&*log), [&b"before"[..], &large, b"behind"]);
    let within = read_commits(&*log, Position(4), &mut |_| ControlFlow::Continue(()));
    assert!(matches!(within, Err(LogError::Failed(_))), "{within:?}");
}

pub fn the_end_is_the_same_after_opening_again(subject: &mut dyn Subject) {
    let mut log = subject.open();
    claimed(&*log);
    for index in 0..40_usize {
        append(&*log, &vec![9; index * 17]);
        if index % 8 == 0 {
            let (tail, all) = (log.tail(), entries(&*log));
            drop(log);
            log = subject.open();
            assert_eq!(log.tail(), tail);
            assert_eq!(entries(&*log), all);
            claimed(&*log);
        }
    }
}

pub fn trimming_keeps_the_rest_and_the_numbers(subject: &mut dyn Subject) {
    let log = subject.open();
    claimed(&*log);
    for _ in 0..60 {
        append(&*log, &[3; 900]);
    }
    append(&*log, &[4; 7_000]);
    let all = entries(&*log);
    let last = log.tail().unwrap();
    let mut first = Position(1);
    for through in [0, 20, 10, 45] {
        log.trim(Position(through)).unwrap();
        let tail = log.tail().unwrap();
        assert!(tail.first >= first && tail.first.0 <= through.max(20) + 1, "{}", tail.first);
        assert_eq!(Tail { first: last.first, ..tail.clone() }, last);
        assert_eq!(entries(&*log), all[tail.first.0 as usize - 1..]);
        if tail.first > Position(1) {
            let asked = tail.first.previous();
            let trimmed = Err(LogError::Trimmed { asked, first: tail.first });
            assert_eq!(try_entries(&*log, asked).map(|_| ()), trimmed);
            assert_eq!(log.entry(asked).map(|_| ()), trimmed);
        }
        first = tail.first;
    }
    assert!(first > Position(30), "{first}");
    log.trim(Position(u64::MAX)).unwrap();
    let tail = log.tail().unwrap();
    assert_eq!((tail.last, tail.hash, tail.header), (last.last, last.hash, last.header));
    assert!(tail.first > Position(50) && tail.first <= Position(62), "{}", tail.first);
    drop(log);
    let log = subject.open();
    assert_eq!(log.tail().unwrap().last, last.last);
    claimed(&*log);
    assert_eq!(append(&*log, b"behind"), Position(last.last.0 + 2));
    assert_eq!(bodies(&*log).last().unwrap(), "behind");
}

pub fn reads_go_on_while_others_append(subject: &mut dyn Subject) {
    let log = subject.open();
    claimed(&*log);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for index in 0..200_usize {
                append(&*log, &vec![1; 10 + index * 3]);
                if index % 50 == 49 {
                    log.trim(Position(index as u64 / 2)).unwrap();
                }
            }
        });
        let mut seen = Position::START;
        while !writer.is_finished() || seen < Position(201) {
            let tail = log.tail().unwrap();
            // A trim may come between the two calls.
            let Ok(read) = try_entries(&*log, tail.first) else { continue };
            let last = read.last().unwrap().header.position;
            assert!(last >= tail.last && last >= seen);
            seen = last;
        }
    });
    assert_eq!(log.tail().unwrap().last, Position(201));
}

pub fn bytes_are_counted_from_a_position(subject: &mut dyn Subject) {
    let log = subject.open();
    claimed(&*log);
    for _ in 0..100 {
        append(&*log, &[1; 300]);
    }
    let count = |after| log.bytes_after(Position(after)).unwrap();
    assert_eq!((count(101), count(102), count(u64::MAX)), (0, 0, 0));
    let all = count(0);
    assert!((38_000..60_000).contains(&all), "{all}");
    assert!(count(51) * 3 > all && count(51) * 3 < all * 2, "{} of {all}", count(51));
    assert!((1..=101).all(|after| count(after) <= count(after - 1)));
}

pub fn a_read_can_stop_and_begin_behind_the_end(subject: &mut dyn Subject) {
    let log = subject.open();
    claimed(&*log);
    for _ in 0..30 {
        append(&*log, &[1; 300]);
    }
    let mut seen = Vec::new();
    log.read(Position(7), &mut |entry| {
        seen.push(entry.header.position.0);
        if seen.len() == 16 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert_eq!(seen, (7..23).collect::<Vec<_>>());
    assert_eq!(try_entries(&*log, Position(32)), Ok(vec![]));
    assert_eq!(try_entries(&*log, Position(1_000)), Ok(vec![]));
    assert_eq!(log.entry(Position(1_000)), Ok(None));
    assert!(matches!(try_entries(&*log, Position::START), Err(LogError::Trimmed { .. })));
}

pub fn a_closed_log_refuses_and_opens_again(subject: &mut dyn Subject) {
    let log = subject.open();
    claimed(&*log);
    append(&*log, b"one");
    log.close().unwrap();
    log.close().unwrap();
    assert!(matches!(try_append(&*log, b"two"), Err(AppendError::Refused(_))));
    let tail = log.tail().unwrap();
    drop(log);
    let log = subject.open();
    assert_eq!(log.tail(), Ok(tail));
    claimed(&*log);
    append(&*log, b"two");
    assert_eq!(bodies(&*log), ["one", "two"]);
    drop(log);
    assert_eq!(bodies(&*subject.open()), ["one", "two"]);
}

pub fn a_witness_finds_what_is_lost(subject: &mut dyn Subject) {
    let log = subject.open();
    let none = Mark { position: Position::START, epoch: 0, hash: EntryHash::NONE };
    assert_eq!(check_witness(&*log, &none), Ok(Witness::Fits));
    claimed(&*log);
    assert_eq!(check_witness(&*log, &none), Ok(Witness::Fits));
    append(&*log, b"one");
    let middle = mark(&*log);
    append(&*log, b"two");
    let end = mark(&*log);
    for mark in [middle, end] {
        assert_eq!(check_witness(&*log, &mark), Ok(Witness::Fits));
        let other = Mark { hash: EntryHash([9; 16]), ..mark };
        assert_eq!(check_witness(&*log, &other), Ok(Witness::OtherHistory));
    }
    let ahead = Mark { position: end.position.next(), ..end };
    let lost = LogError::Lost { last: end.position, applied: ahead.position };
    assert_eq!(check_witness(&*log, &ahead), Err(lost));
}

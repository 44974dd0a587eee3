//! The contract of every [`Log`], as one suite that each store runs.

use std::ops::ControlFlow;

use crate::conformance::Subject;
use crate::log::replay;
use crate::{Change, Frame, Group, Log, Position, Section, Store, StoreError, Table, View};

pub(crate) fn frame(number: u64, events: &[u8]) -> Frame {
    let section = |id: &str| Section { workspace: id.parse().unwrap(), events: events.to_vec() };
    Frame { epoch: 1, number: Position(number), sections: vec![section("acme"), section("b")] }
}

pub(crate) fn numbers(store: &dyn Log, after: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    store
        .read(Position(after), &mut |frame| {
            numbers.push(frame.number.0);
            ControlFlow::Continue(())
        })
        .unwrap();
    numbers
}

pub(crate) fn the_journal_shows_what_follows_a_position(subject: &impl Subject) {
    let store = subject.open();
    for number in 1..=300 {
        store.commit(Group::new(Some(&frame(number, b"events")), &[])).unwrap();
    }
    assert_eq!(numbers(&store, 0), (1..=300).collect::<Vec<_>>());
    assert_eq!(numbers(&store, 255), (256..=300).collect::<Vec<_>>());
    assert_eq!(numbers(&store, 299), [300]);
    assert!(numbers(&store, 300).is_empty());
    assert!(numbers(&store, 1000).is_empty());
    let [all, half, none] = [0, 150, 300].map(|at| store.bytes_after(Position(at)).unwrap());
    assert_eq!(none, 0);
    assert!(half * 3 > all && half * 3 < all * 2, "{half} of {all}");
}

pub(crate) fn a_read_can_stop(subject: &impl Subject) {
    let store = subject.open();
    store.commit(Group::new(Some(&frame(1, b"a")), &[])).unwrap();
    store.commit(Group::new(Some(&frame(2, b"b")), &[])).unwrap();
    let mut seen = 0;
    let mut visit = |_| {
        seen += 1;
        ControlFlow::Break(())
    };
    store.read(Position::START, &mut visit).unwrap();
    assert_eq!(seen, 1);
}

pub(crate) fn large_frames(subject: &impl Subject) {
    let store = subject.open();
    let large = frame(1, &vec![9; crate::log::frame::FRAME_BYTES_MAX / 2 - 100]);
    store.commit(Group::new(Some(&large), &[])).unwrap();
    drop(store);
    let mut frames = Vec::new();
    let mut visit = |frame| {
        frames.push(frame);
        ControlFlow::Continue(())
    };
    subject.open().read(Position::START, &mut visit).unwrap();
    assert_eq!(frames, [large]);
}

pub(crate) fn a_frame_out_of_order_is_refused(subject: &impl Subject) {
    for wrong in [0, 1, 3] {
        let store = subject.open();
        let next = store.last_position().unwrap().next();
        if next == Position(1) {
            store.commit(Group::new(Some(&frame(1, b"one")), &[])).unwrap();
        }
        let change = Change::put(Table::Keys, *b"k", *b"with it");
        let refused = store.commit(Group::new(Some(&frame(wrong, b"wrong")), &[change]));
        assert!(matches!(refused, Err(StoreError::Failed(_))), "{wrong}: {refused:?}");
        store.reopen().unwrap();
        assert_eq!(store.get(Table::Keys, b"k"), Ok(None));
        assert_eq!(numbers(&store, 0), [1]);
    }
}

pub(crate) fn numbers_continue_after_opening_again(subject: &impl Subject) {
    for round in 0..3 {
        let store = subject.open();
        assert_eq!(store.last_position(), Ok(Position(round * 10)));
        for number in round * 10 + 1..=round * 10 + 10 {
            store.commit(Group::new(Some(&frame(number, b"events")), &[])).unwrap();
        }
    }
    assert_eq!(numbers(&subject.open(), 0), (1..=30).collect::<Vec<_>>());
}

pub(crate) fn trimming_forgets_frames_but_not_the_last_number(subject: &impl Subject) {
    let store = subject.open();
    for number in 1..=20 {
        store.commit(Group::new(Some(&frame(number, b"events")), &[])).unwrap();
    }
    store.trim(Position(5)).unwrap();
    assert_eq!(numbers(&store, 0), (6..=20).collect::<Vec<_>>());
    store.trim(Position(3)).unwrap();
    assert_eq!(numbers(&store, 0), (6..=20).collect::<Vec<_>>());
    store.trim(Position(20)).unwrap();
    assert!(numbers(&store, 0).is_empty());
    assert_eq!(store.bytes_after(Position::START), Ok(0));
    assert_eq!(store.last_position(), Ok(Position(20)));
    drop(store);
    let store = subject.open();
    assert_eq!(store.last_position(), Ok(Position(20)));
    store.commit(Group::new(Some(&frame(21, b"events")), &[])).unwrap();
    assert_eq!(numbers(&store, 20), [21]);
}

pub(crate) fn a_replay_fails_without_the_frames_that_were_trimmed(subject: &impl Subject) {
    let store = subject.open();
    let replay = |after| {
        let mut frames = 0;
        let mut visit = |_| {
            frames += 1;
            ControlFlow::Continue(())
        };
        replay(&store, Position(after), &mut visit).map(|_| frames)
    };
    let is_damage = |replayed| matches!(replayed, Err(StoreError::Damaged(_)));
    assert_eq!(replay(0), Ok(0));
    for number in 1..=5 {
        store.commit(Group::new(Some(&frame(number, b"events")), &[])).unwrap();
    }
    assert_eq!((replay(0), replay(5)), (Ok(5), Ok(0)));
    assert!(is_damage(replay(6)));
    store.trim(Position(3)).unwrap();
    assert_eq!((replay(3), replay(4)), (Ok(2), Ok(1)));
    assert!(is_damage(replay(2)));
    store.trim(Position(5)).unwrap();
    assert_eq!(replay(5), Ok(0));
    assert!(is_damage(replay(4)));
}

pub(crate) fn trimming_beyond_the_end_keeps_the_next_number(subject: &impl Subject) {
    let store = subject.open();
    store.trim(Position(7)).unwrap();
    assert_eq!(store.last_position(), Ok(Position::START));
    store.commit(Group::new(Some(&frame(1, b"events")), &[])).unwrap();
    assert_eq!(numbers(&store, 0), [1]);
    store.trim(Position(u64::MAX - 1)).unwrap();
    assert!(numbers(&store, 0).is_empty());
    store.commit(Group::new(Some(&frame(2, b"events")), &[])).unwrap();
    assert_eq!(numbers(&store, 0), [2]);
}

//! Tests that an unreadable workspace is kept unchanged, and restored by a version that can read
//! it.

use std::time::Duration;

use postrider_domain::code::{CodeLength, Expiry};
use postrider_domain::event::Delivery;
use postrider_domain::{RequestId, Timestamp};
use postrider_store::{Section, Store as _};

use super::*;

const AT: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn id(name: &str) -> WorkspaceId {
    name.parse().unwrap()
}

/// Returns the events of a send.
fn sent(number: u8) -> Vec<u8> {
    let mut events = Vec::new();
    let event = Event::OtpSent {
        id: RequestId::from_parts(AT, u128::from(number)),
        phone: format!("+1555000{number:04}").parse().unwrap(),
        expiry: Expiry::default(),
        length: CodeLength::default(),
        key_version: 1,
    };
    event.encode_into(&mut events);
    events
}

fn frame(number: u64, sections: &[(&str, Vec<u8>)]) -> Frame {
    let sections = sections.iter();
    let sections = sections
        .map(|(of, events)| Section { workspace: id(of), events: events.clone() })
        .collect();
    Frame { epoch: 1, number: Position(number), sections }
}

fn bytes(state: &HotState) -> Vec<u8> {
    let mut out = Vec::new();
    state.encode_into(&mut out);
    out
}

/// Folds frames behind a snapshot.
fn folded(base: &LoadedSnapshot, frames: &[Frame]) -> States {
    let end = frames.last().map_or(base.position, |frame| frame.number);
    let visit = |visit: &mut dyn FnMut(&Frame)| {
        frames.iter().for_each(visit);
        Ok::<_, StoreError>(end)
    };
    fold(base, Rebases::default(), &visit).unwrap().encode()
}

fn loaded(position: u64, entries: States) -> LoadedSnapshot {
    LoadedSnapshot { position: Position(position), entries, warnings: Vec::new() }
}

#[test]
fn what_cannot_be_read_is_kept_over_snapshots_and_read_once_it_can_be() {
    let mut expected = HotState::default();
    expected.replay(&sent(1)).unwrap();
    let base = loaded(3, vec![(id("acme"), bytes(&expected)), (id("good"), bytes(&expected))]);
    // Events of a later version, and those that this one reads.
    let unknown = vec![0xff; 9];
    let frames =
        [frame(4, &[("acme", sent(2)), ("good", sent(3))]), frame(6, &[("acme", unknown.clone())])];
    let first = folded(&base, &frames);
    let second = folded(&loaded(6, first.clone()), &[frame(7, &[("acme", sent(4))])]);
    let [(of, kept), (good, _)] = second.as_slice() else { panic!("{second:?}") };
    assert_eq!((of, good), (&id("acme"), &id("good")));
    let replay = replay_of(&loaded(7, second.clone()), Rebases::default());
    let (states, damaged) = replay.into_states();
    assert_eq!((states.len(), damaged), (1, vec![id("acme")]));
    // The version that can read frame 6.
    let place = kept.windows(9).position(|window| *window == unknown).unwrap();
    let read = [&kept[..place - 4], &0_u32.to_be_bytes()[..], &kept[place + 9..]].concat();
    for events in [sent(2), sent(4)] {
        expected.replay(&events).unwrap();
    }
    let mut replay = replay_of(&loaded(7, vec![(id("acme"), read)]), Rebases::default());
    assert_eq!(bytes(&replay.take(&id("acme")).unwrap()), bytes(&expected));
}

#[test]
fn what_is_kept_stands_with_its_positions() {
    let before = [&[0xff][..], b"old"].concat();
    let base = loaded(3, vec![(id("acme"), before.clone())]);
    let kept = folded(&base, &[frame(4, &[("acme", b"new".to_vec())])]).remove(0).1;
    let parts = [
        &[0xfe][..],
        &3_u64.to_be_bytes(),
        &4_u32.to_be_bytes(),
        &before,
        &4_u64.to_be_bytes(),
        &3_u32.to_be_bytes(),
        b"new",
    ];
    assert_eq!(kept, parts.concat());
    for cut in 0..kept.len() {
        assert!(unreadable::state_of(&kept[..cut], Position(9), &Rebases::default()).is_err());
    }
}

#[test]
fn a_deletion_ends_what_is_kept() {
    let mut end = Vec::new();
    Event::WorkspaceDeleted.encode_into(&mut end);
    let unknown = || vec![0xff; 9];
    let removed = [frame(1, &[("acme", unknown())]), frame(2, &[("acme", end.clone())])];
    assert_eq!(folded(&loaded(0, Vec::new()), &removed), []);
    let again = frame(3, &[("acme", unknown())]);
    let kept = folded(&loaded(0, Vec::new()), &[&removed[..], &[again]].concat()).remove(0).1;
    assert_eq!(kept.windows(9).filter(|window| **window == unknown()).count(), 1);
}

/// Two codes are sent again long after they ended, and are removed while they count.
///
/// No version writes that, and a replay of the following events panics.
fn panicking() -> [Vec<u8>; 2] {
    let (mut ended, mut after) = (sent(1), Vec::new());
    ended.extend(sent(2));
    let late = AT.plus(Duration::from_secs(36_000));
    for number in [1, 2] {
        let id = RequestId::from_parts(AT, number);
        Event::OtpResent { id, at: late }.encode_into(&mut ended);
        Event::OtpVerified { id }.encode_into(&mut ended);
        for _ in 0..2 {
            let delivery = Delivery::Sent;
            Event::OtpDelivery { id, delivery }.encode_into(&mut ended);
        }
    }
    let event = Event::OtpSent {
        id: RequestId::from_parts(late, 3),
        phone: "+15550000002".parse().unwrap(),
        expiry: Expiry::default(),
        length: CodeLength::default(),
        key_version: 1,
    };
    event.encode_into(&mut after);
    [ended, after]
}

#[test]
fn a_replay_that_panics_harms_its_workspace_only() {
    let [first, second] = panicking();
    let mut state = HotState::default();
    state.replay(&first).unwrap();
    let replayed = catch_unwind(AssertUnwindSafe(|| state.replay(&second)));
    assert!(replayed.is_err(), "the test needs another fault");

    let frames = [
        frame(1, &[("acme", sent(1)), ("broken", first), ("good", sent(1))]),
        frame(2, &[("broken", second.clone()), ("good", sent(2))]),
        frame(3, &[("good", sent(3)), ("broken", sent(4))]),
    ];
    let mut replay = Replay::from_start(Rebases::default());
    frames.iter().for_each(|frame| replay.apply(frame));
    assert!(replay.take(&id("broken")).unwrap_err().contains("frame 2: it cannot be replayed"));
    let mut expected = HotState::default();
    (1..=3).for_each(|number| expected.replay(&sent(number)).unwrap());
    assert_eq!(bytes(&replay.take(&id("good")).unwrap()), bytes(&expected));
    assert!(!replay.take(&id("acme")).unwrap().is_empty());

    // A snapshot keeps its data, and a panic while reading that harms no other workspace either.
    let kept = folded(&loaded(0, Vec::new()), &frames);
    let mut replay = replay_of(&loaded(3, kept.clone()), Rebases::default());
    assert!(replay.take(&id("broken")).is_err());
    assert_eq!(bytes(&replay.take(&id("good")).unwrap()), bytes(&expected));
    let of_it = kept.iter().find(|(of, _)| *of == id("broken")).unwrap();
    assert!(of_it.1.windows(second.len()).any(|window| window == second));
}

#[test]
fn whoever_takes_a_snapshot_learns_what_is_kept_aside() {
    let dir = tempfile::tempdir().unwrap();
    let snapshots = SnapshotDir::open(dir.path()).unwrap();
    let store = postrider_store::memory::MemoryStore::new();
    let broken = Frame { epoch: 1, ..frame(1, &[("acme", sent(1)), ("broken", vec![0xff; 9])]) };
    store.commit(postrider_store::Group::new(Some(&broken), &[])).unwrap();
    let kept = KeptAside::default();
    take(&snapshots, &store, Rebases::default(), &kept).unwrap();
    assert_eq!(kept.all(), [id("broken")].into());
    let end = {
        let mut end = Vec::new();
        Event::WorkspaceDeleted.encode_into(&mut end);
        Frame { epoch: 1, ..frame(2, &[("broken", end)]) }
    };
    store.commit(postrider_store::Group::new(Some(&end), &[])).unwrap();
    take(&snapshots, &store, Rebases::default(), &kept).unwrap();
    assert_eq!(kept.all(), Default::default());
}

#[test]
fn a_replay_for_some_leaves_the_others_out() {
    let frames =
        [frame(1, &[("acme", sent(1)), ("b", vec![0xff; 9])]), frame(2, &[("c", sent(2))])];
    let of = [id("acme"), id("d")].into_iter().collect();
    let mut replay = Replay::from_start(Rebases::default()).only(of);
    frames.iter().for_each(|frame| replay.apply(frame));
    assert!(!replay.take(&id("acme")).unwrap().is_empty());
    assert!(replay.take(&id("d")).unwrap().is_empty());
    let (states, damaged) = replay.into_states();
    assert!(states.is_empty() && damaged.is_empty());
}

//! The contract of every [`View`], as one suite that each store runs.

use std::ops::ControlFlow;

use crate::conformance::Subject;
use crate::{Change, Direction, Group, Store, Table, View};

pub(crate) fn keys(
    store: &dyn View,
    prefix: &[u8],
    from: Option<&[u8]>,
    direction: Direction,
) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    store
        .scan(Table::Keys, prefix, from, direction, &mut |key, value| {
            assert_eq!(store.get(Table::Keys, key).unwrap().as_deref(), Some(value));
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
    keys
}

pub(crate) fn scans_go_both_ways(subject: &impl Subject) {
    let store = subject.open();
    let all: [&[u8]; 7] = [b"a", b"b", b"b\0", b"b1", b"b3", b"b3x", b"c"];
    store.commit(Group::new(None, &all.map(|key| Change::put(Table::Keys, key, *b"v")))).unwrap();
    store.commit(Group::new(None, &[Change::put(Table::Meta, *b"b2", *b"another table")])).unwrap();
    let forward = |prefix: &[u8], from| keys(&store, prefix, from, Direction::Forward);
    let backward = |prefix: &[u8], from| keys(&store, prefix, from, Direction::Backward);
    assert_eq!(forward(b"", None), all);
    assert_eq!(forward(b"b", None), all[1..6]);
    assert_eq!(forward(b"b", Some(b"b3")), all[4..6]);
    assert_eq!(forward(b"b", Some(b"b2")), all[4..6]);
    assert_eq!(forward(b"b", Some(b"a")), all[1..6]);
    assert_eq!(forward(b"b", Some(b"c")), all[..0]);
    let reversed = |range: std::ops::Range<usize>| {
        all[range].iter().rev().map(|key| key.to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(backward(b"", None), reversed(0..7));
    assert_eq!(backward(b"b", None), reversed(1..6));
    assert_eq!(backward(b"b", Some(b"b3")), reversed(1..5));
    assert_eq!(backward(b"b", Some(b"b2")), reversed(1..4));
    assert_eq!(backward(b"b", Some(b"c")), reversed(1..6));
    assert_eq!(backward(b"b", Some(b"a")), reversed(0..0));
}

pub(crate) fn scans_of_awkward_keys(subject: &impl Subject) {
    let store = subject.open();
    let all: [&[u8]; 5] = [&[0], &[0xfe, 0xff], &[0xff], &[0xff, 0xff], &[0xff, 0xff, 1]];
    store.commit(Group::new(None, &all.map(|key| Change::put(Table::Keys, key, *b"v")))).unwrap();
    assert_eq!(keys(&store, &[0xff], None, Direction::Forward), all[2..]);
    assert_eq!(keys(&store, &[0xff, 0xff], None, Direction::Backward), [all[4], all[3]]);
    assert_eq!(keys(&store, &[0xfe, 0xff], None, Direction::Backward), [all[1]]);
    assert_eq!(keys(&store, &[0], Some(&[0xff]), Direction::Backward), [all[0]]);
    let long = vec![7; 1024];
    store.commit(Group::new(None, &[Change::put(Table::Keys, long.clone(), *b"v")])).unwrap();
    assert_eq!(keys(&store, &[7], None, Direction::Forward), [long]);
}

pub(crate) fn a_scan_can_stop_and_may_use_the_store(subject: &impl Subject) {
    let store = subject.open();
    let put = |n: u16| Change::put(Table::Keys, n.to_be_bytes(), *b"v");
    store.commit(Group::new(None, &(0..500).map(put).collect::<Vec<_>>())).unwrap();
    for direction in [Direction::Forward, Direction::Backward] {
        assert_eq!(keys(&store, b"", None, direction).len(), 500);
        let mut left = 150;
        store
            .scan(Table::Keys, b"", None, direction, &mut |key, _| {
                store
                    .commit(Group::new(None, &[Change::put(Table::Buckets, key, *b"seen")]))
                    .unwrap();
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .unwrap();
        assert_eq!(left, 0);
    }
}

pub(crate) fn empty_and_large_values(subject: &impl Subject) {
    let large: Vec<u8> = (0..3_000_000u32).map(|n| (n ^ (n >> 8)) as u8).collect();
    let store = subject.open();
    let changes = [
        Change::put(Table::Keys, *b"empty", *b""),
        Change::put(Table::Keys, *b"large", large.clone()),
    ];
    store.commit(Group::new(None, &changes)).unwrap();
    drop(store);
    let store = subject.open();
    assert_eq!(store.get(Table::Keys, b"empty"), Ok(Some(Vec::new())));
    assert_eq!(store.get(Table::Keys, b"large"), Ok(Some(large)));
    assert_eq!(keys(&store, b"", None, Direction::Forward).len(), 2);
}

//! Tests that commits are cut and joined, and that only the entries of a chain are accepted.

use proptest::prelude::*;

use super::*;
use crate::testing::ID;
use crate::{ChainFault, EntryFault};

fn chain() -> Chain {
    let mut chain = Chain::new(ID, 0, Position::START, 0, EntryHash::NONE);
    let next = Next::after(&chain, 1);
    let claim = encode_commit(&next, Kind::Claim, 0, b"claim", 1_000).unwrap().remove(0);
    chain.check_and_push(&Entry::decode(claim).unwrap()).unwrap();
    chain
}

fn entries(next: &Next, kind: Kind, body: &[u8], max: usize) -> Vec<Entry> {
    let encoded = encode_commit(next, kind, 0, body, max).unwrap();
    encoded.into_iter().map(|bytes| Entry::decode(bytes).unwrap()).collect()
}

#[test]
fn a_commit_has_as_many_parts_as_it_needs() {
    let next = Next::after(&chain(), 1);
    let max = 100 + OVERHEAD_BYTES;
    for (length, parts) in [(0, 1), (1, 1), (100, 1), (101, 2), (200, 2), (201, 3)] {
        assert_eq!(entries(&next, Kind::Group, &vec![1; length], max).len(), parts, "{length}");
    }
    let too_many = EncodeError::TooManyParts { bytes: 70_000, parts: 70_000, max: 65_535 };
    let refused = encode_commit(&next, Kind::Group, 0, &[0; 70_000], OVERHEAD_BYTES + 1);
    assert_eq!(refused, Err(too_many));
    let claim = encode_commit(&next, Kind::Claim, 0, &[0; 101], max);
    assert_eq!(claim, Err(EncodeError::TooManyParts { bytes: 101, parts: 2, max: 1 }));
}

#[test]
fn only_what_follows_is_let_through() {
    let chain = chain();
    let next = Next::after(&chain, 1);
    let check = |next: &Next, kind| chain.check(&entries(next, kind, b"x", 1_000)[0].header);
    assert_eq!(check(&next, Kind::Group), Ok(()));
    assert_eq!(
        check(&Next { log: LogId([0; 16]), ..next.clone() }, Kind::Group),
        Err(ChainFault::Log)
    );
    let shard = ChainFault::Shard { found: 4, expected: 0 };
    assert_eq!(check(&Next { shard: 4, ..next.clone() }, Kind::Group), Err(shard));
    let position = ChainFault::Position { found: Position(3), expected: Position(2) };
    assert_eq!(check(&Next { position: Position(3), ..next.clone() }, Kind::Group), Err(position));
    let other = Next { prev: EntryHash::NONE, ..next.clone() };
    assert_eq!(check(&other, Kind::Group), Err(ChainFault::Hash));
    for (epoch, kind) in [(0, Kind::Group), (2, Kind::Group), (1, Kind::Claim), (0, Kind::Claim)] {
        let fault = ChainFault::Epoch { found: epoch, last: 1 };
        assert_eq!(check(&Next { epoch, ..next.clone() }, kind), Err(fault), "{epoch} {kind:?}");
    }
    assert_eq!(check(&Next { epoch: 9, ..next }, Kind::Claim), Ok(()));
}

#[test]
fn parts_come_in_order_or_are_ended_by_a_claim() {
    let mut chain = chain();
    let parts = entries(&Next::after(&chain, 1), Kind::Group, &[1; 250], 100 + OVERHEAD_BYTES);
    assert_eq!(
        chain.check(&parts[1].header).unwrap_err().to_string(),
        "the entry has position 3, not 2"
    );
    chain.check_and_push(&parts[0]).unwrap();
    assert!(!chain.is_whole());
    assert_eq!(chain.commit_begins(), Position(2));
    let next = Next::after(&chain, 1);
    let new = &entries(&next, Kind::Group, b"x", 1_000)[0];
    assert_eq!(chain.check(&new.header), Err(ChainFault::Part));
    let other = Header { kind: Kind::Checkpoint, ..parts[1].header.clone() };
    assert_eq!(chain.check(&other), Err(ChainFault::Part));
    let skipped = Header { part: 2, ..parts[1].header.clone() };
    assert_eq!(chain.check(&skipped), Err(ChainFault::Part));
    let claim = &entries(&Next { epoch: 2, ..next }, Kind::Claim, b"claim", 1_000)[0];
    let mut ended = chain.clone();
    ended.check_and_push(claim).unwrap();
    assert!(ended.is_whole());
    let mut joiner = Joiner::default();
    assert_eq!(joiner.push(&parts[0]), Ok(None));
    assert_eq!(joiner.push(claim).unwrap().unwrap().body, "claim");
    assert_eq!(joiner.push(&parts[1]), Err(PartWithoutStart(Position(3))));
}

proptest! {
    #[test]
    fn what_was_cut_is_joined(
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..500), 1..8),
        capacity in 1_usize..600,
    ) {
        let mut chain = chain();
        let mut joiner = Joiner::default();
        let mut joined = Vec::new();
        for body in &bodies {
            for entry in entries(&Next::after(&chain, 1), Kind::Group, body, capacity + OVERHEAD_BYTES) {
                prop_assert!(entry.bytes.len() <= capacity + OVERHEAD_BYTES);
                chain.check_and_push(&entry).unwrap();
                if let Some(commit) = joiner.push(&entry).unwrap() {
                    prop_assert_eq!(commit.position, chain.last());
                    prop_assert_eq!(commit.hash(), chain.hash());
                    joined.push(commit.body.to_vec());
                }
            }
            prop_assert!(chain.is_whole());
        }
        prop_assert_eq!(joined, bodies);
    }

    #[test]
    fn a_chain_notices_any_changed_bit(at in any::<prop::sample::Index>(), bit in 0_u8..8) {
        let chain = chain();
        let entry = &entries(&Next::after(&chain, 1), Kind::Group, b"some body", 1_000)[0];
        let mut bytes = entry.bytes.to_vec();
        bytes[at.index(entry.bytes.len())] ^= 1 << bit;
        let decoded: Result<Entry, EntryFault> = Entry::decode(bytes.into());
        prop_assert!(decoded.is_err());
    }
}

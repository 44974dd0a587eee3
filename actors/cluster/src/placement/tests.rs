//! Tests that assignments are complete and even, and change no more than they must.

use super::*;

fn node(number: usize) -> Candidate {
    let node = NodeName::new(&format!("pr-{number}")).unwrap();
    Candidate { node, zone: String::new(), is_draining: false, lacks_space: false }
}

fn nodes(count: usize) -> Vec<Candidate> {
    (0..count).map(node).collect()
}

const BOUNDS: Bounds = Bounds { shards: 32, standbys: 1, moves: 2, free: BTreeSet::new() };

fn load(assignment: &[Placed], candidate: &Candidate) -> usize {
    assignment.iter().filter(|it| it.owner.as_ref() == Some(&candidate.node)).count()
}

#[test]
fn what_was_moved_stays_until_its_owner_drains_or_has_ended() {
    let mut candidates = nodes(3);
    let mut moved = settled(&candidates, Vec::new());
    let to = candidates[0].node.clone();
    let others: Vec<_> = (0..32).filter(|it| moved[*it].owner.as_ref() != Some(&to)).collect();
    // The node owns more than any share.
    for shard in &others[..8] {
        moved[*shard] = Placed { owner: Some(to.clone()), is_pinned: true, ..Placed::default() };
    }
    let after = settled(&candidates, moved);
    for shard in &others[..8] {
        assert_eq!((after[*shard].owner.as_ref(), after[*shard].is_pinned), (Some(&to), true));
        assert!(!after[*shard].standbys.is_empty() && !after[*shard].standbys.contains(&to));
    }
    assert!(after.iter().filter(|it| it.is_pinned).count() == 8, "and nothing else is pinned");
    let loads: Vec<_> = candidates.iter().map(|it| load(&after, it)).collect();
    assert!(loads.iter().all(|held| (10..=12).contains(held)), "the others make up: {loads:?}");
    let removed = settled(&candidates[1..], after.clone());
    candidates[0].is_draining = true;
    let drained = settled(&candidates, after);
    for left in [drained, removed] {
        assert!(left.iter().all(|it| it.owner.as_ref() != Some(&to) && !it.is_pinned));
    }
}

/// Repeats `place` until nothing changes; each round makes at most the allowed moves.
fn settled(candidates: &[Candidate], mut current: Assignment) -> Assignment {
    for _ in 0..100 {
        let next = place(candidates, &current, BOUNDS);
        if next == current {
            return current;
        }
        current = next;
    }
    panic!("it never settles");
}

#[test]
fn shards_are_spread_evenly_and_stay_where_they_are() {
    for count in 1..=9 {
        let candidates = nodes(count);
        let assignment = settled(&candidates, Vec::new());
        assert_eq!(assignment.len(), 32);
        for candidate in &candidates {
            let held = load(&assignment, candidate);
            assert!((32 / count..=32_usize.div_ceil(count)).contains(&held), "{count}: {held}");
        }
        for placed in &assignment {
            assert_eq!(placed.standbys.len(), 1.min(count - 1));
            assert!(!placed.standbys.contains(placed.owner.as_ref().unwrap()));
        }
        assert_eq!(place(&candidates, &assignment, BOUNDS), assignment);
    }
}

#[test]
fn a_dead_nodes_shards_go_to_their_standbys_and_no_other_moves() {
    let before = settled(&nodes(4), Vec::new());
    let left = &nodes(4)[1..];
    let after = place(left, &before, BOUNDS);
    let removed = node(0).node;
    let mut taken_over = 0;
    for (old, new) in before.iter().zip(&after) {
        if old.owner.as_ref() == Some(&removed) {
            taken_over += usize::from(old.standbys.first() == new.owner.as_ref());
        } else {
            assert_eq!(old.owner, new.owner);
        }
    }
    assert!(taken_over >= 5, "{taken_over} of 8");
}

#[test]
fn a_new_or_a_draining_node_moves_few_shards_at_a_time() {
    let before = settled(&nodes(3), Vec::new());
    let moved = |a: &[Placed], b: &[Placed]| {
        a.iter().zip(b).filter(|(old, new)| old.owner != new.owner).count()
    };
    let step = place(&nodes(4), &before, BOUNDS);
    assert_eq!(moved(&before, &step), 2);
    let all = settled(&nodes(4), before.clone());
    assert!(moved(&before, &all) <= 9, "{}", moved(&before, &all));
    let mut drained = nodes(3);
    drained[1].is_draining = true;
    let step = place(&drained, &before, BOUNDS);
    assert_eq!(moved(&before, &step), 2);
    assert_eq!(load(&settled(&drained, before.clone()), &drained[1]), 0);
    // The last node remains the owner although it drains.
    let alone = [Candidate { is_draining: true, ..node(0) }];
    assert_eq!(place(&alone, &before, BOUNDS), before);
}

#[test]
fn where_every_disk_is_almost_full_shards_of_dead_nodes_go_to_those_that_can_be_read() {
    let before = settled(&nodes(4), Vec::new());
    let mut left = nodes(3);
    left.iter_mut().for_each(|it| it.is_draining = true);
    assert_eq!(place(&left, &before, BOUNDS), before, "nobody can own them");
    left[1].lacks_space = true;
    left[2].lacks_space = true;
    let dead = node(3).node;
    let (after, mut moved) = (place(&left, &before, BOUNDS), 0);
    for (old, new) in before.iter().zip(&after) {
        let (old_owner, owner) = (old.owner.as_ref().unwrap(), new.owner.as_ref().unwrap());
        if *old_owner != dead {
            assert_eq!(old, new, "who lives keeps what it has");
            continue;
        }
        // Only a standby that has the records already: others would have to fetch them.
        let ready = old.standbys.iter().find(|it| left[1..].iter().any(|node| node.node == **it));
        assert_eq!(owner, ready.unwrap_or(&dead), "{old:?} {new:?}");
        assert!(!new.standbys.contains(owner), "{new:?}");
        moved += usize::from(ready.is_some());
    }
    assert!(moved > 0);
    assert_eq!(place(&left, &after, BOUNDS), after, "and they stay there");
    // Once one of them has space again, it gets all shards, a few at a time.
    left[1] = node(1);
    assert_eq!(load(&settled(&left, after), &left[1]), usize::from(BOUNDS.shards));
}

#[test]
fn standbys_are_in_other_zones_where_there_are_some() {
    let mut candidates = nodes(6);
    for (at, candidate) in candidates.iter_mut().enumerate() {
        candidate.zone = format!("zone-{}", at % 2);
    }
    let zone = |node: &NodeName| candidates.iter().find(|it| it.node == *node).map(|it| &it.zone);
    for placed in settled(&candidates, Vec::new()) {
        assert_ne!(zone(placed.owner.as_ref().unwrap()), zone(&placed.standbys[0]));
    }
}

#[test]
fn what_is_on_its_way_counts_as_a_move() {
    let before = settled(&nodes(3), Vec::new());
    let mut drained = nodes(3);
    drained[1].is_draining = true;
    let after = place(&drained, &before, BOUNDS);
    let owned_before =
        |shard: u16, node: &NodeName| before[usize::from(shard)].owner.as_ref() == Some(node);
    assert_eq!(moves_left(&drained, &before, owned_before, 2), 2);
    assert_eq!(moves_left(&drained, &after, owned_before, 2), 0);
    assert_eq!(moves_left(&drained, &after, |_, _| true, 2), 2);
    // No move waits for a dead node.
    assert_eq!(moves_left(&[], &after, owned_before, 2), 2);
    let none = Bounds { moves: 0, ..BOUNDS };
    assert_eq!(place(&drained, &after, none), after);
}

#[test]
fn a_node_that_drains_and_owns_nothing_is_emptied() {
    let mut current = settled(&nodes(3), Vec::new());
    let mut candidates = nodes(3);
    candidates[1].is_draining = true;
    let sick = candidates[1].node.clone();
    // A healthy node owns its shards by the next look.
    let owns = |_: u16, owner: &NodeName| *owner != sick;
    let on_their_way = |current: &[Placed], before: &[Placed]| {
        let differs = |it: &(&Placed, &Placed)| it.0.owner != it.1.owner;
        current.iter().zip(before).filter(differs).count()
    };
    for _ in 0..32 {
        assert!(
            load(&current, &candidates[1]) < 2 || moves_left(&candidates, &current, owns, 2) == 0
        );
        let free = free_moves(&candidates, &current, owns, 2);
        let moves = moves_left(&candidates, &current, owns, 2);
        let next = place(&candidates, &current, Bounds { moves, free, ..BOUNDS });
        assert!(on_their_way(&next, &current) <= 2);
        // Nothing more moves while these shards are moving.
        let is_new =
            |shard: u16| next[usize::from(shard)].owner != current[usize::from(shard)].owner;
        let owned_before = |shard: u16, owner: &NodeName| owns(shard, owner) && !is_new(shard);
        if on_their_way(&next, &current) == 2 {
            assert!(free_moves(&candidates, &next, owned_before, 2).is_empty());
        }
        current = next;
    }
    assert_eq!(load(&current, &candidates[1]), 0);
}

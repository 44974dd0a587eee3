//! Pure: the choice of the owner and the standbys of each shard.
//!
//! It uses rendezvous hashing, bounds on the load, and preference for the current owner. It
//! promises that equal inputs give equal assignments. A shard moves only when its node has ended,
//! drains or has more than its share. Living owners lose few shards at a time.

use std::collections::{BTreeMap, BTreeSet};

use xxhash_rust::xxh3::xxh3_64;

use crate::name::NodeName;

#[cfg(test)]
mod tests;

/// A node that can be given shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The name of the node.
    pub node: NodeName,
    /// The nodes that fail together with it; empty when not set.
    pub zone: String,
    /// Set if the node shall own nothing, and be no standby.
    pub is_draining: bool,
    /// Set if it drains only because too little of its disk is free: existing data can be read.
    pub lacks_space: bool,
}

/// The nodes of one shard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placed {
    /// The owner; `None` when there is no node.
    pub owner: Option<NodeName>,
    /// The standbys, by rank.
    pub standbys: Vec<NodeName>,
    /// Set if an operator moved the shard to its owner.
    ///
    /// It stays until its owner drains or has ended, whatever the load of the others.
    pub is_pinned: bool,
}

/// The nodes of every shard, by the shard's number.
pub type Assignment = Vec<Placed>;

/// The bounds of an assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// The number of shards.
    pub shards: u16,
    /// The number of standbys of each shard.
    pub standbys: usize,
    /// The number of shards taken from living owners with this assignment; see [`moves_left`].
    pub moves: usize,
    /// Shards that leave draining nodes beside these moves; see [`free_moves`].
    pub free: BTreeSet<u16>,
}

/// Returns how well a node suits a shard: the node with the highest weight gets it.
fn weight(shard: u16, node: &NodeName) -> u64 {
    let mut bytes = shard.to_be_bytes().to_vec();
    bytes.extend_from_slice(node.as_str().as_bytes());
    xxh3_64(&bytes)
}

/// Returns the nodes in the order in which they suit a shard.
fn ranked<'a>(shard: u16, nodes: &[&'a Candidate]) -> Vec<&'a Candidate> {
    let mut ranked = nodes.to_vec();
    ranked.sort_by_key(|it| (std::cmp::Reverse(weight(shard, &it.node)), it.node.clone()));
    ranked
}

/// Returns the node to which an operator moved a shard.
fn pinned(current: &[Placed], shard: u16) -> Option<&NodeName> {
    let placed = current.get(usize::from(shard)).filter(|it| it.is_pinned);
    placed.and_then(|it| it.owner.as_ref())
}

/// Returns the next assignment.
#[must_use]
pub fn place(candidates: &[Candidate], current: &[Placed], bounds: Bounds) -> Assignment {
    let alive: BTreeSet<&NodeName> = candidates.iter().map(|it| &it.node).collect();
    let usable: Vec<_> = candidates.iter().filter(|it| !it.is_draining).collect();
    if usable.is_empty() {
        return kept_or_read(&alive, candidates, current, bounds.shards);
    }
    let most = usize::from(bounds.shards).div_ceil(usable.len());
    let owners = owners(&alive, &usable, current, most, &bounds);
    let standbys = |shard: u16, owner: &NodeName| {
        let zone = candidates.iter().find(|it| it.node == *owner).map(|it| it.zone.as_str());
        let kept = current.get(usize::from(shard)).map_or(&[][..], |it| &it.standbys);
        let mut rest = ranked(shard, &usable);
        rest.retain(|it| it.node != *owner);
        // Nodes of other zones are first, then current standbys.
        rest.sort_by_key(|it| {
            let is_near = zone.is_some_and(|zone| !zone.is_empty() && zone == it.zone);
            (is_near, !kept.contains(&it.node))
        });
        rest.into_iter().take(bounds.standbys).map(|it| it.node.clone()).collect()
    };
    let placed = (0..bounds.shards).zip(owners).map(|(shard, owner)| {
        let standbys = owner.as_ref().map_or_else(Vec::new, |owner| standbys(shard, owner));
        let is_pinned = owner.is_some() && pinned(current, shard) == owner.as_ref();
        Placed { owner, standbys, is_pinned }
    });
    placed.collect()
}

/// Returns the assignment when every node drains.
///
/// A draining node remains the owner until another node can own the shard. A shard without an owner
/// goes to a standby that drains only for lack of space. That node has the records, and needs no
/// more space to read them.
fn kept_or_read(
    alive: &BTreeSet<&NodeName>,
    candidates: &[Candidate],
    current: &[Placed],
    shards: u16,
) -> Assignment {
    let mut kept = current.to_vec();
    kept.resize(shards.into(), Placed::default());
    let lacks = candidates.iter().filter(|it| it.lacks_space).map(|it| &it.node);
    let readers: BTreeSet<&NodeName> = lacks.collect();
    let lives = |placed: &Placed| placed.owner.as_ref().is_some_and(|it| alive.contains(it));
    for placed in kept.iter_mut().filter(|placed| !lives(placed)) {
        let ready = placed.standbys.iter().position(|it| readers.contains(it));
        if let Some(ready) = ready.map(|at| placed.standbys.remove(at)) {
            (placed.owner, placed.is_pinned) = (Some(ready), false);
        }
    }
    kept
}

/// Returns how many shards may now be taken from living owners, of `at_a_time` moving ones.
///
/// A shard is moving while the node that shall own it lives and does not own it yet. It may come
/// from a living owner or from a dead one.
#[must_use]
pub fn moves_left(
    candidates: &[Candidate],
    current: &[Placed],
    owns: impl Fn(u16, &NodeName) -> bool,
    at_a_time: usize,
) -> usize {
    at_a_time.saturating_sub(coming(candidates, current, owns).count())
}

/// Returns the shards that are moving to draining nodes and may go elsewhere now.
///
/// They are moving either way, so they cost no move. Otherwise a node whose engines do not start
/// could not be emptied. Together with the shards that are moving to other nodes they stay within
/// `at_a_time`, because a draining node may already own one and not have reported it yet.
#[must_use]
pub fn free_moves(
    candidates: &[Candidate],
    current: &[Placed],
    owns: impl Fn(u16, &NodeName) -> bool,
    at_a_time: usize,
) -> BTreeSet<u16> {
    let coming = coming(candidates, current, owns);
    let (draining, others): (Vec<_>, Vec<_>) = coming.partition(|(_, to)| to.is_draining);
    let free = draining.into_iter().map(|(shard, _)| shard);
    free.take(at_a_time.saturating_sub(others.len())).collect()
}

/// Returns the moving shards and their destinations.
fn coming<'a>(
    candidates: &'a [Candidate],
    current: &'a [Placed],
    owns: impl Fn(u16, &NodeName) -> bool + 'a,
) -> impl Iterator<Item = (u16, &'a Candidate)> {
    (0..=u16::MAX).zip(current).filter_map(move |(shard, placed)| {
        let owner = placed.owner.as_ref()?;
        let living = candidates.iter().find(|it| it.node == *owner)?;
        (!owns(shard, owner)).then_some((shard, living))
    })
}

fn owners(
    alive: &BTreeSet<&NodeName>,
    usable: &[&Candidate],
    current: &[Placed],
    most: usize,
    bounds: &Bounds,
) -> Vec<Option<NodeName>> {
    let can: BTreeSet<&NodeName> = usable.iter().map(|it| &it.node).collect();
    let owner = |shard: u16| current.get(usize::from(shard)).and_then(|it| it.owner.as_ref());
    let mut load: BTreeMap<&NodeName, usize> = can.iter().map(|node| (*node, 0)).collect();
    let mut owners: Vec<Option<NodeName>> = vec![None; bounds.shards.into()];
    let mut moves = bounds.moves;
    // A node keeps the shards that were moved to it, and those of its other shards that it suits
    // best.
    let mut kept: Vec<(u16, &NodeName)> = Vec::new();
    for shard in 0..bounds.shards {
        let living = owner(shard).filter(|owner| alive.contains(*owner));
        kept.extend(living.map(|owner| (shard, owner)));
    }
    let is_pinned = |shard: u16| pinned(current, shard).is_some_and(|node| can.contains(node));
    kept.sort_by_key(|(shard, owner)| {
        std::cmp::Reverse((is_pinned(*shard), weight(*shard, owner), *shard))
    });
    let total = usize::from(bounds.shards);
    let least = total / usable.len();
    for (shard, owner) in kept {
        let held = load.entry(owner).or_default();
        let allowed = if can.contains(owner) { most } else { 0 };
        let is_free = allowed == 0 && bounds.free.contains(&shard);
        if *held >= allowed && (is_free || moves > 0) && !is_pinned(shard) {
            moves -= usize::from(!is_free);
            continue;
        }
        *held += 1;
        owners[usize::from(shard)] = Some(owner.clone());
    }
    for shard in
        (0..bounds.shards).filter(|shard| owners[usize::from(*shard)].is_none()).collect::<Vec<_>>()
    {
        let standbys = current.get(usize::from(shard)).map_or(&[][..], |it| &it.standbys);
        let ranked = ranked(shard, usable);
        let fits = |node: &NodeName| load.get(node).is_some_and(|held| *held < most);
        // A standby has the shard's records. After it come the most suitable node and the one with
        // the fewest shards.
        let ready = standbys.iter().filter(|node| can.contains(*node));
        let suited = ranked.iter().map(|it| &it.node);
        let poor = ranked.iter().map(|it| &it.node).min_by_key(|node| load.get(*node));
        let chosen = ready.chain(suited).find(|node| fits(node)).or(poor).cloned();
        if let Some(held) = chosen.as_ref().and_then(|node| load.get_mut(node)) {
            *held += 1;
        }
        owners[usize::from(shard)] = chosen;
    }
    level(&mut owners, &can, least, moves, is_pinned);
    owners
}

/// Moves shards from nodes with more than their share to nodes with less.
fn level(
    owners: &mut [Option<NodeName>],
    can: &BTreeSet<&NodeName>,
    least: usize,
    mut moves: usize,
    is_pinned: impl Fn(u16) -> bool,
) {
    // A shard's number is below the count of shards, which is a u16.
    let may_go = |shard: usize| !is_pinned(shard as u16);
    while moves > 0 {
        let count =
            |node: &NodeName| owners.iter().filter(|owner| owner.as_ref() == Some(node)).count();
        let poorest = can.iter().map(|node| (count(node), *node)).min();
        let owned = |node: &NodeName, shard: usize| owners[shard].as_ref() == Some(node);
        let gives = |node: &NodeName| (0..owners.len()).any(|it| owned(node, it) && may_go(it));
        let richest = can.iter().filter(|node| gives(node));
        let richest = richest.map(|node| (count(node), *node)).max();
        let (Some((few, poor)), Some((many, rich))) = (poorest, richest) else { return };
        if few >= least || many <= least {
            return;
        }
        let of_rich = |shard: &usize| owned(rich, *shard) && may_go(*shard);
        let suits = |shard: &usize| weight(*shard as u16, poor);
        let Some(shard) = (0..owners.len()).filter(of_rich).max_by_key(suits) else { return };
        owners[shard] = Some(poor.clone());
        moves -= 1;
    }
}

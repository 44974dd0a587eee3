//! Tests that entries lost from the log are taken from nodes that have kept them, if they follow.

use super::*;

/// The entries that a node has kept, by position.
#[derive(Debug, Default)]
struct Kept(Vec<(u64, Bytes)>);

impl NodeEntries for Kept {
    fn last(&self) -> Position {
        Position(self.0.iter().map(|(at, _)| *at).max().unwrap_or(0))
    }

    fn at(&self, position: Position) -> Vec<Bytes> {
        let here = self.0.iter().filter(|(at, _)| *at == position.0);
        here.map(|(_, bytes)| bytes.clone()).collect()
    }
}

/// Returns a node that has read these positions of the log.
fn node(rig: &Rig, positions: std::ops::RangeInclusive<u64>) -> Arc<dyn NodeEntries> {
    let entry = |at| (at, rig.stream.message(at).unwrap().unwrap());
    Arc::new(Kept(positions.map(entry).collect()))
}

fn repair(rig: &Rig, incarnation: u8, nodes: &[Arc<dyn NodeEntries>]) -> ShardRepair {
    rig.repair(incarnation).with_nodes(nodes.to_vec())
}

#[test]
fn the_lost_end_of_a_log_comes_from_nodes_and_nothing_is_given_up() {
    let rig = Rig::new();
    let nodes = [node(&rig, 2..=6), node(&rig, 6..=8)];
    rig.stream.lose(3);
    rig.report("a", Standing::Stopped, 8);
    let mut first = repair(&rig, 1, &nodes);
    let finding = rig.find(&first);
    assert!(finding.needs_repair() && !finding.loses(), "{finding:?}");
    assert_eq!((finding.end, finding.last), (Position(8), Position(5)));
    assert_eq!(finding.from_nodes, Some((Position(6), Position(8))));
    assert_eq!(commits(&first, &finding), [1, 2, 3, 4, 5, 6, 7, 8]);
    let left = first.claim(&finding, 7).unwrap();
    assert_eq!(left.at.position, Position(6), "the log has no gaps");
    // The first repair ends midway. Its claim does not hide the nodes' entries from the next one.
    let mut second = repair(&rig, 2, &nodes);
    let finding = rig.find(&second);
    assert_eq!((finding.end, finding.loses()), (Position(8), false), "{finding:?}");
    assert_eq!(commits(&second, &finding), [1, 2, 3, 4, 5, 6, 7, 8]);
    let claimed = second.claim(&finding, 7).unwrap();
    assert!(claimed.at.epoch > left.at.epoch);
    second.finish(claimed, &rig.archive()).unwrap();
    let finding = rig.find(&repair(&rig, 3, &nodes));
    assert!(!finding.needs_repair(), "what nodes have is of the branch before: {finding:?}");
}

#[test]
fn one_entry_that_is_damaged_comes_from_a_node() {
    let rig = Rig::new();
    let nodes = [node(&rig, 8..=8)];
    let good = nodes[0].at(Position(8)).remove(0);
    rig.stream.flip(40);
    let header = Entry::decode(good.clone()).unwrap().header;
    let (position, epoch, prev) = (Position(9), header.epoch, EntryHash::of(&good));
    let next = Next { log: LOG, shard: 0, position, epoch, prev };
    rig.stream.publish(8, &encode_commit(&next, Kind::Group, 9, b"x", 1_000).unwrap()[0]);
    let repair = repair(&rig, 1, &nodes);
    let finding = rig.find(&repair);
    assert!(finding.needs_repair(), "no node has stopped, and the log is damaged: {finding:?}");
    assert_eq!((finding.end, finding.loses()), (Position(9), false));
    assert_eq!(finding.from_nodes, Some((Position(8), Position(8))));
    assert_eq!(commits(&repair, &finding).last(), Some(&9));
}

#[test]
fn what_nodes_have_of_another_branch_or_behind_a_gap_is_not_taken() {
    let rig = Rig::new();
    let nodes = [node(&rig, 8..=8)];
    rig.stream.lose(2);
    rig.report("a", Standing::Stopped, 8);
    let finding = rig.find(&repair(&rig, 1, &nodes));
    assert_eq!((finding.end, finding.from_nodes), (Position(6), None), "position 7 is lost");
    assert_eq!(finding.given_up(), Some((Position(7), Position(8))));
    // Another owner has written since, at positions that the log had lost.
    let lost = Rig::new();
    let nodes = [node(&lost, 6..=8)];
    lost.stream.lose(3);
    append_as_owner(&lost);
    let finding = lost.find(&repair(&lost, 1, &nodes));
    assert_eq!((finding.end, finding.from_nodes), (Position(6), None), "{finding:?}");
    assert_eq!(finding.whole.epoch, 2, "the later branch is kept");
}

#[test]
fn while_an_owner_writes_nodes_are_not_looked_at() {
    let rig = Rig::new();
    let nodes = [node(&rig, 6..=8)];
    rig.stream.lose(1);
    rig.report("a", Standing::Owned, 7);
    let finding = rig.find(&repair(&rig, 1, &nodes));
    assert!(!finding.needs_repair() && finding.from_nodes.is_none(), "{finding:?}");
}

#[test]
fn of_two_branches_that_nodes_have_the_later_one_is_followed() {
    for is_reversed in [false, true] {
        let rig = Rig::new();
        let given_up = node(&rig, 6..=8);
        rig.stream.lose(3);
        append_as_owner(&rig);
        let written = rig.stream.ends().unwrap().last;
        let kept = node(&rig, 6..=written);
        rig.stream.lose(usize::try_from(written - 5).unwrap());
        rig.report("a", Standing::Stopped, written);
        let mut nodes = [given_up, kept];
        if is_reversed {
            nodes.reverse();
        }
        let mut first = repair(&rig, 1, &nodes);
        let finding = rig.find(&first);
        assert_eq!((finding.end, finding.whole.epoch), (Position(written), 2), "{finding:?}");
        // A repair that ends midway does not change the result.
        first.claim(&finding, 7).unwrap();
        let finding = rig.find(&repair(&rig, 2, &nodes));
        assert_eq!((finding.end, finding.whole.epoch), (Position(written), 2), "{finding:?}");
    }
}

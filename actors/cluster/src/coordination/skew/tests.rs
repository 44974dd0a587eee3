//! Tests that late keys and dead nodes make no clock look wrong, and that a wrong one shows at
//! once.

use super::*;

fn sighting(node: &str, renewal: u64, wall_ms: u64) -> Sighting {
    Sighting { node: NodeName::new(node).unwrap(), renewal, wall_ms }
}

#[test]
fn half_of_the_nodes_is_not_enough_and_nobody_else_is() {
    let mut clocks = Clocks::default();
    assert!(clocks.may_claim(1_000, 50_000));
    // The steady clock reads 1,000 when the wall clocks read 50,000.
    clocks.read(1_000, &[sighting("b", 1, 50_000)]);
    assert!(clocks.may_claim(1_000, 50_000));
    assert!(clocks.may_claim(3_000, 54_000) && !clocks.may_claim(3_000, 54_001));
    assert!(clocks.may_claim(3_000, 50_000) && !clocks.may_claim(3_000, 49_999));
    clocks.read(1_000, &[sighting("b", 1, 50_000), sighting("c", 1, 90_000)]);
    assert!(clocks.may_claim(1_000, 50_000) && clocks.may_claim(1_000, 90_000));
    assert!(!clocks.may_claim(1_000, 70_000));
    // A key that has expired counts no more.
    clocks.read(1_000, &[]);
    assert!(clocks.may_claim(1_000, 70_000));
}

#[test]
fn the_quickest_of_the_last_renewals_counts() {
    let mut clocks = Clocks::default();
    let difference = |clocks: &Clocks, now: u64, wall: u64| {
        clocks.differences(now, wall).map(|(_, by)| by).collect::<Vec<_>>()
    };
    clocks.read(5_000, &[sighting("b", 1, 51_000)]);
    assert_eq!(difference(&clocks, 5_000, 54_000), [3_000]);
    clocks.read(5_100, &[sighting("b", 2, 54_000)]);
    assert_eq!(difference(&clocks, 5_100, 54_100), [100]);
    // The key of a node that died reports the same for long.
    clocks.read(16_000, &[sighting("b", 2, 54_000)]);
    assert_eq!(difference(&clocks, 16_000, 65_000), [100]);
    assert_eq!(clocks.suspicious(16_000, 65_000).count(), 0);
    assert_eq!(clocks.suspicious(16_000, 65_401).count(), 1);
    // The new time of the other's clock counts when the older renewals are forgotten.
    for (renewal, now) in [(3, 17_000), (4, 18_000), (5, 19_000)] {
        clocks.read(now, &[sighting("b", renewal, now + 40_000)]);
    }
    assert_eq!(difference(&clocks, 19_000, 68_000), [9_000]);
}

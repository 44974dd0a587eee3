//! Tests of the contract of every bucket, and of the values in it.

use std::sync::Arc;

use super::*;
use crate::clock::{SteadyClock as _, StillClock};
use crate::placement::Bounds;

/// Checks the contract of every bucket. `wait` lets this many milliseconds pass for its keys.
pub(crate) fn a_bucket_keeps_its_contract(bucket: &dyn Coordination, wait: &dyn Fn(u64)) {
    let value = |text: &'static str| Bytes::from_static(text.as_bytes());
    let made_at = bucket.made_at().unwrap();
    assert_eq!(bucket.read("a"), Ok(None));
    let first = bucket.write("a", value("1"), 0, None).unwrap().unwrap();
    assert_eq!(bucket.write("a", value("x"), 0, None), Ok(None));
    let kept = bucket.read("a").unwrap().unwrap();
    assert_eq!((kept.revision, &kept.value[..]), (first, &b"1"[..]));
    let second = bucket.write("a", value("2"), first, None).unwrap().unwrap();
    assert!(second > first);
    assert_eq!(bucket.write("a", value("x"), first, None), Ok(None));
    // Writes of other keys do not count.
    let other = bucket.write("node.b", value("b"), 0, None).unwrap().unwrap();
    bucket.write("a", value("3"), second, None).unwrap().unwrap();
    bucket.write("node.a", value("a"), 0, None).unwrap().unwrap();
    assert!(bucket.write("node.b", value("c"), other, None).unwrap().is_some());
    let keys = bucket.keys(NODES).unwrap();
    let texts: Vec<_> = keys.iter().map(|(key, kept)| (key.as_str(), &kept.value[..])).collect();
    assert_eq!(texts, [("node.a", &b"a"[..]), ("node.b", b"c")]);
    // A renewal restarts the time to live, and an expired key behaves as if it never existed.
    let lease = bucket.write("lease", value("1"), 0, Some(2)).unwrap().unwrap();
    wait(1_200);
    let lease = bucket.write("lease", value("2"), lease, Some(2)).unwrap().unwrap();
    wait(1_200);
    assert_eq!(bucket.read("lease").unwrap().unwrap().revision, lease);
    wait(3_000);
    assert_eq!(bucket.read("lease"), Ok(None));
    assert_eq!(bucket.write("lease", value("3"), lease, Some(2)), Ok(None));
    assert!(bucket.write("lease", value("3"), 0, Some(2)).unwrap().is_some());
    assert_eq!(bucket.read("a").unwrap().unwrap().value, "3");
    assert_eq!(bucket.made_at(), Ok(made_at));
}

#[test]
fn the_bucket_in_memory_keeps_the_contract() {
    let clock = Arc::new(StillClock::default());
    let bucket = FakeCoordination::new(clock.clone());
    a_bucket_keeps_its_contract(&bucket, &|for_ms| clock.wait_ms(for_ms));
}

#[test]
fn nodes_and_assignments_are_read_back() {
    let bucket = FakeCoordination::new(Arc::new(StillClock::default()));
    assert_eq!(read_view(&bucket), Ok(BucketView::default()));
    let record = NodeRecord {
        directory: [1; 16],
        incarnation: [2; 16],
        renewal: 3,
        advertise: "10.0.0.1:8081".to_owned(),
        zone: "east".to_owned(),
        is_draining: true,
        is_failing: false,
        lacks_space: false,
        key: "1-a".to_owned(),
        version: "0.1.0".to_owned(),
        wall_ms: 4,
        reads: 2,
        shards: Vec::new(),
    };
    let node = NodeName::new("pr-1").unwrap();
    let key = node_key(&node);
    bucket.write(&key, encode(&key, &record).unwrap(), 0, Some(13)).unwrap();
    let bounds = Bounds { shards: 4, standbys: 1, moves: 2, free: BTreeSet::new() };
    let candidate = Candidate {
        node: node.clone(),
        zone: "east".to_owned(),
        is_draining: false,
        lacks_space: false,
    };
    let assignment = crate::placement::place(&[candidate], &[], bounds);
    let revision = write_assignment(&bucket, &assignment, 0).unwrap().unwrap();
    assert_eq!(write_assignment(&bucket, &assignment, 0), Ok(None));
    let leader = bucket.write(COORDINATOR, encode("", &"pr-1").unwrap(), 0, Some(13)).unwrap();
    let view = read_view(&bucket).unwrap();
    assert_eq!(view.assignment, Some((assignment, revision)));
    assert_eq!(view.coordinator, Some((node.clone(), leader.unwrap())));
    let there = &view.nodes[0];
    assert_eq!((&there.node, there.zone.as_str(), there.is_draining), (&node, "east", true));
    assert_eq!(record.identity().incarnation, [2; 16]);
    bucket.write("node.pr-2", Bytes::from_static(b"{"), 0, None).unwrap();
    let error = read_view(&bucket).unwrap_err();
    assert!(error.to_string().contains("node.pr-2"), "{error}");
}

impl NodeRecord {
    /// Returns the report of a node that owns these shards.
    pub(crate) fn owning(owned: &[u16]) -> Self {
        let report = |shard: &u16| ShardReport {
            checkpoint: None,
            format: 2,
            shard: *shard,
            state: Standing::Owned,
            epoch: 1,
            position: 1,
            reason: None,
        };
        Self {
            directory: [1; 16],
            incarnation: [1; 16],
            renewal: 1,
            advertise: String::new(),
            zone: String::new(),
            is_draining: false,
            is_failing: false,
            lacks_space: false,
            reads: 2,
            key: String::new(),
            version: String::new(),
            wall_ms: 0,
            shards: owned.iter().map(report).collect(),
        }
    }
}

//! Pure: the data formats that members read, and the members for which a newer one waits.
//!
//! A node writes the newest format that it reads, which members of an earlier version cannot
//! follow. So it owns nothing while such a member could own shards, until a shard was written in
//! the newer format.

use std::collections::{BTreeMap, BTreeSet};

use super::NodeRecord;
use crate::name::NodeName;

/// Returns the format of versions that report none.
pub(super) const fn unreported() -> u16 {
    1
}

/// Returns the members for which a writer of this data format waits.
///
/// They could own shards, do not drain, and read only earlier formats. There are none once any
/// shard has this format, because there is no way back then.
pub fn waited_for<'a>(
    nodes: &'a BTreeMap<NodeName, NodeRecord>,
    draining: &'a BTreeSet<NodeName>,
    writes: u16,
) -> impl Iterator<Item = &'a NodeName> {
    let mut reports = nodes.values().flat_map(|record| &record.shards);
    let is_written = reports.any(|report| report.format >= writes);
    let is_older = move |(node, record): &(&NodeName, &NodeRecord)| {
        !is_written && record.reads < writes && record.can_own() && !draining.contains(*node)
    };
    nodes.iter().filter(is_older).map(|(node, _)| node)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(members: &[(&str, NodeRecord)], draining: &[&str], writes: u16) -> Vec<String> {
        let name = |text: &str| NodeName::new(text).unwrap();
        let nodes = members.iter().map(|(node, record)| (name(node), record.clone())).collect();
        let draining = draining.iter().map(|text| name(text)).collect();
        waited_for(&nodes, &draining, writes).map(ToString::to_string).collect()
    }

    #[test]
    fn a_writer_waits_for_each_member_that_could_own_a_shard_and_reads_less() {
        let reads = |reads| NodeRecord { reads, ..NodeRecord::owning(&[]) };
        let members = [("a", reads(3)), ("b", reads(2)), ("c", reads(2))];
        assert_eq!(waits(&members, &[], 3), ["b", "c"]);
        assert_eq!(waits(&members, &[], 2), [""; 0]);
        assert_eq!(waits(&members, &["b"], 3), ["c"], "one that drains will be upgraded");
        assert_eq!(waits(&members, &["b", "c"], 3), [""; 0]);
        let fails = NodeRecord { is_failing: true, ..reads(2) };
        assert_eq!(waits(&[("a", reads(3)), ("b", fails)], &[], 3), [""; 0]);
    }

    #[test]
    fn nobody_waits_once_a_shard_has_the_newer_format() {
        let mut new = NodeRecord { reads: 3, ..NodeRecord::owning(&[0, 1]) };
        new.shards[0].format = 2;
        new.shards[1].format = 2;
        let old = NodeRecord { reads: 2, ..NodeRecord::owning(&[2]) };
        assert_eq!(waits(&[("a", new.clone()), ("b", old.clone())], &[], 3), ["b"]);
        new.shards[1].format = 3;
        assert_eq!(waits(&[("a", new), ("b", old)], &[], 3), [""; 0]);
    }

    #[test]
    fn a_member_that_reports_nothing_reads_what_the_version_before_did() {
        let mut value = serde_json::to_value(NodeRecord::owning(&[0])).unwrap();
        value.as_object_mut().unwrap().remove("reads");
        value["shards"][0].as_object_mut().unwrap().remove("format");
        let record: NodeRecord = serde_json::from_value(value).unwrap();
        assert_eq!((record.reads, record.shards[0].format), (1, 0));
    }
}

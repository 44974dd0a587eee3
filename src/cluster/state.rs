//! The state of the cluster, as a node sees it, and the obstacles to its work.

use std::collections::BTreeMap;

use postrider_cluster::coordination::formats::waited_for;
use postrider_cluster::coordination::{NodeRecord, ShardReport, Standing};
use postrider_cluster::{NodeName, Seen};

use super::door::Shards;
use crate::http::elsewhere::{
    ClusterAnswer, ClusterLogAnswer, ClusterNodeAnswer, ClusterShardAnswer,
};

/// The silence of NATS after which the node is not ready, in milliseconds.
const SILENT_MS_MAX: u64 = 3_000;
/// The apparent clock difference that counts as a problem, in milliseconds.
///
/// A node reports its own clock each second.
const CLOCK_MS_MAX: u64 = 5_000;
const OWNED: &str = "owned";
const STOPPED: &str = "stopped";

/// The view of a node of itself and of the cluster.
pub(super) struct State<'a>(pub(super) &'a Shards);

impl State<'_> {
    /// Returns the obstacles to this node's work: codes with texts.
    pub(super) fn standing_in_the_way(&self) -> Vec<(&'static str, String)> {
        let node = &self.0.node;
        let mut reasons = Vec::new();
        let silent = node.silent_ms();
        if silent > SILENT_MS_MAX {
            reasons.push(("log_unreachable", format!("NATS has not answered for {silent} ms")));
        } else if node.gate().term().is_none() {
            reasons.push(("log_unreachable", "the node is not a member now".to_owned()));
        }
        if node.seen().assignment.is_empty() {
            reasons.push(("no_owner", "no shard has been given to a node yet".to_owned()));
        }
        if node.has_earlier_key() {
            let text = "other nodes have a later master key: start this one with theirs";
            reasons.push(("draining", text.to_owned()));
        } else if node.seen().drains(node.name()) {
            reasons.push(("draining", "the node drains until it is undrained".to_owned()));
        }
        for report in node.reports().iter().filter(|it| it.state == Standing::Stopped) {
            let why = report.reason.as_deref().unwrap_or_default();
            reasons.push(("log_lost", format!("shard {} has stopped: {why}", report.shard)));
        }
        reasons
    }

    /// Returns the state of the cluster, as this node sees it.
    pub(super) fn status(&self) -> ClusterAnswer {
        let node = &self.0.node;
        let (cluster, record) = node.cluster();
        let mut seen = Seen::clone(&node.seen());
        // This node's own report about itself is newer here.
        if let Some(own) = seen.nodes.get_mut(node.name()) {
            own.shards = node.reports();
        }
        let is_reachable = node.silent_ms() <= SILENT_MS_MAX;
        let shards: Vec<_> = (0..record.shards).map(|shard| shard_state(&seen, shard)).collect();
        let now = self.0.answers.clock.wall().as_millis();
        let own = (node.name(), node.gate().left_ms());
        ClusterAnswer {
            cluster: cluster.to_string(),
            id: record.id.clone(),
            shards_total: record.shards,
            ready: shards.iter().all(|shard| shard.state == OWNED),
            log: ClusterLogAnswer {
                backend: "nats",
                version: node.server_version().to_owned(),
                replicas: record.replicas,
                synced: !self.0.engines.settings.cluster.assume_synced,
                reachable: is_reachable,
            },
            nodes: nodes(&seen, own, now),
            problems: [self.own_problems(is_reachable), problems(&seen, &shards, now)].concat(),
            shards,
        }
    }

    fn own_problems(&self, is_reachable: bool) -> Vec<String> {
        let node = &self.0.node;
        let silent = (!is_reachable).then(|| "NATS does not answer this node".to_owned());
        let wrong = (!node.clock_agrees())
            .then(|| "this node claims no shard: its clock is not that of most nodes".to_owned());
        let doubled = self.0.engines.numbers.get().map(|it| it.doubled().clone());
        let doubled = doubled.into_iter().flatten().flat_map(|(shard, numbers)| {
            numbers.into_iter().map(move |number| {
                format!(
                    "another shard has {number} of shard {shard} too, by its phone_number_id: \
                     disconnect it in one of them"
                )
            })
        });
        let keys = node.nodes_with_other_keys().into_iter().map(|name| {
            format!(
                "{name} has another master key than this node: the one with the earlier version is \
                 given no shards, and of equal versions stop one"
            )
        });
        let files = self.0.engines.files.problem().map(ToOwned::to_owned);
        let exposed = self.0.exposure.iter().map(|it| format!("{}: {it}", node.name()));
        let own =
            silent.into_iter().chain(files).chain(node.nats_problem()).chain(wrong).chain(keys);
        own.chain(exposed).chain(doubled).collect()
    }
}

fn count(record: &NodeRecord, state: Standing) -> usize {
    record.shards.iter().filter(|it| it.state == state).count()
}

/// Returns the nodes that are alive, and those that the assignment names.
fn nodes(seen: &Seen, own: (&NodeName, u64), now: u64) -> Vec<ClusterNodeAnswer> {
    let mut nodes: BTreeMap<&NodeName, ClusterNodeAnswer> = BTreeMap::new();
    for placed in &seen.assignment {
        for name in placed.owner.iter().chain(&placed.standbys) {
            nodes.entry(name).or_insert_with(|| unreachable_node(name));
        }
    }
    for (name, record) in &seen.nodes {
        let clock = i128::from(record.wall_ms) - i128::from(now);
        let is_own = name == own.0;
        let clock = if is_own { 0 } else { i64::try_from(clock).unwrap_or(i64::MAX) };
        let answer = ClusterNodeAnswer {
            node: name.to_string(),
            zone: Some(record.zone.clone()),
            advertise: Some(record.advertise.clone()),
            state: if seen.drains(name) { "draining" } else { "ready" },
            version: Some(record.version.clone()),
            owned: count(record, Standing::Owned),
            following: count(record, Standing::Following),
            lease_ms: is_own.then_some(own.1),
            clock_ms: Some(clock),
        };
        nodes.insert(name, answer);
    }
    nodes.into_values().collect()
}

fn unreachable_node(name: &NodeName) -> ClusterNodeAnswer {
    ClusterNodeAnswer {
        node: name.to_string(),
        zone: None,
        advertise: None,
        state: "unreachable",
        version: None,
        owned: 0,
        following: 0,
        lease_ms: None,
        clock_ms: None,
    }
}

fn shard_state(seen: &Seen, shard: u16) -> ClusterShardAnswer {
    let reports: Vec<(&NodeName, &ShardReport)> = seen
        .nodes
        .iter()
        .flat_map(|(name, record)| record.shards.iter().map(move |report| (name, report)))
        .filter(|(_, report)| report.shard == shard)
        .collect();
    let of = |state| reports.iter().find(|(_, report)| report.state == state);
    let owner = seen.owner(shard);
    let stopped = of(Standing::Stopped);
    let state = match (owner, stopped, of(Standing::Claiming)) {
        (Some(_), ..) => OWNED,
        (None, Some(_), _) => STOPPED,
        (None, None, Some(_)) => "claiming",
        (None, None, None) => "unowned",
    };
    let newest = reports.iter().max_by_key(|(_, it)| (it.epoch, it.position)).map(|(_, it)| *it);
    let report = owner.map(|(_, _, report)| report).or(newest);
    let applied = reports.iter().map(|(name, report)| (name.to_string(), report.position));
    let placed = seen.assignment.get(usize::from(shard));
    let standbys = placed.map_or(&[][..], |placed| &placed.standbys);
    ClusterShardAnswer {
        shard,
        state,
        owner: owner.map(|(name, ..)| name.to_string()),
        standbys: standbys.iter().map(ToString::to_string).collect(),
        epoch: report.map(|it| it.epoch),
        position: report.map(|it| it.position),
        applied: applied.collect(),
        checkpoint_position: reports.iter().filter_map(|(_, it)| it.checkpoint).max(),
        reason: stopped
            .or_else(|| of(Standing::Claiming))
            .filter(|_| owner.is_none())
            .and_then(|(_, it)| it.reason.clone()),
    }
}

fn problems(seen: &Seen, shards: &[ClusterShardAnswer], now: u64) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, record) in &seen.nodes {
        let older: Vec<_> = waited_for(&seen.nodes, &seen.draining, record.reads)
            .map(ToString::to_string)
            .collect();
        if !older.is_empty() && record.can_own() && !seen.drains(name) {
            let older = older.join(", ");
            problems.push(format!(
                "{name} is given no shards: what it writes cannot be read by {older}; upgrade or \
                 drain those"
            ));
        }
    }
    for shard in shards.iter().filter(|shard| shard.state != OWNED) {
        let ClusterShardAnswer { shard: number, state, reason, .. } = shard;
        let help = match *state {
            STOPPED => {
                format!(": `postrider cluster repair --shard {number}` says what can be kept")
            }
            _ => reason.as_ref().map_or_else(String::new, |why| format!(": {why}")),
        };
        problems.push(format!("shard {number} is {state}{help}"));
    }
    for (name, record) in &seen.nodes {
        let lags = record.shards.iter().filter(|it| it.state == Standing::Following);
        problems.extend(lags.filter_map(|report| {
            let why = report.reason.as_ref()?;
            Some(format!("{name} cannot take over shard {}: {why}", report.shard))
        }));
        let off = record.wall_ms.abs_diff(now);
        if off > CLOCK_MS_MAX {
            problems.push(format!("the clock of {name} differs by {off} ms"));
        }
        if record.is_failing {
            problems.push(format!("the disk of {name} is full or fails: others own its shards"));
        }
    }
    problems
}

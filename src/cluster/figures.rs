//! The metrics of a node of a cluster, and those of its engines, distinguished by their shard.

mod recorder;

use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Gauge, Key, Label, Level, Metadata, Recorder};
use postrider_actors::SharedRecorder;
use postrider_cluster::Counts;
use postrider_cluster::coordination::{ShardReport, Standing};
use postrider_cluster::log::SETTLED;

pub(super) use self::recorder::ShardRecorder;

use super::door::Shards;

const METADATA: Metadata<'static> =
    Metadata::new(module_path!(), Level::INFO, Some(module_path!()));
const SAMPLED_EVERY: Duration = Duration::from_secs(1);
/// The silence after which NATS no longer counts as connected, in milliseconds.
const SILENT_MS_MAX: u64 = 3_000;

fn counter(recorder: &dyn Recorder, name: &'static str, what: &'static str) -> Counter {
    recorder.describe_counter(name.into(), None, what.into());
    recorder.register_counter(&Key::from_static_name(name), &METADATA)
}

fn gauge(recorder: &dyn Recorder, name: &'static str, what: &'static str) -> Gauge {
    recorder.describe_gauge(name.into(), None, what.into());
    recorder.register_gauge(&Key::from_static_name(name), &METADATA)
}

/// The counts of requests that are forwarded to another node or wait for an owner.
pub(super) struct Traffic {
    /// The counters of requests that were answered, not taken, or left without an answer.
    forwarded: [Counter; 3],
    held: Gauge,
    pub(super) no_owner: Counter,
}

/// A request that waits.
pub(super) struct Held(Gauge);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

impl Traffic {
    pub(super) fn register(recorder: &dyn Recorder) -> Self {
        const FORWARDED: &str = "postrider_cluster_forwarded_total";
        let what = "Requests sent on to the node that owns their shard, by what became of that";
        recorder.describe_counter(FORWARDED.into(), None, what.into());
        let forwarded = ["answered", "not_taken", "unknown"].map(|result| {
            let key = Key::from_parts(FORWARDED, vec![Label::new("result", result)]);
            recorder.register_counter(&key, &METADATA)
        });
        let held = "Requests that wait for an owner of their shard";
        let held = gauge(recorder, "postrider_cluster_held_requests", held);
        // The gauge is shown before the first request waits.
        held.set(0.0);
        let no_owner = "Requests that were refused because nobody owned their shard";
        let no_owner = counter(recorder, "postrider_cluster_no_owner_total", no_owner);
        Self { forwarded, held, no_owner }
    }

    /// Counts a forwarded request by the place of its outcome in the list of results.
    pub(super) fn forwarded(&self, result: usize) {
        if let Some(counter) = self.forwarded.get(result) {
            counter.increment(1);
        }
    }

    /// Counts a request that waits until the result is dropped.
    pub(super) fn hold(&self) -> Held {
        self.held.increment(1.0);
        Held(self.held.clone())
    }
}

/// The label values of a shard's state, in this order.
const STATES: [(Standing, &str); 4] = [
    (Standing::Owned, "owned"),
    (Standing::Claiming, "claiming"),
    (Standing::Following, "following"),
    (Standing::Stopped, "stopped"),
];

/// The figures of one shard on this node.
struct ShardFigures {
    states: [Gauge; STATES.len()],
    epoch: Gauge,
    lag: Gauge,
    apply_lag: Gauge,
}

impl ShardFigures {
    const STATE: &str = "postrider_cluster_shard_state";
    const EPOCH: &str = "postrider_cluster_epoch";
    const LAG: &str = "postrider_cluster_follow_lag_entries";
    const APPLY_LAG: &str = "postrider_cluster_apply_lag_seconds";

    fn describe(recorder: &dyn Recorder) {
        for (name, what) in [
            (Self::STATE, "1 for the state that a shard has on this node, and 0 for the others"),
            (Self::EPOCH, "The number of a shard's owners so far, as far as this node has read"),
            (Self::LAG, "Entries of a shard's log that its owner has and this node has not read"),
            (
                Self::APPLY_LAG,
                "For how long the records of a shard that this node stands by for lack entries",
            ),
        ] {
            recorder.describe_gauge(name.into(), None, what.into());
        }
    }

    fn register(recorder: &dyn Recorder, shard: u16) -> Self {
        let label = || Label::new("shard", shard.to_string());
        let gauge = |name: &'static str, labels| {
            recorder.register_gauge(&Key::from_parts(name, labels), &METADATA)
        };
        Self {
            states: STATES
                .map(|(_, state)| gauge(Self::STATE, vec![label(), Label::new("state", state)])),
            epoch: gauge(Self::EPOCH, vec![label()]),
            lag: gauge(Self::LAG, vec![label()]),
            apply_lag: gauge(Self::APPLY_LAG, vec![label()]),
        }
    }

    fn set(
        &self,
        report: Option<&ShardReport>,
        owner: Option<&ShardReport>,
        apply_lag_ms: Option<u64>,
    ) {
        for (gauge, (state, _)) in self.states.iter().zip(STATES) {
            gauge.set(f64::from(u8::from(report.is_some_and(|it| it.state == state))));
        }
        self.epoch.set(report.map_or(f64::NAN, |it| it.epoch as f64));
        let lag = report.zip(owner);
        let lag = lag.map(|(report, owner)| owner.position.saturating_sub(report.position));
        self.lag.set(lag.map_or(f64::NAN, |lag| lag as f64));
        self.apply_lag.set(apply_lag_ms.map_or(f64::NAN, |lag| lag as f64 / 1000.0));
    }
}

/// The counts of events of the node's shards, and of the outcomes of its appends.
struct CountFigures {
    claims: Counter,
    failovers: Counter,
    fenced: Counter,
    lost: Counter,
    entries: Counter,
    bytes: Counter,
    retries: Counter,
    settled: [Counter; SETTLED.len()],
}

impl CountFigures {
    const SETTLED: &str = "postrider_cluster_settled_total";

    fn register(recorder: &dyn Recorder) -> Self {
        let counter = |name, what| counter(recorder, name, what);
        let what = "Appends that were not acknowledged at once, by what became of them";
        recorder.describe_counter(Self::SETTLED.into(), None, what.into());
        Self {
            claims: counter(
                "postrider_cluster_claims_total",
                "Times that this node began to own a shard",
            ),
            failovers: counter(
                "postrider_cluster_failovers_total",
                "Those of them that another node owned before and had not handed over",
            ),
            fenced: counter(
                "postrider_cluster_fenced_total",
                "Times that this node found at a write that another one had replaced it",
            ),
            lost: counter(
                "postrider_cluster_log_lost_total",
                "Shards that stopped because their log had lost something or was damaged",
            ),
            entries: counter("postrider_cluster_entries_total", "Entries appended to logs"),
            bytes: counter(
                "postrider_cluster_entry_bytes_total",
                "Bytes of the entries appended to logs",
            ),
            retries: counter(
                "postrider_cluster_append_retries_total",
                "Publishes of an entry that had been published before",
            ),
            settled: SETTLED.map(|outcome| {
                let key = Key::from_parts(Self::SETTLED, vec![Label::new("outcome", outcome)]);
                recorder.register_counter(&key, &METADATA)
            }),
        }
    }

    fn set(&self, counts: &Counts) {
        self.claims.absolute(counts.claims);
        self.failovers.absolute(counts.failovers);
        self.fenced.absolute(counts.fenced);
        self.lost.absolute(counts.lost);
        self.entries.absolute(counts.appends.entries);
        self.bytes.absolute(counts.appends.bytes);
        self.retries.absolute(counts.appends.retries);
        let settled = self.settled.iter().zip(counts.appends.settled);
        settled.for_each(|(counter, count)| counter.absolute(count));
    }
}

/// The figures of the node.
struct NodeFigures {
    margin: Gauge,
    clock: Gauge,
    connected: Gauge,
    doubled: Gauge,
    counts: CountFigures,
    shards: Vec<ShardFigures>,
}

impl NodeFigures {
    fn register(recorder: &dyn Recorder, shards: u16, log_bytes_max: i64) -> Self {
        ShardFigures::describe(recorder);
        let what = "Most bytes that the log of a shard takes (cluster.stream_bytes_max)";
        let bytes_max = gauge(recorder, "postrider_cluster_log_bytes_max", what);
        bytes_max.set(log_bytes_max as f64);
        Self {
            margin: gauge(
                recorder,
                "postrider_cluster_lease_margin_seconds",
                "For how much longer this node may answer as an owner without a renewal",
            ),
            clock: gauge(
                recorder,
                "postrider_cluster_clock_difference_seconds",
                "How far the wall clock of the node that differs most is from this node's",
            ),
            connected: gauge(
                recorder,
                "postrider_cluster_nats_connected",
                "1 while NATS answers this node",
            ),
            doubled: gauge(
                recorder,
                "postrider_cluster_numbers_doubled",
                "Numbers of providers in this node's shards that another shard has too",
            ),
            counts: CountFigures::register(recorder),
            shards: (0..shards).map(|shard| ShardFigures::register(recorder, shard)).collect(),
        }
    }

    fn sample(&self, shards: &Shards) {
        let node = &shards.node;
        self.margin.set(node.gate().left_ms() as f64 / 1000.0);
        self.clock.set(node.clock_difference_ms() as f64 / 1000.0);
        self.connected.set(f64::from(u8::from(node.silent_ms() <= SILENT_MS_MAX)));
        let doubled = shards.engines.numbers.get();
        let doubled = doubled.map_or(0, |it| it.doubled().values().map(Vec::len).sum());
        self.doubled.set(doubled as f64);
        self.counts.set(&node.counts());
        let (reports, seen, lags) = (node.reports(), node.seen(), node.apply_lags());
        for ((shard, figures), lag) in (0..).zip(&self.shards).zip(lags) {
            let report = reports.iter().find(|it| it.shard == shard);
            figures.set(report, seen.owner(shard).map(|(.., owner)| owner), lag);
        }
    }
}

/// Samples the figures of the node. Never returns.
pub(super) async fn sample(shards: Arc<Shards>, recorder: SharedRecorder) {
    let (_, record) = shards.node.cluster();
    let bytes_max = record.stream_bytes_max;
    let figures = NodeFigures::register(recorder.as_ref(), record.shards, bytes_max);
    let shards = Arc::downgrade(&shards);
    while let Some(shards) = shards.upgrade() {
        figures.sample(&shards);
        drop(shards);
        tokio::time::sleep(SAMPLED_EVERY).await;
    }
}

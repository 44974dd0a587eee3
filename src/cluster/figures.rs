//! The metrics of a node of a cluster, and those of its engines, told apart by their shard.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Label, Level, Metadata, Recorder,
    SharedString, Unit,
};
use postrider_actors::SharedRecorder;
use postrider_cluster::coordination::{ShardReport, Standing};

use super::door::Shards;

const METADATA: Metadata<'static> =
    Metadata::new(module_path!(), Level::INFO, Some(module_path!()));
const SAMPLED_EVERY: Duration = Duration::from_secs(1);
/// For how long NATS may be silent while it counts as connected, in milliseconds.
const SILENT_MS_MAX: u64 = 3_000;

/// Where the engine of a shard registers its figures: those of the node, with the shard as a label.
///
/// Counters go on when the shard comes back, and gauges are not a number while it is elsewhere.
#[derive(Clone)]
pub(super) struct ShardRecorder {
    inner: SharedRecorder,
    shard: Label,
    is_over: Arc<AtomicBool>,
    gauges: Arc<Mutex<Vec<Gauge>>>,
}

impl ShardRecorder {
    pub(super) fn new(inner: SharedRecorder, shard: u16) -> Self {
        let shard = Label::new("shard", shard.to_string());
        Self { inner, shard, is_over: Arc::default(), gauges: Arc::default() }
    }

    /// The engine is no more.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.gauges(|gauges| gauges.drain(..).for_each(|gauge| gauge.set(f64::NAN)));
    }

    fn gauges(&self, change: impl FnOnce(&mut Vec<Gauge>)) {
        // Nobody panics while holding it.
        change(&mut self.gauges.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn of_shard(&self, key: &Key) -> Key {
        key.with_extra_labels(vec![self.shard.clone()])
    }
}

impl Recorder for ShardRecorder {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, what: SharedString) {
        self.inner.describe_counter(key, unit, what);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, what: SharedString) {
        self.inner.describe_gauge(key, unit, what);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, what: SharedString) {
        self.inner.describe_histogram(key, unit, what);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        let counter = self.inner.register_counter(&self.of_shard(key), metadata);
        Counter::from_arc(Arc::new(OfEngine { counter, last: AtomicU64::new(0) }))
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        let gauge = self.inner.register_gauge(&self.of_shard(key), metadata);
        self.gauges(|gauges| gauges.push(gauge.clone()));
        Gauge::from_arc(Arc::new(WhileOwned { gauge, is_over: Arc::clone(&self.is_over) }))
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        self.inner.register_histogram(&self.of_shard(key), metadata)
    }
}

/// A counter to which an engine adds, which begins at 0 with each engine.
struct OfEngine {
    counter: Counter,
    last: AtomicU64,
}

impl CounterFn for OfEngine {
    fn increment(&self, value: u64) {
        self.counter.increment(value);
    }

    fn absolute(&self, value: u64) {
        let last = self.last.fetch_max(value, Ordering::AcqRel);
        self.counter.increment(value.saturating_sub(last));
    }
}

/// A gauge that an engine sets while it runs.
struct WhileOwned {
    gauge: Gauge,
    is_over: Arc<AtomicBool>,
}

impl WhileOwned {
    fn gauge(&self) -> Option<&Gauge> {
        (!self.is_over.load(Ordering::Acquire)).then_some(&self.gauge)
    }
}

impl GaugeFn for WhileOwned {
    fn increment(&self, value: f64) {
        self.gauge().inspect(|gauge| gauge.increment(value));
    }

    fn decrement(&self, value: f64) {
        self.gauge().inspect(|gauge| gauge.decrement(value));
    }

    fn set(&self, value: f64) {
        self.gauge().inspect(|gauge| gauge.set(value));
    }
}

fn counter(recorder: &dyn Recorder, name: &'static str, what: &'static str) -> Counter {
    recorder.describe_counter(name.into(), None, what.into());
    recorder.register_counter(&Key::from_static_name(name), &METADATA)
}

fn gauge(recorder: &dyn Recorder, name: &'static str, what: &'static str) -> Gauge {
    recorder.describe_gauge(name.into(), None, what.into());
    recorder.register_gauge(&Key::from_static_name(name), &METADATA)
}

/// Requests on their way to another node, or that wait for an owner.
pub(super) struct Traffic {
    /// Answered; not taken; without an answer.
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
        // It is shown before the first one.
        held.set(0.0);
        let no_owner = "Requests that were refused because nobody owned their shard";
        let no_owner = counter(recorder, "postrider_cluster_no_owner_total", no_owner);
        Self { forwarded, held, no_owner }
    }

    /// Counts what became of sending on, by its place in the list of results.
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

/// What the labels of a shard's state say, in this order.
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
}

impl ShardFigures {
    const STATE: &str = "postrider_cluster_shard_state";
    const EPOCH: &str = "postrider_cluster_epoch";
    const LAG: &str = "postrider_cluster_follow_lag_entries";

    fn describe(recorder: &dyn Recorder) {
        for (name, what) in [
            (Self::STATE, "1 for the state that a shard has on this node, and 0 for the others"),
            (Self::EPOCH, "The number of a shard's owners so far, as far as this node has read"),
            (Self::LAG, "Entries of a shard's log that its owner has and this node has not read"),
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
        }
    }

    fn set(&self, report: Option<&ShardReport>, owner: Option<&ShardReport>) {
        for (gauge, (state, _)) in self.states.iter().zip(STATES) {
            gauge.set(f64::from(u8::from(report.is_some_and(|it| it.state == state))));
        }
        self.epoch.set(report.map_or(f64::NAN, |it| it.epoch as f64));
        let lag = report.zip(owner);
        let lag = lag.map(|(report, owner)| owner.position.saturating_sub(report.position));
        self.lag.set(lag.map_or(f64::NAN, |lag| lag as f64));
    }
}

/// The figures of the node.
struct NodeFigures {
    margin: Gauge,
    clock: Gauge,
    connected: Gauge,
    claims: Counter,
    fenced: Counter,
    lost: Counter,
    shards: Vec<ShardFigures>,
}

impl NodeFigures {
    fn register(recorder: &dyn Recorder, shards: u16) -> Self {
        ShardFigures::describe(recorder);
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
            claims: counter(
                recorder,
                "postrider_cluster_claims_total",
                "Times that this node began to own a shard",
            ),
            fenced: counter(
                recorder,
                "postrider_cluster_fenced_total",
                "Times that this node found at a write that another one had replaced it",
            ),
            lost: counter(
                recorder,
                "postrider_cluster_log_lost_total",
                "Shards that stopped because their log had lost something or was damaged",
            ),
            shards: (0..shards).map(|shard| ShardFigures::register(recorder, shard)).collect(),
        }
    }

    fn sample(&self, shards: &Shards) {
        let node = &shards.node;
        self.margin.set(node.gate().left_ms() as f64 / 1000.0);
        self.clock.set(node.clock_difference_ms() as f64 / 1000.0);
        self.connected.set(f64::from(u8::from(node.silent_ms() <= SILENT_MS_MAX)));
        let counts = node.counts();
        self.claims.absolute(counts.claims);
        self.fenced.absolute(counts.fenced);
        self.lost.absolute(counts.lost);
        let (reports, seen) = (node.reports(), node.seen());
        for (shard, figures) in (0..).zip(&self.shards) {
            let report = reports.iter().find(|it| it.shard == shard);
            figures.set(report, seen.owner(shard).map(|(.., owner)| owner));
        }
    }
}

/// Samples the figures of the node. Never returns.
pub(super) async fn sample(shards: Arc<Shards>, recorder: SharedRecorder) {
    let figures = NodeFigures::register(recorder.as_ref(), shards.node.cluster().1.shards);
    let shards = Arc::downgrade(&shards);
    while let Some(shards) = shards.upgrade() {
        figures.sample(&shards);
        drop(shards);
        tokio::time::sleep(SAMPLED_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn a_shard_that_comes_back_counts_on_and_one_that_is_gone_shows_nothing() {
        let metrics = Metrics::new().unwrap();
        let shown = |line: &str| metrics.render().lines().any(|it| it == line);
        let engine = || {
            let recorder = ShardRecorder::new(metrics.recorder(), 3);
            let counter = recorder.register_counter(&Key::from_static_name("sent"), &METADATA);
            let gauge = recorder.register_gauge(&Key::from_static_name("free"), &METADATA);
            (recorder, counter, gauge)
        };
        let (first, sent, free) = engine();
        sent.absolute(5);
        sent.absolute(7);
        free.set(1.5);
        assert!(shown("sent{shard=\"3\"} 7") && shown("free{shard=\"3\"} 1.5"));
        first.end();
        // Its last sample may come afterwards.
        free.set(2.5);
        assert!(shown("free{shard=\"3\"} NaN"), "{}", metrics.render());
        let (_second, sent, free) = engine();
        sent.absolute(2);
        free.set(3.5);
        assert!(shown("sent{shard=\"3\"} 9") && shown("free{shard=\"3\"} 3.5"));
    }
}

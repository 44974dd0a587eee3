//! The recorder that registers a shard's figures with those of the node.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Label, Metadata, Recorder,
    SharedString, Unit,
};
use postrider_actors::SharedRecorder;

/// The recorder for a shard's engine: the figures of the node, with the shard as a label.
///
/// Counters continue when the shard comes back. Gauges are NaN while it is elsewhere.
#[derive(Clone)]
pub(in crate::cluster) struct ShardRecorder {
    inner: SharedRecorder,
    shard: Label,
    is_over: Arc<AtomicBool>,
    gauges: Arc<Mutex<Vec<Gauge>>>,
}

impl ShardRecorder {
    pub(in crate::cluster) fn new(inner: SharedRecorder, shard: u16) -> Self {
        let shard = Label::new("shard", shard.to_string());
        Self { inner, shard, is_over: Arc::default(), gauges: Arc::default() }
    }

    /// Ends the recording, because the engine is gone.
    pub(in crate::cluster) fn end(&self) {
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

/// A counter for an engine whose own count starts at 0 with each start.
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

#[cfg(test)]
mod tests {
    use super::super::METADATA;
    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn a_shard_that_comes_back_counts_on_and_one_that_is_removed_shows_nothing() {
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

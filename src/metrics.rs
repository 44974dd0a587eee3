//! Records the metrics of one server, so that several servers can run in one process.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::StatusCode;
use metrics::{Counter, Histogram, Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{
    BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};

/// The interval of folding histogram samples into buckets. Until then each sample takes memory.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// The time until the next channel of a code has its turn: seconds, not milliseconds.
const FAILOVER: &str = "postrider_otp_failover_seconds";
const FAILOVER_BUCKETS: [f64; 8] = [0.1, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// The upper bounds of the histograms' buckets, in seconds.
const BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 30.0];

/// The status classes that have counters of their own.
const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

/// The gauges whose series come and go; a series that is NaN has ended.
const ENDING: [&str; 2] = ["postrider_number_pace{", "postrider_portfolio_used{"];

/// The metadata of every metric.
pub(crate) const METADATA: Metadata<'static> =
    Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// The metrics of one server.
#[derive(Clone)]
pub struct Metrics {
    recorder: Arc<PrometheusRecorder>,
    handle: PrometheusHandle,
}

impl Metrics {
    /// Makes an empty recorder.
    ///
    /// # Errors
    /// The builder of the recorder refuses an empty list of buckets; ours is not empty.
    pub fn new() -> Result<Self, BuildError> {
        let recorder = PrometheusBuilder::new()
            .set_buckets(&BUCKETS)?
            .set_buckets_for_metric(Matcher::Full(FAILOVER.to_owned()), &FAILOVER_BUCKETS)?
            .build_recorder();
        recorder.describe_counter(
            "postrider_http_requests_total".into(),
            None,
            "Requests answered, by route, method and class of status".into(),
        );
        recorder.describe_histogram(
            "postrider_http_request_duration_seconds".into(),
            None,
            "From a request's head to its answer".into(),
        );
        let handle = recorder.handle();
        Ok(Self { recorder: Arc::new(recorder), handle })
    }

    /// Returns the recorder in which the engine registers its own metrics.
    #[must_use]
    pub fn recorder(&self) -> Arc<dyn Recorder + Send + Sync> {
        self.recorder.clone()
    }

    /// Returns all metrics in the text format of Prometheus, without series that have ended.
    #[must_use]
    pub fn render(&self) -> String {
        let has_ended = |line: &str| {
            line.trim_end().ends_with(" NaN") && ENDING.iter().any(|name| line.starts_with(name))
        };
        let text = self.handle.render();
        text.split_inclusive('\n').filter(|line| !has_ended(line)).collect()
    }

    /// Folds histogram samples into their buckets periodically. Never returns.
    pub async fn upkeep(&self) {
        let mut every = tokio::time::interval(UPKEEP_EVERY);
        loop {
            every.tick().await;
            self.handle.run_upkeep();
        }
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

/// Counts the requests of one route and method.
///
/// It belongs to one router, and so to one [`Metrics`].
///
/// A counter is registered at the first request that it counts: a route that is never called takes
/// no memory, and later requests look nothing up.
#[derive(Clone)]
pub(crate) struct RouteMeter {
    inner: Arc<RouteCounters>,
}

struct RouteCounters {
    route: String,
    method: &'static str,
    /// By class of status, in the order of [`CLASSES`].
    answered: [OnceLock<Counter>; CLASSES.len()],
    took: OnceLock<Histogram>,
}

impl RouteCounters {
    fn labels(&self) -> Vec<Label> {
        vec![Label::new("route", self.route.clone()), Label::new("method", self.method)]
    }

    #[cold]
    fn counter(&self, metrics: &Metrics, class: &'static str) -> Counter {
        let mut labels = self.labels();
        labels.push(Label::new("status", class));
        let key = Key::from_parts("postrider_http_requests_total", labels);
        metrics.recorder.register_counter(&key, &METADATA)
    }

    #[cold]
    fn histogram(&self, metrics: &Metrics) -> Histogram {
        let key = Key::from_parts("postrider_http_request_duration_seconds", self.labels());
        metrics.recorder.register_histogram(&key, &METADATA)
    }
}

impl RouteMeter {
    /// Makes a meter for `method` on the path template `route`.
    pub(crate) fn new(route: &str, method: &'static str) -> Self {
        let (answered, took) = Default::default();
        Self { inner: Arc::new(RouteCounters { route: route.to_owned(), method, answered, took }) }
    }

    /// Returns whether this is the same meter.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Returns the route's path template.
    pub(crate) fn route(&self) -> &str {
        &self.inner.route
    }

    /// Returns the route's method.
    pub(crate) fn method(&self) -> &'static str {
        self.inner.method
    }

    /// Counts an answered request.
    pub(crate) fn record(&self, metrics: &Metrics, status: StatusCode, took: Duration) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(2);
        let inner = &*self.inner;
        if let (Some(counter), Some(class)) = (inner.answered.get(class), CLASSES.get(class)) {
            counter.get_or_init(|| inner.counter(metrics, class)).increment(1);
        }
        inner.took.get_or_init(|| inner.histogram(metrics)).record(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_that_has_ended_is_not_shown() {
        let metrics = Metrics::new().unwrap();
        let gauge = |name: &'static str, label| {
            let key = Key::from_parts(name, vec![Label::new("number", label)]);
            metrics.recorder().register_gauge(&key, &METADATA)
        };
        let ends = gauge("postrider_number_pace", "one");
        ends.set(3.0);
        gauge("postrider_number_pace", "two").set(80.0);
        gauge("postrider_other", "one").set(f64::NAN);
        assert!(metrics.render().contains("postrider_number_pace{number=\"one\"} 3\n"));
        ends.set(f64::NAN);
        let text = metrics.render();
        assert!(!text.contains("postrider_number_pace{number=\"one\"}"), "{text}");
        assert!(text.contains("postrider_number_pace{number=\"two\"} 80\n"), "{text}");
        assert!(text.contains("postrider_other{number=\"one\"} NaN\n"), "{text}");
    }

    #[test]
    fn a_route_counts_by_class() {
        let metrics = Metrics::new().unwrap();
        let meter = RouteMeter::new("/v1/otp/send", "POST");
        meter.record(&metrics, StatusCode::OK, Duration::from_millis(3));
        meter.record(&metrics, StatusCode::OK, Duration::from_millis(3));
        meter.record(&metrics, StatusCode::TOO_MANY_REQUESTS, Duration::from_millis(3));
        let text = metrics.render();
        let has = |line: &str| assert!(text.contains(line), "{text}");
        let labels = "route=\"/v1/otp/send\",method=\"POST\"";
        has(&format!("postrider_http_requests_total{{{labels},status=\"2xx\"}} 2"));
        has(&format!("postrider_http_requests_total{{{labels},status=\"4xx\"}} 1"));
        has(&format!("postrider_http_request_duration_seconds_count{{{labels}}} 3"));
        assert!(!text.contains("status=\"5xx\""), "{text}");
        let _unused = RouteMeter::new("/v1/never-asked", "GET");
        assert!(!metrics.render().contains("never-asked"));
        assert!(Metrics::new().unwrap().render().lines().all(|line| line.starts_with('#')));
    }
}

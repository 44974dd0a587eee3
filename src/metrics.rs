//! Metrics: a recorder of this server's own, so that many servers can run in one process.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::StatusCode;
use metrics::{Counter, Histogram, Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{
    BuildError, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};

/// How often the samples of histograms are folded into their buckets: they take memory until then.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Upper bounds of the histograms' buckets, in seconds.
const BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 30.0];

/// Classes of statuses that are counted apart.
const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

const METADATA: Metadata<'static> =
    Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// The metrics of one server.
#[derive(Clone)]
pub struct Metrics {
    recorder: Arc<PrometheusRecorder>,
    handle: PrometheusHandle,
}

impl Metrics {
    /// A recorder with nothing in it.
    ///
    /// # Errors
    /// Never with the buckets above; the recorder's builder has other ways to fail.
    pub fn new() -> Result<Self, BuildError> {
        let recorder = PrometheusBuilder::new().set_buckets(&BUCKETS)?.build_recorder();
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

    /// Where the engine registers its own.
    #[must_use]
    pub fn recorder(&self) -> Arc<dyn Recorder + Send + Sync> {
        self.recorder.clone()
    }

    /// Everything in the text format of Prometheus.
    #[must_use]
    pub fn render(&self) -> String {
        self.handle.render()
    }

    /// Folds samples into their buckets, again and again; never returns.
    pub async fn upkeep(&self) {
        let mut every = tokio::time::interval(UPKEEP_EVERY);
        loop {
            every.tick().await;
            self.handle.run_upkeep();
        }
    }

    /// The meter of a route. What it counts is registered when it is first needed, so that routes that
    /// nobody asks for take no room; after that a request looks nothing up.
    pub(crate) fn route(&self, route: &'static str, method: &'static str) -> RouteMeter {
        let recorder = Arc::clone(&self.recorder);
        let (answered, took) = Default::default();
        RouteMeter { inner: Arc::new(Inner { route, method, recorder, answered, took }) }
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

/// Counts the requests of one route and method.
#[derive(Clone)]
pub(crate) struct RouteMeter {
    inner: Arc<Inner>,
}

struct Inner {
    route: &'static str,
    method: &'static str,
    recorder: Arc<PrometheusRecorder>,
    /// By class of status, in the order of [`CLASSES`].
    answered: [OnceLock<Counter>; CLASSES.len()],
    took: OnceLock<Histogram>,
}

impl Inner {
    fn labels(&self) -> Vec<Label> {
        vec![Label::new("route", self.route), Label::new("method", self.method)]
    }

    #[cold]
    fn counter(&self, class: &'static str) -> Counter {
        let mut labels = self.labels();
        labels.push(Label::new("status", class));
        let key = Key::from_parts("postrider_http_requests_total", labels);
        self.recorder.register_counter(&key, &METADATA)
    }

    #[cold]
    fn histogram(&self) -> Histogram {
        let key = Key::from_parts("postrider_http_request_duration_seconds", self.labels());
        self.recorder.register_histogram(&key, &METADATA)
    }
}

impl RouteMeter {
    /// The route's template.
    pub(crate) fn route(&self) -> &'static str {
        self.inner.route
    }

    /// The route's method.
    pub(crate) fn method(&self) -> &'static str {
        self.inner.method
    }

    /// Counts a request that was answered.
    pub(crate) fn record(&self, status: StatusCode, took: Duration) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(2);
        let inner = &*self.inner;
        if let (Some(counter), Some(class)) = (inner.answered.get(class), CLASSES.get(class)) {
            counter.get_or_init(|| inner.counter(class)).increment(1);
        }
        inner.took.get_or_init(|| inner.histogram()).record(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_counts_by_class() {
        let metrics = Metrics::new().unwrap();
        let meter = metrics.route("/v1/otp/send", "POST");
        meter.record(StatusCode::OK, Duration::from_millis(3));
        meter.record(StatusCode::OK, Duration::from_millis(3));
        meter.record(StatusCode::TOO_MANY_REQUESTS, Duration::from_millis(3));
        let text = metrics.render();
        let has = |line: &str| assert!(text.contains(line), "{text}");
        let labels = "route=\"/v1/otp/send\",method=\"POST\"";
        has(&format!("postrider_http_requests_total{{{labels},status=\"2xx\"}} 2"));
        has(&format!("postrider_http_requests_total{{{labels},status=\"4xx\"}} 1"));
        has(&format!("postrider_http_request_duration_seconds_count{{{labels}}} 3"));
        assert!(!text.contains("status=\"5xx\""), "{text}");
        metrics.route("/v1/never-asked", "GET");
        assert!(!metrics.render().contains("never-asked"));
        assert!(Metrics::new().unwrap().render().lines().all(|line| line.starts_with('#')));
    }
}

//! Sends the spans of traced requests to a collector, by OTLP over HTTP.
//!
//! It owns the spans from the moment they finish. The spans delay no request: one task sends them
//! in batches, and counts and drops a batch that the collector does not take. A stop waits for the
//! last batch only for a moment.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use metrics::{Counter, Key, Label};
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use postrider_actors::Traces;
use postrider_actors::clock::{Clock, Stopwatch};
use postrider_actors::trace::{Attribute, FinishedSpan, SpanKind as Kind};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::boot::BootError;
use crate::metrics::{METADATA, Metrics};
use crate::settings::TracesSettings;

/// The maximum number of spans per request to the collector.
const BATCH_MAX: usize = 512;
/// The time that finished spans are collected before they are sent.
const EVERY: Duration = Duration::from_secs(1);
/// The maximum wait for the collector.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum time that a stop waits for the last batch.
const FINISH: Duration = Duration::from_secs(2);
/// The minimum time between two log lines about a collector that does not take spans.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// The task that sends spans. Dropping it ends the task at once.
pub(crate) struct Exporter {
    finish: oneshot::Sender<()>,
    sending: JoinHandle<()>,
}

impl Exporter {
    /// Starts the task, if the settings name a collector. The metrics are registered in any case.
    ///
    /// # Errors
    /// [`BootError::Traces`]: no exporter can be made from the settings.
    pub(crate) fn start(
        settings: &TracesSettings,
        clock: &Clock,
        metrics: &Metrics,
    ) -> Result<(Traces, Option<Self>), BootError> {
        let counts = SpanCounts::register(metrics);
        let Some(endpoint) = &settings.endpoint else { return Ok((Traces::default(), None)) };
        let exporter = exporter(endpoint).map_err(BootError::Traces)?;
        let ratio = match settings.sample_one_in {
            0 => 0.0,
            one_in => 1.0 / f64::from(one_in),
        };
        let (traces, spans) = Traces::new(clock, ratio);
        let (finish, finished) = oneshot::channel();
        let batches = Batches { exporter, counts, complained: None };
        let sending = tokio::spawn(batches.send_all(spans, traces.clone(), finished));
        Ok((traces, Some(Self { finish, sending })))
    }

    /// Sends the spans that have finished until now, and ends.
    pub(crate) async fn finish(self) {
        let Self { finish, mut sending } = self;
        // The task ends by itself only when every span's sender was dropped.
        if finish.send(()).is_ok() && tokio::time::timeout(FINISH, &mut sending).await.is_err() {
            tracing::warn!("the last spans were not taken by the collector in time");
        }
        sending.abort();
    }
}

fn exporter(endpoint: &str) -> Result<SpanExporter, String> {
    // reqwest needs a crypto provider even for plain HTTP. An already installed provider is used
    // instead.
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = reqwest::Client::builder().timeout(TIMEOUT).no_proxy().build();
    let client = client.map_err(|error| error.to_string())?;
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(endpoint)
        .with_timeout(TIMEOUT)
        .build();
    let mut exporter = exporter.map_err(|error| error.to_string())?;
    // `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` add to it, as everywhere.
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let named = std::env::var_os("OTEL_SERVICE_NAME").is_some();
    let resource = Resource::builder().with_attribute(version);
    let resource = if named { resource } else { resource.with_service_name("postrider") };
    exporter.set_resource(&resource.build());
    Ok(exporter)
}

/// The sender of batches, one at a time.
struct Batches {
    exporter: SpanExporter,
    counts: SpanCounts,
    complained: Option<Stopwatch>,
}

impl Batches {
    async fn send_all(
        mut self,
        mut spans: mpsc::Receiver<FinishedSpan>,
        traces: Traces,
        mut finish: oneshot::Receiver<()>,
    ) {
        let scope = InstrumentationScope::builder("postrider").build();
        let mut finishing = false;
        while !finishing {
            tokio::select! {
                _ = &mut finish => finishing = true,
                () = tokio::time::sleep(EVERY) => {}
            }
            loop {
                let mut batch = Vec::new();
                while let Some(span) = spans.try_recv().ok().filter(|_| batch.len() < BATCH_MAX) {
                    batch.push(span_data(span, &scope));
                    if batch.len() == BATCH_MAX {
                        break;
                    }
                }
                if batch.is_empty() {
                    break;
                }
                self.send(batch).await;
            }
            self.counts.dropped.absolute(traces.dropped());
        }
    }

    async fn send(&mut self, batch: Vec<SpanData>) {
        let spans = batch.len() as u64;
        let Err(error) = self.exporter.export(batch).await else {
            return self.counts.exported.increment(spans);
        };
        self.counts.failed.increment(spans);
        if self.complained.as_ref().is_none_or(|since| since.elapsed() >= COMPLAIN_EVERY) {
            tracing::warn!(%error, spans, "the collector took no spans");
            self.complained = Some(Stopwatch::start());
        }
    }
}

/// Converts a finished span to the type of OpenTelemetry.
fn span_data(span: FinishedSpan, scope: &InstrumentationScope) -> SpanData {
    let trace = TraceId::from_bytes(span.context.trace_id());
    let id = SpanId::from_bytes(span.context.span_id());
    let flags = TraceFlags::SAMPLED;
    let attributes = span.attributes.into_iter().map(|(name, value)| match value {
        Attribute::Text(text) => KeyValue::new(name, text),
        Attribute::Number(number) => KeyValue::new(name, number),
    });
    SpanData {
        span_context: SpanContext::new(trace, id, flags, false, Default::default()),
        parent_span_id: span.parent.map_or(SpanId::INVALID, SpanId::from_bytes),
        parent_span_is_remote: span.kind == Kind::Server && span.parent.is_some(),
        span_kind: match span.kind {
            Kind::Server => SpanKind::Server,
            Kind::Client => SpanKind::Client,
            Kind::Internal => SpanKind::Internal,
        },
        name: Cow::Owned(span.name),
        start_time: SystemTime::UNIX_EPOCH + Duration::from_nanos(span.began_ns),
        end_time: SystemTime::UNIX_EPOCH + Duration::from_nanos(span.ended_ns),
        attributes: attributes.collect(),
        dropped_attributes_count: 0,
        events: Default::default(),
        links: Default::default(),
        status: if span.has_failed { Status::error("") } else { Status::Unset },
        instrumentation_scope: scope.clone(),
    }
}

/// The counts of spans by outcome.
struct SpanCounts {
    exported: Counter,
    failed: Counter,
    dropped: Counter,
}

impl SpanCounts {
    fn register(metrics: &Metrics) -> Self {
        const NAME: &str = "postrider_trace_spans_total";
        let what = "Spans of followed requests, by what became of them";
        let recorder = metrics.recorder();
        recorder.describe_counter(NAME.into(), None, what.into());
        let counter = |outcome: &'static str| {
            let key = Key::from_parts(NAME, vec![Label::new("outcome", outcome)]);
            recorder.register_counter(&key, &METADATA)
        };
        Self {
            exported: counter("exported"),
            failed: counter("failed"),
            dropped: counter("dropped"),
        }
    }
}

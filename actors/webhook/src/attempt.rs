//! One attempt at one delivery: its events are read, signed and posted.

use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use postrider_domain::event::PublicEvent;
use postrider_domain::{EventId, MessageId, RequestId, WorkspaceId};
use postrider_runtime::Traces;
use postrider_runtime::clock::Stopwatch;
use postrider_runtime::trace::{Span, SpanKind, Subject};
use postrider_store::EventEntry;

use crate::client::{Answer, NoAnswer, on_behalf_of};
use crate::delivery::{DeliveryFailure, StartedAttempt};
use crate::endpoint::{Endpoint, OpenSecrets};
use crate::exchanges::{
    BATCH_KIND, Exchange, ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, batch_body, batch_id,
    event_body,
};
use crate::log_reader;
use crate::ports::EndpointServices;
use crate::request_pool::{AttemptResult, RequestPermit};

const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

/// An attempt that has ended, and how.
#[derive(Debug)]
pub struct EndedAttempt {
    pub(super) attempt: StartedAttempt,
    pub(super) outcome: AttemptEnd,
    /// Sequences of the first and the last event that were to be delivered and left the log before.
    pub(super) forgotten: Option<(u64, u64)>,
}

/// The end of an attempt.
#[derive(Debug)]
pub(super) enum AttemptEnd {
    /// It was posted, and answered or not.
    Posted(PostedAttempt),
    /// None of its events is in the log any more.
    Vanished,
    /// The log could not be read, or the secret not be decrypted, or nothing may leave: nothing was
    /// sent.
    NotTried,
}

/// The record of a posted attempt.
#[derive(Debug)]
pub(super) struct PostedAttempt {
    pub(super) id: EventId,
    /// The events of a batch; none of a single event.
    pub(super) batch_ids: Vec<EventId>,
    pub(super) kind: &'static str,
    pub(super) status: Option<u16>,
    pub(super) error: Option<&'static str>,
    pub(super) response: Option<String>,
    pub(super) latency: Duration,
    /// The failure, if it failed.
    pub(super) failure: Option<DeliveryFailure>,
    /// The part that is remembered for a while only.
    pub(super) exchange: Exchange,
}

/// Makes an attempt: reads the events that are not in memory, signs and posts them.
///
/// Without `secrets`, which could not be decrypted, nothing is sent.
pub(super) async fn make(
    services: Arc<EndpointServices>,
    workspace: WorkspaceId,
    endpoint: (Arc<Endpoint>, Option<Arc<OpenSecrets>>),
    attempt: StartedAttempt,
    permit: RequestPermit,
) -> EndedAttempt {
    let (endpoint, secrets) = endpoint;
    let events = events(&services, &workspace, &attempt).await;
    let forgotten = events.as_ref().and_then(|events| attempt.delivery.forgotten(events));
    let outcome = match events {
        Some(events) if events.is_empty() => AttemptEnd::Vanished,
        Some(events) if let Some(secrets) = secrets => {
            let is_batch = attempt.delivery.batch.is_some();
            let posting = post(&services, (&endpoint, &secrets), is_batch, &events);
            on_behalf_of(&workspace, posting).await
        }
        _ => AttemptEnd::NotTried,
    };
    drop(permit);
    EndedAttempt { attempt, outcome, forgotten }
}

async fn events(
    services: &Arc<EndpointServices>,
    workspace: &WorkspaceId,
    attempt: &StartedAttempt,
) -> Option<Arc<[EventEntry]>> {
    if let Some(events) = &attempt.delivery.events {
        return Some(Arc::clone(events));
    }
    let (store, workspace) = (Arc::clone(&services.store), workspace.clone());
    let delivery = attempt.delivery.clone();
    let read = move || log_reader::reread(store.as_ref(), &workspace, &delivery);
    let read = tokio::task::spawn_blocking(read).await.ok()?;
    read.inspect_err(|error| tracing::error!(%error, "an event log cannot be read")).ok()
}

async fn post(
    services: &EndpointServices,
    (endpoint, secrets): (&Endpoint, &OpenSecrets),
    is_batch: bool,
    events: &[EventEntry],
) -> AttemptEnd {
    let (id, kind, body) = match events {
        [event] if !is_batch => (Some(event.id), event.event.kind(), event_body(event)),
        events => (batch_id(events), BATCH_KIND, batch_body(events)),
    };
    let real_now = services.clock.real();
    // The reason why there is no client was logged.
    let (Some(id), Some(client)) = (id, services.client()) else { return AttemptEnd::NotTried };
    let (id_text, timestamp) = (id.to_string(), real_now.as_secs());
    let secrets = secrets.signing(services.clock.now());
    let signatures: Vec<_> =
        secrets.map(|secret| secret.sign(&id_text, timestamp, &body)).collect();
    let exchange = Exchange { timestamp, signature: signatures.join(" "), answer: None };
    let mut headers = HeaderMap::with_capacity(4);
    // Both are visible ASCII.
    for (name, text) in [(ID_HEADER, id_text), (SIGNATURE_HEADER, exchange.signature.clone())] {
        headers.extend(HeaderValue::from_str(&text).ok().map(|value| (name, value)));
    }
    headers.insert(TIMESTAMP_HEADER, HeaderValue::from(timestamp));
    // Much time may have passed since the start of the attempt.
    if !services.hold.lets_out() {
        return AttemptEnd::NotTried;
    }
    let span = begin_span(&services.traces, endpoint, events);
    let parent = span.as_ref().map(|span| HeaderValue::from_str(&span.context().to_string()));
    headers.extend(parent.and_then(Result::ok).map(|value| (TRACE_PARENT, value)));
    let watch = Stopwatch::start();
    let answer = client.post(&endpoint.settings.url, headers, body, real_now).await;
    let mut tried = judge_answer((id, kind), exchange, answer, watch.elapsed());
    if is_batch {
        tried.batch_ids = events.iter().map(|event| event.id).collect();
    }
    end_span(span, &tried);
    let counted = match (&tried.failure, tried.status) {
        (None, _) => AttemptResult::Delivered,
        (Some(_), Some(_)) => AttemptResult::Refused,
        (Some(_), None) => AttemptResult::Unanswered,
    };
    services.pool.count(counted, tried.latency);
    AttemptEnd::Posted(tried)
}

fn judge_answer(
    (id, kind): (EventId, &'static str),
    exchange: Exchange,
    answer: Answer,
    latency: Duration,
) -> PostedAttempt {
    let tried = PostedAttempt {
        id,
        batch_ids: Vec::new(),
        kind,
        status: None,
        error: None,
        response: None,
        latency,
        failure: Some(DeliveryFailure::default()),
        exchange,
    };
    match answer {
        Answer::Status { status, retry_after, excerpt, text } => {
            let error = match status {
                200..=299 => None,
                300..=399 => Some("redirect"),
                _ => Some("status"),
            };
            let failure = DeliveryFailure {
                gone: status == 410,
                slow_down: matches!(status, 429 | 502 | 503 | 504),
                retry_after,
                timed_out: false,
            };
            let failure = error.map(|_| failure);
            let exchange = Exchange { answer: text, ..tried.exchange };
            PostedAttempt {
                status: Some(status),
                error,
                response: excerpt,
                failure,
                exchange,
                ..tried
            }
        }
        Answer::None(why) => {
            let timed_out = why == NoAnswer::Timeout;
            let failure = DeliveryFailure { timed_out, ..DeliveryFailure::default() };
            PostedAttempt { error: Some(why.as_str()), failure: Some(failure), ..tried }
        }
    }
}

/// Starts the span of an attempt, if the request of one of its events is traced.
///
/// In a batch the first such event counts.
fn begin_span(traces: &Traces, endpoint: &Endpoint, events: &[EventEntry]) -> Option<Span> {
    let context = events.iter().find_map(|entry| traces.of(|| trace_subject(&entry.event)))?;
    let mut span = traces.below(context, "webhook", SpanKind::Client)?;
    span.set("postrider.webhook_id", endpoint.id.to_string());
    Some(span)
}

/// Ends the span of an attempt with its outcome.
fn end_span(span: Option<Span>, tried: &PostedAttempt) {
    let Some(mut span) = span else { return };
    span.set("postrider.event", tried.kind);
    if let Some(status) = tried.status {
        span.set("http.response.status_code", i64::from(status));
    }
    if let Some(error) = tried.error {
        span.set("error.type", error);
    }
    if tried.failure.is_some() {
        span.fail();
    }
}

/// Returns the message or the request for a code that an event is about.
fn trace_subject(event: &PublicEvent) -> Option<Subject> {
    let data = event.data();
    let id = |name: &str| data[name].as_str();
    let request = || id("request_id")?.parse::<RequestId>().ok().map(|id| *id.as_bytes());
    let message = || id("message_id")?.parse::<MessageId>().ok().map(|id| *id.as_bytes());
    request().or_else(message).map(Subject::from)
}

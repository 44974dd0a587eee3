//! The span of a delivery, if the request from which an event comes is traced.

use postrider_domain::event::PublicEvent;
use postrider_domain::{MessageId, RequestId};
use postrider_runtime::Traces;
use postrider_runtime::trace::{Span, SpanKind, Subject};
use postrider_store::EventEntry;

use crate::endpoint::Endpoint;

/// Starts the span of an attempt, if the request of one of its events is traced.
///
/// In a batch the first such event counts.
pub(crate) fn begin(traces: &Traces, endpoint: &Endpoint, events: &[EventEntry]) -> Option<Span> {
    let context = events.iter().find_map(|entry| traces.of(|| subject(&entry.event)))?;
    let mut span = traces.below(context, "webhook", SpanKind::Client)?;
    span.set("postrider.webhook_id", endpoint.id.to_string());
    Some(span)
}

/// Returns the message or the request for a code that an event is about.
fn subject(event: &PublicEvent) -> Option<Subject> {
    let data = event.data();
    let id = |name: &str| data[name].as_str();
    let request = || id("request_id")?.parse::<RequestId>().ok().map(|id| *id.as_bytes());
    let message = || id("message_id")?.parse::<MessageId>().ok().map(|id| *id.as_bytes());
    request().or_else(message).map(Subject::from)
}

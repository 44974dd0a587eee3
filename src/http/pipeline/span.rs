//! The trace span of a request, if the request is traced.

use axum::http::request::Parts;
use axum::http::{HeaderName, StatusCode};
use postrider_actors::trace::Span;

use super::origin::{Identity, Origin};
use crate::http::edge::Edge;
use crate::metrics::RouteMeter;

/// The header of W3C Trace Context.
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

/// Starts the span of a request, if it is traced. A stranger cannot decide that.
pub(super) fn begin(
    edge: &Edge,
    meter: &RouteMeter,
    parts: &Parts,
    identity: &Identity,
) -> Option<Span> {
    let is_known = !matches!(identity, Identity::Anonymous);
    let caller = is_known.then(|| parts.headers.get(TRACE_PARENT)?.to_str().ok()).flatten();
    let name = || format!("{} {}", meter.method(), meter.route());
    let mut span = edge.engine.traces().request(name, caller)?;
    span.set("http.request.method", meter.method());
    span.set("http.route", meter.route());
    Some(span)
}

/// Ends the span with the status of the answer.
pub(super) fn end(span: Option<Span>, origin: &Origin, status: StatusCode) {
    let Some(mut span) = span else { return };
    span.set("http.response.status_code", i64::from(status.as_u16()));
    span.set("postrider.request_id", origin.request_id.as_str());
    if let Some(key) = origin.identity.key() {
        span.set("postrider.workspace", key.workspace.id().as_str());
    }
    if status.is_server_error() {
        span.fail();
    }
}

//! Accounts for an answered request: counts, logs, the list of the newest ones, its trace span.

use std::time::Duration;

use axum::http::request::Parts;
use axum::http::{HeaderName, StatusCode};
use postrider_actors::domain::{Timestamp, WorkspaceId};
use postrider_actors::trace::Span;

use super::client::counted;
use super::error::{ApiError, Cause};
use super::origin::{Identity, RequestOrigin};
use crate::http::edge::Edge;
use crate::http::request_log::AnsweredRequest;
use crate::metrics::RouteMeter;

/// The data that is recorded about a request, besides its answer.
pub(super) struct RequestAccount<'a> {
    pub(super) edge: &'a Edge,
    pub(super) meter: &'a RouteMeter,
    pub(super) origin: &'a RequestOrigin,
    /// The workspace that an administrative path names.
    pub(super) named: Option<&'a str>,
    /// The workspace that the caller calls in.
    pub(super) workspace: Option<&'a WorkspaceId>,
}

impl RequestAccount<'_> {
    /// Records an answer.
    pub(super) fn record(
        &self,
        (status, cause): (StatusCode, Option<Cause>),
        took: Duration,
        now: Timestamp,
    ) {
        let Self { edge, meter, origin, .. } = *self;
        meter.record(&edge.options.metrics, status, took);
        self.log(status, took);
        if let Some(workspace) = self.workspace {
            let (request_id, identity) = (origin.request_id.as_str(), &origin.identity);
            let answered = AnsweredRequest { request_id, identity, meter, status, cause, took };
            edge.requests.record(workspace, now, answered);
        }
    }

    /// Counts a refusal for the audit log. It is that of a caller without a valid key, or of a key
    /// that may not be used from the address.
    pub(super) fn count_refusal(&self, error: &ApiError) {
        let Self { edge, origin, .. } = *self;
        let (address, id) = (counted(origin.address), origin.request_id.as_str());
        match origin.identity.key() {
            _ if error.is_unauthenticated() => {
                edge.engine.audit().authentication_failed(address, id);
            }
            Some(key) if !key.allows(origin.address) => {
                edge.engine.audit().key_refused(key.key_id, key.workspace.id(), address, id);
            }
            _ => {}
        }
    }

    fn log(&self, status: StatusCode, took: Duration) {
        let Self { meter, origin, named, .. } = *self;
        let key = origin.identity.key();
        tracing::debug!(
            request_id = origin.request_id.as_str(),
            address = %origin.address,
            key_id = key.map(|key| tracing::field::display(key.key_id)),
            session = origin.identity.session().map(|it| tracing::field::display(it.id())),
            workspace = key.map_or(named, |key| Some(key.workspace.id().as_str())),
            method = meter.method(),
            route = meter.route(),
            status = status.as_u16(),
            took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            "request"
        );
    }
}

/// The header of W3C Trace Context.
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

/// Starts the span of a request, if it is traced. A stranger cannot decide that.
pub(super) fn begin_span(
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
pub(super) fn end_span(span: Option<Span>, origin: &RequestOrigin, status: StatusCode) {
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

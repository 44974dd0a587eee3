//! Runs one request through the guard, the body reader and the handler, and records it.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{RawPathParams, Request};
use axum::http::header::{ACCEPT, DATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Response};
use bytes::Bytes;
use hyper::body::Body as _;
use postrider_actors::clock::Stopwatch;
use postrider_actors::domain::WorkspaceId;
use postrider_actors::trace::{self, Span};
use postrider_actors::{BoxFuture, IdempotencyKey, Route};
use serde::Deserialize;

use super::account::Account;
use super::administrator::administrator;
use super::arrival::Arrival;
use super::auth::{Guard, count_failure};
use super::body::{self, ReadDeadline};
use super::body_budget::BodyLease;
use super::client::{ConnectionTimer, Overloaded};
use super::compressed::{accepts_gzip, compress};
use super::error::{ApiError, Code, Ending};
use super::json;
use super::origin::{Identity, Origin};
use super::page_headers;
use super::query::Query;
use super::rate_limit_headers;
use super::reply::Reply;
use super::request_id;
use super::span;
use super::spool::{self, Spooled};
use super::unwind::catch_unwind;
use crate::http::edge::Edge;
use crate::metrics::RouteMeter;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const PREFER: HeaderName = HeaderName::from_static("prefer");
/// The maximum time that a client may wait for an outcome, in seconds.
const WAIT_SECONDS_MAX: u64 = 30;

/// The result of a handler.
pub(crate) type Answer = Result<Reply, ApiError>;

/// A handler without its own type. A [`Stage`] is thus translated once for each guard, not for each
/// handler.
pub(crate) type AnyHandler<C> = Arc<dyn Fn(Call<C>) -> AnswerFuture + Send + Sync>;
/// The future of an [`AnyHandler`].
pub(crate) type AnswerFuture = BoxFuture<'static, Answer>;

/// The way in which a route reads the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// It expects no body, and discards one.
    NoBody,
    /// It reads JSON of at most this size.
    Json(BodySize),
    /// It reads a file of a type that the channel accepts.
    Media,
    /// It reads bytes of any type.
    Raw {
        /// The maximum size of a body, in bytes.
        max_bytes: usize,
    },
}

/// The size limit of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodySize {
    /// The limit of most routes.
    Usual,
    /// The limit of a broadcast with all its recipients.
    Broadcast,
    /// The limit of a batch of contacts.
    ContactsBatch,
}

impl BodySize {
    /// Returns the limit in bytes.
    fn max(self, edge: &Edge) -> usize {
        match self {
            Self::Usual => edge.options.max_body_bytes,
            Self::Broadcast => edge.options.max_broadcast_body_bytes,
            Self::ContactsBatch => edge.options.max_contacts_batch_body_bytes,
        }
    }
}

/// An admitted request with its body, as handlers get it.
pub(crate) struct Call<C> {
    /// The shared state of all routes.
    pub(crate) edge: Arc<Edge>,
    /// The caller that the guard admitted.
    pub(crate) caller: C,
    /// The origin of the request.
    pub(super) origin: Origin,
    meter: RouteMeter,
    parts: Parts,
    body: Bytes,
    /// The uploaded file, if the body is one.
    media: Option<Spooled>,
    /// Counts the body's bytes while this lives.
    _lease: BodyLease,
}

impl<C> Call<C> {
    /// Parses the body as a JSON object of the operation's fields.
    pub(crate) fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ApiError> {
        let operation = || self.edge.fields.of_body(self.meter.route(), self.meter.method());
        json::parse_known(&self.body, operation)
    }

    /// Returns the body as bytes.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.body
    }

    /// Returns the uploaded file with its type. A second call fails.
    pub(crate) fn take_media(&mut self) -> Result<Spooled, ApiError> {
        self.media.take().ok_or_else(ApiError::internal)
    }

    /// Returns the request's headers.
    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// Returns the address of the client.
    pub(crate) fn address(&self) -> std::net::IpAddr {
        self.origin.address
    }

    /// Returns the value of a header, if it exists and is text.
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.parts.headers.get(name)?.to_str().ok()
    }

    /// Returns whether the client asks for an answer of this type, and not for JSON.
    pub(crate) fn wants(&self, media: &str) -> bool {
        let values = self.parts.headers.get_all(ACCEPT).iter();
        let texts = values.filter_map(|value| value.to_str().ok());
        let ranges = texts.flat_map(|text| text.split(','));
        let named: Vec<_> = ranges.filter_map(named_type).collect();
        let names = |it: &str| named.iter().any(|name| name.eq_ignore_ascii_case(it));
        names(media) && !names("application/json")
    }

    /// Parses the query.
    pub(crate) fn query(&self) -> Result<Query, ApiError> {
        Query::of(&self.parts.uri)
    }

    /// Returns the idempotency key, if the request has one: 1 to 255 characters, quoted or bare.
    pub(crate) fn idempotency_key(&self, route: Route) -> Result<Option<IdempotencyKey>, ApiError> {
        let bad = || ApiError::field("Idempotency-Key", "must have 1 to 255 visible characters");
        let mut values = self.parts.headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(ApiError::field("Idempotency-Key", "must be given once"));
        }
        let key = value.to_str().map_err(|_| bad())?.trim();
        let bare = key.strip_prefix('"').and_then(|key| key.strip_suffix('"')).unwrap_or(key);
        match bare.len() {
            1..=255 => Ok(Some(IdempotencyKey::new(route, bare, &self.body))),
            _ => Err(bad()),
        }
    }

    /// Returns how long the client asks to wait for an outcome (`Prefer: wait=N`, RFC 7240). It is
    /// 1 to 30 seconds, and not longer than a handler may take. Unknown preferences are ignored, as
    /// the RFC demands.
    pub(crate) fn preferred_wait(&self) -> Option<Duration> {
        let values = self.parts.headers.get_all(PREFER).iter();
        let texts = values.filter_map(|value| value.to_str().ok());
        let seconds = texts.flat_map(|text| text.split([',', ';'])).find_map(|preference| {
            let (name, value) = preference.split_once('=')?;
            let is_wait = name.trim().eq_ignore_ascii_case("wait");
            is_wait.then(|| value.trim().trim_matches('"').parse::<u64>().ok())?
        })?;
        let longest = self.edge.options.handler_timeout.saturating_sub(Duration::from_secs(1));
        (seconds > 0).then(|| Duration::from_secs(seconds.min(WAIT_SECONDS_MAX)).min(longest))
    }

    /// Counts a failure for the client's address, on a route that needs no key. It returns 429 once
    /// there are too many.
    pub(crate) fn failed(&self, error: ApiError) -> ApiError {
        count_failure(&self.edge, &self.parts, error)
    }

    /// Parses the path parameter `name`. A malformed value is answered 404, like an unknown one.
    pub(crate) async fn path<T: std::str::FromStr>(
        &mut self,
        name: &str,
        missing: &'static str,
    ) -> Result<T, ApiError> {
        use axum::extract::FromRequestParts;
        let params = RawPathParams::from_request_parts(&mut self.parts, &()).await;
        params
            .ok()
            .and_then(|params| {
                let mut named = params.iter().filter(|(key, _)| *key == name);
                named.next().and_then(|(_, value)| value.parse().ok())
            })
            .ok_or_else(|| ApiError::not_found(missing))
    }
}

/// Returns the type that a part of `Accept` names, unless the client refuses it.
fn named_type(range: &str) -> Option<&str> {
    let (name, parameters) = range.split_once(';').unwrap_or((range, ""));
    let weight = parameters.split(';').find_map(|it| it.trim().strip_prefix("q="));
    let is_refused = weight.is_some_and(|it| it.trim().parse() == Ok(0.0_f32));
    (!is_refused).then(|| name.trim())
}

/// The settings of one route: its meter, its guard, and its way to read bodies.
#[derive(Clone)]
pub(crate) struct Stage<G> {
    pub(crate) meter: RouteMeter,
    pub(crate) guard: G,
    pub(crate) takes: Takes,
}

impl<G: Guard> Stage<G> {
    /// Answers a request.
    pub(crate) async fn run(
        self,
        edge: Arc<Edge>,
        request: Request,
        handler: AnyHandler<G::Caller>,
    ) -> Response<Body> {
        let watch = Stopwatch::start();
        let Self { meter, guard, takes } = self;
        let (mut parts, mut body) = request.into_parts();
        let timer = parts.extensions.remove().map(|ConnectionTimer(timer)| timer);
        let arrival = Arrival::of(&edge, &parts, &guard, meter.route());
        let Arrival { origin, named, workspace, bucket, caller } = arrival;
        let span = span::begin(&edge, &meter, &parts, &origin.identity);
        let compresses = origin.identity.session().is_some() && accepts_gzip(&parts.headers);
        let caller = caller.map(|(caller, lease)| (caller, origin.clone(), lease));
        let received = receive(&edge, &meter, workspace.as_ref(), caller, parts, &mut body, takes);
        let answer = match received.await {
            Ok(call) => {
                let wait = edge.options.handler_timeout;
                let handling = catch_unwind(handler(call));
                let handling = trace::within(span.as_ref().map(Span::context), handling);
                let handled = timer.unwrap_or_default().within(wait, handling).await;
                handled.unwrap_or_else(|| Err(timed_out()))
            }
            Err(error) => Err(error),
        };
        let account = Account {
            edge: &edge,
            meter: &meter,
            origin: &origin,
            named: named.as_deref(),
            workspace: workspace.as_ref(),
        };
        if let Err(error) = &answer {
            account.count_refusal(error);
        }
        let is_overload = answer.as_ref().is_err_and(ApiError::is_overload);
        let cause = answer.as_ref().err().map(ApiError::cause);
        let id = origin.request_id.as_str();
        let mut reply = answer.unwrap_or_else(|error| error.into_reply(id, &edge.help));
        span::end(span, &origin, reply.status());
        let now = edge.engine.clock().now();
        account.record((reply.status(), cause), watch.elapsed(), now);
        reply.header(request_id::HEADER, origin.request_id.into_header());
        reply.header(DATE, edge.date.at(edge.engine.clock().real()));
        let mut response = reply.into_response();
        if is_overload {
            response.extensions_mut().insert(Overloaded);
        }
        page_headers::add(response.headers_mut(), meter.route(), &edge.options.dashboard);
        if let Some(bucket) = bucket {
            rate_limit_headers::add_headers(response.headers_mut(), bucket, now);
        }
        // Programs are near, and call more often than people.
        if compresses { compress(response).await } else { response }
    }
}

/// Reads the body, or treats its rest as the refusal demands.
async fn receive<C>(
    edge: &Arc<Edge>,
    meter: &RouteMeter,
    workspace: Option<&WorkspaceId>,
    caller: Result<(C, Origin, BodyLease), ApiError>,
    parts: Parts,
    body: &mut Body,
    takes: Takes,
) -> Result<Call<C>, ApiError> {
    let deadline = ReadDeadline { timeout: edge.options.body_timeout, drain: &edge.options.drain };
    let received = match caller {
        Ok((caller, origin, mut lease)) => {
            let mut media = None;
            let bytes = match takes {
                Takes::NoBody => {
                    // An unexpected body must be read, or it would be taken for the next request.
                    body::discard(&parts.headers, body, deadline).await;
                    Ok(Bytes::new())
                }
                Takes::Json(size) => {
                    let max = size.max(edge);
                    body::read(&parts.headers, body, max, &mut lease, deadline).await
                }
                Takes::Media => {
                    let (engine, headers) = (&edge.engine, &parts.headers);
                    let file =
                        spool::read(engine, workspace, headers, body, &mut lease, deadline).await;
                    file.map(|file| {
                        media = Some(file);
                        Bytes::new()
                    })
                }
                Takes::Raw { max_bytes } => {
                    body::read_raw(body, max_bytes, &mut lease, deadline).await
                }
            };
            // The body may have taken long, and the caller's key or session may have ended.
            let bytes = match bytes {
                Ok(_) if !still_works(edge, &parts, &origin.identity) => Err(ApiError::ended()),
                bytes => bytes,
            };
            bytes.map(|bytes| (caller, origin, lease, bytes, media))
        }
        Err(error) => Err(error),
    };
    match received {
        Ok((caller, origin, lease, body, media)) => {
            let (edge, meter) = (Arc::clone(edge), meter.clone());
            Ok(Call { edge, caller, origin, meter, parts, body, media, _lease: lease })
        }
        Err(error) => Err(refuse(error, &parts, body, deadline).await),
    }
}

/// Returns whether the key, session or token of an admitted request is still valid.
fn still_works(edge: &Edge, parts: &Parts, identity: &Identity) -> bool {
    match identity {
        Identity::Anonymous => true,
        Identity::Key(caller) => edge.engine.access().still_works(caller),
        // The engine of people has just confirmed a session of another engine.
        Identity::Person(who) => edge.engine.people().goes_on(who),
        Identity::Administrator { .. } => administrator(edge, parts).is_some(),
    }
}

/// Treats the body of a refused request as the refusal demands.
async fn refuse(
    error: ApiError,
    parts: &Parts,
    body: &mut Body,
    deadline: ReadDeadline<'_>,
) -> ApiError {
    match error.ending() {
        Ending::Kept => body::discard(&parts.headers, body, deadline).await,
        // After a timeout, the rest of the body is not waited for.
        Ending::Closed if error.code() == Code::RequestTimeout => {}
        Ending::ClosedWithBody if body.is_end_stream() => {}
        Ending::ClosedWithBody => {
            body::linger(&parts.headers, body, deadline.drain);
            return error.closing();
        }
        Ending::Closed => body::linger(&parts.headers, body, deadline.drain),
    }
    error
}

#[cold]
fn timed_out() -> ApiError {
    let message = "the request took too long; its outcome is unknown";
    ApiError::new(Code::ServiceUnavailable, message).because("outcome_unknown")
}

#[cfg(test)]
mod tests {
    use super::named_type;

    #[test]
    fn a_part_of_accept_names_a_type() {
        for good in ["text/csv", " text/csv ", "text/csv;q=0.5", "text/csv; charset=utf-8"] {
            assert_eq!(named_type(good), Some("text/csv"), "{good}");
        }
        for bad in ["text/csv;q=0", "text/csv; q=0.000"] {
            assert_eq!(named_type(bad), None, "{bad}");
        }
    }
}

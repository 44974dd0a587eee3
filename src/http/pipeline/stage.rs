//! Runs one request through the guard, the body reader and the handler, and records it.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use axum::http::header::DATE;
use axum::http::request::Parts;
use bytes::Bytes;
use hyper::body::Body as _;
use postrider_actors::BoxFuture;
use postrider_actors::clock::Stopwatch;
use postrider_actors::domain::WorkspaceId;
use postrider_actors::trace::{self, Span};

use super::accounting::RequestAccount;
use super::administrator::administrator;
use super::arrival::Arrival;
use super::auth::Guard;
use super::body::ReadDeadline;
use super::body_budget::BodyLease;
use super::call::Call;
use super::client::{ConnectionTimer, Overloaded};
use super::compressed::{accepts_gzip, compress};
use super::error::{ApiError, Code, ConnectionFate, catch_unwind};
use super::origin::{Identity, RequestOrigin};
use super::reply::Reply;
use super::{accounting, body, headers, request_id, spool};
use crate::http::edge::Edge;
use crate::metrics::RouteMeter;

/// The result of a handler.
pub(crate) type Answer = Result<Reply, ApiError>;

/// A handler without its own type. A [`Stage`] is thus translated once for each guard, not for each
/// handler.
pub(crate) type AnyHandler<C> = Arc<dyn Fn(Call<C>) -> AnswerFuture + Send + Sync>;
/// The future of an [`AnyHandler`].
pub(crate) type AnswerFuture = BoxFuture<'static, Answer>;

/// The way in which a route reads the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyKind {
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

/// The settings of one route: its meter, its guard, and its way to read bodies.
#[derive(Clone)]
pub(crate) struct Stage<G> {
    pub(crate) meter: RouteMeter,
    pub(crate) guard: G,
    pub(crate) takes: BodyKind,
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
        let span = accounting::begin_span(&edge, &meter, &parts, &origin.identity);
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
        let account = RequestAccount {
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
        accounting::end_span(span, &origin, reply.status());
        let now = edge.engine.clock().now();
        account.record((reply.status(), cause), watch.elapsed(), now);
        reply.header(request_id::HEADER, origin.request_id.into_header());
        reply.header(DATE, edge.date.at(edge.engine.clock().real()));
        let mut response = reply.into_response();
        if is_overload {
            response.extensions_mut().insert(Overloaded);
        }
        headers::add_page_headers(response.headers_mut(), meter.route(), &edge.options.dashboard);
        if let Some(bucket) = bucket {
            headers::add_rate_limit_headers(response.headers_mut(), bucket, now);
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
    caller: Result<(C, RequestOrigin, BodyLease), ApiError>,
    parts: Parts,
    body: &mut Body,
    takes: BodyKind,
) -> Result<Call<C>, ApiError> {
    let deadline = ReadDeadline { timeout: edge.options.body_timeout, drain: &edge.options.drain };
    let received = match caller {
        Ok((caller, origin, mut lease)) => {
            let mut media = None;
            let bytes = match takes {
                BodyKind::NoBody => {
                    // An unexpected body must be read, or it would be taken for the next request.
                    body::discard(&parts.headers, body, deadline).await;
                    Ok(Bytes::new())
                }
                BodyKind::Json(size) => {
                    let max = size.max(edge);
                    body::read(&parts.headers, body, max, &mut lease, deadline).await
                }
                BodyKind::Media => {
                    let (engine, headers) = (&edge.engine, &parts.headers);
                    let file =
                        spool::read(engine, workspace, headers, body, &mut lease, deadline).await;
                    file.map(|file| {
                        media = Some(file);
                        Bytes::new()
                    })
                }
                BodyKind::Raw { max_bytes } => {
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
        ConnectionFate::Kept => body::discard(&parts.headers, body, deadline).await,
        // After a timeout, the rest of the body is not waited for.
        ConnectionFate::Closed if error.code() == Code::RequestTimeout => {}
        ConnectionFate::ClosedWithBody if body.is_end_stream() => {}
        ConnectionFate::ClosedWithBody => {
            body::linger(&parts.headers, body, deadline.drain);
            return error.closing();
        }
        ConnectionFate::Closed => body::linger(&parts.headers, body, deadline.drain),
    }
    error
}

#[cold]
fn timed_out() -> ApiError {
    let message = "the request took too long; its outcome is unknown";
    ApiError::new(Code::ServiceUnavailable, message).because("outcome_unknown")
}

//! Runs one request through the guard, the body reader and the handler, and records it.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use axum::http::header::DATE;
use axum::http::request::Parts;
use bytes::Bytes;
use hyper::body::Body as _;
use postrider_actors::clock::Stopwatch;
use postrider_actors::domain::WorkspaceId;
use postrider_actors::trace::{self, Span};
use postrider_actors::{BoxFuture, BucketState};

use super::accounting::RequestAccount;
use super::administrator::administrator;
use super::arrival::Arrival;
use super::auth::Guard;
use super::body::ReadDeadline;
use super::call::{AdmittedCall, Call};
use super::client::{ConnectionTimer, Overloaded};
use super::compressed::{accepts_gzip, compress};
use super::error::{ApiError, Code, ConnectionFate, catch_unwind};
use super::origin::{Identity, RequestOrigin};
use super::reply::Reply;
use super::route::ResponseFuture;
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

/// One route: its meter, its guard, its way to read bodies, and its handler.
pub(crate) struct Stage<G: Guard> {
    pub(crate) meter: RouteMeter,
    pub(crate) guard: G,
    pub(crate) takes: BodyKind,
    pub(crate) handler: AnyHandler<G::Caller>,
}

impl<G: Guard> Stage<G> {
    /// Answers a request.
    ///
    /// The request is admitted by this call, so the future needs no room for that: a client that
    /// has gone before the first poll was counted. Ways that are seldom taken are boxed where they
    /// begin.
    pub(crate) fn answer(self: Arc<Self>, edge: Arc<Edge>, request: Request) -> ResponseFuture {
        let watch = Stopwatch::start();
        let (mut parts, mut body) = request.into_parts();
        let timer = parts.extensions.remove().map(|ConnectionTimer(timer)| timer);
        let arrival = Arrival::of(&edge, &parts, &self.guard, self.meter.route());
        let Arrival { origin, named, workspace, bucket, caller } = arrival;
        let span =
            accounting::begin_span(&edge, &self.meter, &parts, &origin.identity).map(Box::new);
        let compresses = origin.identity.session().is_some() && accepts_gzip(&parts.headers);
        let admitted = match caller {
            Ok((caller, lease)) => Ok(Box::new(AdmittedCall {
                edge: Arc::clone(&edge),
                caller,
                origin: origin.clone(),
                meter: self.meter.clone(),
                parts,
                body: Bytes::new(),
                media: None,
                lease,
            })),
            Err(error) => Err(Box::new((error, parts))),
        };
        let mut exchange = Exchange { watch, origin, named, workspace, bucket, span };
        Box::pin(async move {
            let answer = match receive(&edge, self.takes, admitted, &exchange, &mut body).await {
                Ok(call) => {
                    let context = exchange.span.as_deref().map(Span::context);
                    let handling = trace::within(context, catch_unwind((self.handler)(call)));
                    let timer = timer.unwrap_or_default();
                    let handled = timer.within(edge.options.handler_timeout, handling).await;
                    handled.unwrap_or_else(|| Err(timed_out()))
                }
                Err(error) => Err(error),
            };
            let response = exchange.end(&edge, &self.meter, answer);
            // Programs are near, and call more often than people.
            if compresses { Box::pin(compress(response)).await } else { response }
        })
    }
}

/// The data of a request that outlives its handler.
struct Exchange {
    watch: Stopwatch,
    origin: RequestOrigin,
    /// The workspace that an administrative path names.
    named: Option<Box<str>>,
    /// The workspace that the caller calls in.
    workspace: Option<WorkspaceId>,
    /// The rate limit bucket that the request was counted in.
    bucket: Option<BucketState>,
    span: Option<Box<Span>>,
}

impl Exchange {
    /// Records the answer, and adds the headers that all answers have.
    fn end(&mut self, edge: &Edge, meter: &RouteMeter, answer: Answer) -> Response<Body> {
        let origin = &self.origin;
        let account = RequestAccount {
            edge,
            meter,
            origin,
            named: self.named.as_deref(),
            workspace: self.workspace.as_ref(),
        };
        if let Err(error) = &answer {
            account.count_refusal(error);
        }
        let is_overload = answer.as_ref().is_err_and(ApiError::is_overload);
        let cause = answer.as_ref().err().map(ApiError::cause);
        let id = origin.request_id.as_str();
        let mut reply = answer.unwrap_or_else(|error| error.into_reply(id, &edge.help));
        accounting::end_span(self.span.take().map(|span| *span), origin, reply.status());
        let now = edge.engine.clock().now();
        account.record((reply.status(), cause), self.watch.elapsed(), now);
        reply.header(request_id::HEADER, origin.request_id.header());
        reply.header(DATE, edge.date.at(edge.engine.clock().real()));
        let mut response = reply.into_response();
        if is_overload {
            response.extensions_mut().insert(Overloaded);
        }
        headers::add_page_headers(response.headers_mut(), meter.route(), &edge.options.dashboard);
        if let Some(bucket) = self.bucket {
            headers::add_rate_limit_headers(response.headers_mut(), bucket, now);
        }
        response
    }
}

/// Reads the body of an admitted call, or treats the rest of a refused one as the refusal demands.
async fn receive<C>(
    edge: &Edge,
    takes: BodyKind,
    admitted: Result<Call<C>, Box<(ApiError, Parts)>>,
    exchange: &Exchange,
    body: &mut Body,
) -> Result<Call<C>, ApiError> {
    let deadline = ReadDeadline { timeout: edge.options.body_timeout, drain: &edge.options.drain };
    let refused = match admitted {
        Ok(mut call) => match read(edge, takes, &mut call, exchange, body, deadline).await {
            // The body may have taken long, and the caller's key or session may have ended.
            Ok(()) if still_works(edge, &call.parts, &exchange.origin.identity) => return Ok(call),
            Ok(()) => Box::new((ApiError::ended(), call.parts)),
            Err(error) => Box::new((error, call.parts)),
        },
        Err(refused) => refused,
    };
    Err(Box::pin(async move {
        let (error, parts) = *refused;
        refuse(error, &parts, body, deadline).await
    })
    .await)
}

/// Reads the body of a call as its route does.
async fn read<C>(
    edge: &Edge,
    takes: BodyKind,
    call: &mut AdmittedCall<C>,
    exchange: &Exchange,
    body: &mut Body,
    deadline: ReadDeadline<'_>,
) -> Result<(), ApiError> {
    let (headers, lease) = (&call.parts.headers, &mut call.lease);
    match takes {
        // An unexpected body must be read, or it would be taken for the next request.
        BodyKind::NoBody => body::discard(headers, body, deadline).await,
        BodyKind::Json(size) => {
            call.body = body::read(headers, body, size.max(edge), lease, deadline).await?;
        }
        BodyKind::Media => {
            let workspace = exchange.workspace.as_ref();
            let file = spool::read(&edge.engine, workspace, headers, body, lease, deadline);
            call.media = Some(Box::pin(file).await?);
        }
        BodyKind::Raw { max_bytes } => {
            call.body = body::read_raw(body, max_bytes, lease, deadline).await?;
        }
    }
    Ok(())
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

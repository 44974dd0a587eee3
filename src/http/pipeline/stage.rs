//! The one path that every request takes: its id, who may call, its body, its handler, and the
//! headers of its answer.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Response};
use bytes::Bytes;
use postrider_actors::clock::Stopwatch;
use postrider_actors::{IdempotencyKey, Route};
use serde::Deserialize;

use super::auth::{Admitted, Guard};
use super::body::{self, Patience};
use super::error::{ApiError, Code};
use super::limits;
use super::query::Query;
use super::reply::Reply;
use super::request_id::{self, RequestId};
use crate::http::edge::Edge;
use crate::metrics::RouteMeter;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const PREFER: HeaderName = HeaderName::from_static("prefer");
/// Longest that a client may have an answer wait for an outcome.
const WAIT_SECONDS_MAX: u64 = 30;

/// What a handler answers.
pub(crate) type Answer = Result<Reply, ApiError>;

/// What a route does with a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Nothing.
    NoBody,
    /// Reads it whole, as JSON of at most this size.
    Json(BodySize),
    /// Reads it whole, whatever it is.
    Raw {
        /// Most bytes of it.
        max_bytes: usize,
    },
}

/// How large a body may be, by what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodySize {
    /// Most of them.
    Usual,
    /// A broadcast with all its recipients.
    Broadcast,
    /// Many contacts.
    ContactsBatch,
}

impl BodySize {
    /// Most bytes.
    fn max(self, edge: &Edge) -> usize {
        match self {
            Self::Usual => edge.options.max_body_bytes,
            Self::Broadcast => edge.options.max_broadcast_body_bytes,
            Self::ContactsBatch => edge.options.max_contacts_batch_body_bytes,
        }
    }
}

/// A request that may be handled.
pub(crate) struct Call<C> {
    /// What is behind the server.
    pub(crate) edge: Arc<Edge>,
    /// Who calls.
    pub(crate) caller: C,
    parts: Parts,
    body: Bytes,
}

impl<C> Call<C> {
    /// The body, read as a JSON object.
    pub(crate) fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ApiError> {
        body::parse(&self.body)
    }

    /// The body as it came.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.body
    }

    /// The value of a header, if it is there and text.
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.parts.headers.get(name)?.to_str().ok()
    }

    /// The query.
    pub(crate) fn query(&self) -> Result<Query, ApiError> {
        Query::of(&self.parts.uri)
    }

    /// The key that makes the request idempotent, if it has one: 1 to 255 characters, quoted or
    /// bare.
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

    /// How long the client asks to wait for an outcome (`Prefer: wait=N`, RFC 7240): 1 to 30
    /// seconds, and not longer than a handler may take. Preferences that are not known are ignored,
    /// as the RFC has it.
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

    /// The segment of the path that the route's template calls `name`, parsed; what has not the
    /// shape of one does not exist.
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

/// A route's part of the path.
#[derive(Clone)]
pub(crate) struct Stage<G> {
    pub(crate) meter: RouteMeter,
    pub(crate) guard: G,
    pub(crate) takes: Takes,
}

impl<G: Guard> Stage<G> {
    /// Answers a request.
    pub(crate) async fn run<H, F>(
        self,
        edge: Arc<Edge>,
        request: Request,
        handler: H,
    ) -> Response<Body>
    where
        H: FnOnce(Call<G::Caller>) -> F,
        F: Future<Output = Answer>,
    {
        let watch = Stopwatch::start();
        let Self { meter, guard, takes } = self;
        let (parts, mut body) = request.into_parts();
        let id = RequestId::of(&parts.headers, edge.engine.clock());
        let admitted = caught(|| guard.admit(&edge, &parts));
        let Admitted { bucket, caller } =
            admitted.unwrap_or_else(|error| Admitted { bucket: None, caller: Err(error) });
        let answer = match receive(&edge, caller, parts, &mut body, takes).await {
            Ok(call) => {
                let wait = edge.options.handler_timeout;
                let handled = tokio::time::timeout(wait, unwinding(async { handler(call).await }));
                handled.await.unwrap_or_else(|_| Err(timed_out()))
            }
            Err(error) => Err(error),
        };
        let mut reply = answer.unwrap_or_else(|error| error.into_reply(id.as_str()));
        let status = reply.status();
        let took = watch.elapsed();
        meter.record(&edge.options.metrics, status, took);
        tracing::debug!(
            request_id = id.as_str(),
            method = meter.method(),
            route = meter.route(),
            status = status.as_u16(),
            took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            "request"
        );
        let now = edge.engine.clock().now();
        reply.header(request_id::HEADER, id.into_header());
        let mut response = reply.into_response();
        if let Some(bucket) = bucket {
            limits::add_headers(response.headers_mut(), bucket, now);
        }
        response
    }
}

/// Takes the body in, or throws it away when the request is refused.
async fn receive<C>(
    edge: &Arc<Edge>,
    caller: Result<C, ApiError>,
    parts: Parts,
    body: &mut Body,
    takes: Takes,
) -> Result<Call<C>, ApiError> {
    let patience = Patience { wait: edge.options.body_timeout, drain: &edge.options.drain };
    let received = match (caller, takes) {
        (Ok(caller), Takes::NoBody) => {
            // Usually there is none; what there is must not be taken for the next request.
            body::discard(&parts.headers, body, patience).await;
            Ok((caller, Bytes::new()))
        }
        (Ok(caller), Takes::Json(size)) => {
            body::read(&parts.headers, body, size.max(edge), patience)
                .await
                .map(|bytes| (caller, bytes))
        }
        (Ok(caller), Takes::Raw { max_bytes }) => {
            body::read_raw(body, max_bytes, patience).await.map(|bytes| (caller, bytes))
        }
        (Err(error), _) => Err(error),
    };
    match received {
        Ok((caller, bytes)) => Ok(Call { edge: Arc::clone(edge), caller, parts, body: bytes }),
        Err(error) => {
            if error.code() != Code::RequestTimeout {
                body::discard(&parts.headers, body, patience).await;
            }
            Err(error)
        }
    }
}

/// Polls a handler and makes a panic of it an answer.
async fn unwinding(handler: impl Future<Output = Answer>) -> Answer {
    let mut handler = pin!(handler);
    std::future::poll_fn(|context| {
        caught(|| handler.as_mut().poll(context)).unwrap_or_else(|error| Poll::Ready(Err(error)))
    })
    .await
}

/// Runs `step` and makes a panic of it an error.
fn caught<T>(step: impl FnOnce() -> T) -> Result<T, ApiError> {
    // What ran is dropped after a panic, so nobody sees what it may have left half done; what it
    // shares with others is the engine's, which guards itself.
    std::panic::catch_unwind(AssertUnwindSafe(step)).map_err(|panic| {
        tracing::error!(panic = panic_text(&*panic), "a request's handling panicked");
        ApiError::internal()
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cold]
fn timed_out() -> ApiError {
    let message = "the request took too long; its outcome is unknown";
    ApiError::new(Code::ServiceUnavailable, message)
}

/// A header whose value is one of ours.
pub(crate) const fn fixed(name: HeaderName, value: &'static str) -> (HeaderName, HeaderValue) {
    (name, HeaderValue::from_static(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_an_answer() {
        let answer = unwinding(async { panic!("no") }).await;
        assert_eq!(answer.unwrap_err().code(), Code::ServerError);
        let answer = unwinding(async { Ok(Reply::no_content()) }).await;
        assert_eq!(answer.unwrap().status(), 204);
        let admitted = caught(|| -> Admitted<()> { panic!("no") });
        assert_eq!(admitted.err().map(|error| error.code()), Some(Code::ServerError));
    }
}

//! Callbacks of the Cloud API: one goes to every shard that has a number of its app.
//!
//! The shard of the number in the address decides whether the callback is genuine. Then each other
//! shard gets it with the address of one of its own numbers, and takes the parts about its numbers.
//! Only shards whose numbers the callback names get it, unless a part of it may be about others. If
//! any shard does not take its part, the provider is refused. It repeats the callback, which
//! changes nothing for the other shards.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, Response, StatusCode, Uri, header};
use bytes::Bytes;
use postrider_actors::channel::cloud_api::envelope::numbers_of;
use postrider_actors::domain::NumberId;
use postrider_cluster::numbers::NumberHolder;
use tokio::task::JoinSet;

use super::front::Inner;
use super::peers::BESIDE;
use super::settled::outcome_unknown;
use crate::http::{
    ApiError, CALLBACK_BYTES_MAX, Code, ConnectionTimer, Holder, Peer, ReadDeadline,
    callback_address, read_raw,
};

/// The address of a number that does not exist.
const NOBODYS: &str = "/channels/cloud-api/num_00000000000000000000000000";
/// A callback without this header is refused before its body is read.
const SIGNATURE: HeaderName = HeaderName::from_static("x-hub-signature-256");

/// Parses the number from an address for callbacks; `None` if it is not one.
pub(super) fn number_of(path: &str) -> Option<NumberId> {
    path.strip_prefix(&callback_address(""))?.parse().ok()
}

/// Returns the refusal of a callback while the shards that have to take it are not known.
fn not_known() -> ApiError {
    let message = "the shards of the app's numbers are not known now; send it again";
    let error = ApiError::new(Code::ServiceUnavailable, message);
    error.because("no_owner").closing_with_body()
}

/// Takes callbacks for all shards.
#[derive(Clone)]
pub(super) struct Callbacks(pub(super) Arc<Inner>);

impl Callbacks {
    /// Delivers a callback to every shard that it may concern.
    pub(super) async fn take(&self, mut request: Request) -> Response<Body> {
        let inner = &self.0;
        let Some(number) = number_of(request.uri().path()) else {
            return inner.route(inner.any_shard(), request).await;
        };
        let holder = match self.holder(number).await {
            Ok(Some(holder)) => holder,
            Ok(None) => {
                // Any engine refuses an unknown number, and counts the guess. If the engine has the
                // number by now, it must not take its part for all.
                *request.uri_mut() = Uri::from_static(NOBODYS);
                return inner.route(inner.any_shard(), request).await;
            }
            Err(error) => {
                tracing::debug!(error, "the shard of a number is not known");
                return inner.shards.answers.refuse(request.headers(), not_known());
            }
        };
        let is_signed = request.headers().contains_key(SIGNATURE);
        let is_shared = request.method() == Method::POST && is_signed;
        let numbers = inner.shards.engines.numbers.get();
        let beside = numbers.filter(|_| is_shared).map(|it| it.list().beside(&holder));
        let Some(beside) = beside.filter(|it| !it.is_empty()) else {
            return inner.route(holder.shard, request).await;
        };
        let unknown = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let client = request.extensions().get::<Peer>().map_or(unknown, |peer| peer.0.ip());
        let mut lease = inner.bodies.lease(Holder::Stranger(client));
        let deadline = ReadDeadline { timeout: inner.body_timeout, drain: &inner.drain };
        let read = read_raw(request.body_mut(), CALLBACK_BYTES_MAX, &mut lease, deadline).await;
        let body = match read {
            Ok(body) => body,
            Err(error) => {
                let error = error.closing_with_body();
                return inner.shards.answers.refuse(request.headers(), error);
            }
        };
        let (mut parts, _) = request.into_parts();
        // Only the connection's own task may wait by this timer.
        parts.extensions.remove::<ConnectionTimer>();
        parts.headers.remove(header::TRANSFER_ENCODING);
        parts.headers.insert(header::CONTENT_LENGTH, body.len().into());
        let first = Request::from_parts(parts.clone(), Body::from(body.clone()));
        let answer = inner.route(holder.shard, first).await;
        if answer.status() != StatusCode::OK {
            return answer;
        }
        // It is genuine. Only now are the numbers known that it is about.
        let beside = match numbers.zip(numbers_of(&body)) {
            Some((numbers, names)) => {
                numbers.list().named(&holder, names.iter().map(|name| &**name))
            }
            None => beside,
        };
        self.deliver_all(beside, parts, body).await.unwrap_or(answer)
    }

    /// Returns the holder of a number, once every shard has reported its numbers.
    async fn holder(&self, number: NumberId) -> Result<Option<NumberHolder>, String> {
        let shards = &self.0.shards;
        let numbers = shards.engines.numbers.get();
        let numbers = numbers.ok_or_else(|| "the node is no member yet".to_owned())?;
        numbers.refresh().await.map_err(|error| error.to_string())?;
        if !numbers.list().is_complete(shards.node.cluster().1.shards) {
            return Err("not every shard has reported its numbers yet".to_owned());
        }
        Ok(numbers.holder(number))
    }

    /// Delivers the callback to each of these shards; returns the answer of one that refused.
    async fn deliver_all(
        &self,
        beside: BTreeMap<u16, Vec<String>>,
        parts: Parts,
        body: Bytes,
    ) -> Option<Response<Body>> {
        let mut delivering = JoinSet::new();
        for (shard, numbers) in beside {
            let (all, parts, body) = (self.clone(), parts.clone(), body.clone());
            delivering.spawn(async move { all.deliver(shard, numbers, &parts, body).await });
        }
        let mut refused = None;
        while let Some(outcome) = delivering.join_next().await {
            // A task that panicked may have delivered to its shard or not.
            let unknown = || self.0.shards.answers.refuse(&parts.headers, outcome_unknown());
            refused = refused.or(outcome.unwrap_or_else(|_| Some(unknown())));
        }
        refused
    }

    /// Delivers the callback to a shard; returns the shard's answer if it refused.
    async fn deliver(
        &self,
        shard: u16,
        numbers: Vec<String>,
        parts: &Parts,
        body: Bytes,
    ) -> Option<Response<Body>> {
        for number in &numbers {
            let mut request = Request::from_parts(parts.clone(), Body::from(body.clone()));
            // An id always makes a valid path.
            let Ok(uri) = callback_address(number).parse() else { continue };
            *request.uri_mut() = uri;
            request.headers_mut().insert(BESIDE, HeaderValue::from_static("1"));
            let answer = self.0.route(shard, request).await;
            match answer.status() {
                StatusCode::OK => return None,
                // The number was disconnected since, or has the secret of another app by now.
                StatusCode::NOT_FOUND
                | StatusCode::UNAUTHORIZED
                | StatusCode::TOO_MANY_REQUESTS => {}
                _ => return Some(answer),
            }
        }
        // The shard has nothing to take, unless it still holds one of the numbers.
        let answers = &self.0.shards.answers;
        let Some(list) = self.0.shards.engines.numbers.get() else {
            return Some(answers.refuse(&parts.headers, not_known()));
        };
        let is_left = |number: &String| {
            let id = number.parse().ok();
            id.and_then(|id| list.holder(id)).is_some_and(|it| it.shard == shard)
        };
        let is_delivered = list.refresh().await.is_ok() && !numbers.iter().any(is_left);
        (!is_delivered).then(|| answers.refuse(&parts.headers, not_known()))
    }
}

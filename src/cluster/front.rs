//! Answers clients: finds the shard of a request without its body, and who owns that now.
//!
//! A request of a shard that this node owns goes to its router. Any other is sent on to the owner,
//! and waits a moment if there is none. What was sent on is never sent on again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Method, Response, Uri, header};
use postrider_actors::clock::Stopwatch;
use postrider_actors::domain::WorkspaceId;
use postrider_actors::{home_of, home_told_by, key_mark};

use super::door::Shards;
use super::figures::Traffic;
use super::operate;
use super::operate::Operator;
use super::peers::{CLIENT, SHARD, TOKEN};
use super::settled::{no_owner, outcome_unknown};
use crate::http::pipeline::page_headers;
use crate::http::{AdminToken, Answering, ApiError, Code, Peer};
use crate::metrics::Metrics;
use crate::serve::Answers;

/// How long it is waited before an owner is looked for again.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);
/// Bodies up to this length are kept until the owner has taken the request. Nobody is known yet
/// when they are read, so all connections together must not take much.
const KEPT_BODY_BYTES_MAX: usize = 16 << 10;

/// The listener for clients.
#[derive(Clone)]
pub(super) struct Front(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) shards: Arc<Shards>,
    pub(super) admin_token: AdminToken,
    pub(super) metrics: Metrics,
    pub(super) traffic: Traffic,
    pub(super) warnings: Vec<String>,
    pub(super) hold: Duration,
    pub(super) body_timeout: Duration,
    /// How long another node may take to answer. One that stands still must not keep connections.
    pub(super) answer_within: Duration,
    /// Whether it was seen that the servers of NATS sync every message.
    pub(super) is_synced: bool,
}

/// Where a request goes.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// This node answers it.
    Node,
    /// The list of all workspaces, or a new one.
    Workspaces,
    /// The owner of a shard answers it.
    Home(u16),
    /// Any engine answers it, in the same way.
    Any,
    /// It does not work in a cluster yet.
    Missing,
}

/// How sending on ended.
enum Sent {
    Answered(Response<Body>),
    /// Nothing was done; this is the request again, if it can be sent again.
    NotTaken(Option<Request>),
    Unknown,
}

impl Answers for Front {
    fn answer(&self, mut request: Request) -> Answering {
        let inner = self.0.clone();
        for name in [TOKEN, SHARD, CLIENT] {
            request.headers_mut().remove(name);
        }
        let is_private = page_headers::is_private(request.uri().path());
        Box::pin(async move {
            let mut response = match inner.way(request.uri().path(), request.headers()) {
                Way::Node if inner.is_a_guess(&request) => {
                    // An engine counts who guesses, and refuses them for a time.
                    *request.uri_mut() = Uri::from_static("/admin/v1/workspaces");
                    inner.route(inner.any_shard(), request).await
                }
                Way::Node if request.uri().path().starts_with(operate::PREFIX) => {
                    Operator(&inner).answer(request).await
                }
                Way::Node => inner.answer_itself(&request),
                Way::Workspaces if request.method() == Method::POST => inner.create(request).await,
                Way::Workspaces if request.method() == Method::GET => inner.gather(request).await,
                Way::Workspaces => inner.has_no_such_method(request.headers()),
                Way::Home(home) => inner.route(inner.shard_of(home), request).await,
                Way::Any => inner.route(inner.any_shard(), request).await,
                Way::Missing => {
                    let error = ApiError::not_found("this does not work in a cluster yet");
                    inner.shards.answers.refuse(request.headers(), error.closing_with_body())
                }
            };
            // An engine's answers have them already.
            page_headers::add_common_headers(response.headers_mut(), is_private);
            response
        })
    }
}

/// Where a request goes, by its path and its key.
fn way(path: &str, headers: &HeaderMap, home: impl Fn(&str) -> Option<u16>) -> Way {
    let named = |name: &str| {
        let name = name.split('/').next().unwrap_or_default();
        name.parse().map_or(Way::Any, |id: WorkspaceId| Way::Home(home_of(&id)))
    };
    let is_own = matches!(path, "/healthz" | "/readyz" | "/metrics" | "/admin/v1/cluster");
    if is_own || path.starts_with(operate::PREFIX) {
        Way::Node
    } else if path == "/admin/v1/workspaces" {
        Way::Workspaces
    } else if let Some(rest) = path.strip_prefix("/admin/v1/workspaces/") {
        named(rest)
    } else if path.starts_with("/v1/") {
        bearer(headers).and_then(home).map_or(Way::Any, Way::Home)
    } else if let Some(rest) = path.strip_prefix("/channels/email/") {
        named(rest)
    } else if let Some(rest) = path.strip_prefix("/channels/sms/") {
        named(rest)
    } else if path.starts_with("/admin/v1/") || path.starts_with("/channels/") {
        Way::Missing
    } else {
        Way::Any
    }
}

pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

impl Inner {
    pub(super) fn shard_of(&self, home: u16) -> u16 {
        self.shards.node.cluster().1.shard_of(home)
    }

    fn way(&self, path: &str, headers: &HeaderMap) -> Way {
        let node = &self.shards.node;
        // A key that an import has brought tells nothing.
        let known = |key: &str| node.home_of_key(&key_mark(key)?);
        way(path, headers, |key| home_told_by(key).or_else(|| known(key)))
    }

    fn any_shard(&self) -> u16 {
        self.shards.engines.any().unwrap_or(0)
    }

    /// Has the owner of a shard answer a request, and waits a moment for an owner.
    pub(super) async fn route(&self, shard: u16, mut request: Request) -> Response<Body> {
        let watch = Stopwatch::start();
        let client = request.extensions().get::<Peer>().map(|peer| peer.0);
        let headers = request.headers().clone();
        let refuse = |error| self.shards.answers.refuse(&headers, error);
        let mut held = None;
        loop {
            if let Some(app) = self.shards.local(shard) {
                return self.shards.answer(&app, shard, request).await;
            }
            let seen = self.shards.node.seen();
            let owner = seen.owner(shard).filter(|(name, ..)| *name != self.shards.node.name());
            if let Some((_, record, _)) = owner {
                let sent = self.send_on(shard, &record.advertise, client, request).await;
                self.traffic.forwarded(match &sent {
                    Ok(Sent::Answered(_)) => 0,
                    Ok(Sent::NotTaken(_)) => 1,
                    Ok(Sent::Unknown) | Err(_) => 2,
                });
                match sent {
                    Ok(Sent::Answered(response)) => return response,
                    Ok(Sent::NotTaken(Some(again))) => request = again,
                    Ok(Sent::NotTaken(None)) => return refuse(no_owner(shard)),
                    Ok(Sent::Unknown) => return refuse(outcome_unknown()),
                    Err(error) => return refuse(error),
                }
            }
            if watch.elapsed() >= self.hold {
                self.traffic.no_owner.increment(1);
                return refuse(no_owner(shard));
            }
            held.get_or_insert_with(|| self.traffic.hold());
            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
        }
    }

    async fn send_on(
        &self,
        shard: u16,
        address: &str,
        client: Option<SocketAddr>,
        request: Request,
    ) -> Result<Sent, ApiError> {
        let (parts, body) = request.into_parts();
        let length = parts.headers.get(header::CONTENT_LENGTH);
        let length = length.map_or(Some(0), |it| it.to_str().ok()?.parse::<usize>().ok());
        let is_chunked = parts.headers.contains_key(header::TRANSFER_ENCODING);
        let is_kept = !is_chunked && length.is_some_and(|it| it <= KEPT_BODY_BYTES_MAX);
        let (body, kept) = if is_kept {
            let read = tokio::time::timeout(self.body_timeout, to_bytes(body, KEPT_BODY_BYTES_MAX));
            let late = || ApiError::new(Code::RequestTimeout, "the body did not come in time");
            let bytes = read.await.map_err(|_| late())?.map_err(|_| late())?;
            (Body::from(bytes.clone()), Some(bytes))
        } else {
            (body, None)
        };
        let is_safe = parts.method == Method::GET || parts.method == Method::HEAD;
        let again = |kept| Request::from_parts(parts.clone(), Body::from(kept));
        let sent = Request::from_parts(parts.clone(), body);
        let forwarded = self.shards.peers.forward(address, shard, client, sent);
        let Ok(answer) = tokio::time::timeout(self.answer_within, forwarded).await else {
            tracing::debug!(shard, "the owner did not answer in time");
            return Ok(if is_safe { Sent::NotTaken(kept.map(again)) } else { Sent::Unknown });
        };
        Ok(match answer {
            // Only a node that does not own the shard says so.
            Ok(response) if response.headers().contains_key(SHARD) => {
                Sent::NotTaken(kept.map(again))
            }
            Ok(response) => {
                let mut response = response.map(Body::new);
                // The connection to the owner is none of the client's.
                response.headers_mut().remove(header::CONNECTION);
                response.headers_mut().remove(header::TRANSFER_ENCODING);
                Sent::Answered(response)
            }
            Err(error) if error.is_connect() || is_safe => Sent::NotTaken(kept.map(again)),
            Err(error) => {
                tracing::debug!(%error, shard, "the owner did not answer");
                Sent::Unknown
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn home(name: &str) -> Way {
        Way::Home(home_of(&name.parse().unwrap()))
    }

    #[test]
    fn a_request_goes_to_the_home_of_its_workspace() {
        let none = HeaderMap::new();
        for (path, expected) in [
            ("/readyz", Way::Node),
            ("/admin/v1/cluster", Way::Node),
            ("/admin/v1/cluster/nodes/pr-1/drain", Way::Node),
            ("/admin/v1/workspaces", Way::Workspaces),
            ("/admin/v1/workspaces/acme", home("acme")),
            ("/admin/v1/workspaces/acme/keys", home("acme")),
            ("/admin/v1/workspaces/ACME/keys", Way::Any),
            ("/admin/v1/tokens", Way::Missing),
            ("/channels/email/acme", home("acme")),
            ("/channels/cloud-api/num_1", Way::Missing),
            ("/v1/otp/send", Way::Any),
            ("/docs", Way::Any),
        ] {
            assert_eq!(way(path, &none, home_told_by), expected, "{path}");
        }
        // 32 bytes of zeros and the home 0x0102.
        let key = format!("Bearer pr_{}BAg", "A".repeat(43));
        let headers =
            HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::try_from(key).unwrap())]);
        assert_eq!(way("/v1/otp/send", &headers, home_told_by), Way::Home(0x0102));
    }
}

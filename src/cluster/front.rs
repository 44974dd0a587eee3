//! Answers clients: finds the shard of a request without its body, and the current owner of it.
//!
//! A request of a shard that this node owns goes to its router. Any other is forwarded to the
//! owner, and waits a moment if there is none. A forwarded request is never forwarded again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method, Response, Uri, header};
use postrider_actors::clock::Stopwatch;
use postrider_actors::domain::WorkspaceId;
use postrider_actors::{home_in_key, home_of, key_mark};
use postrider_cluster::coordination::NodeRecord;

use super::asking::PEOPLE;
use super::callbacks::Callbacks;
use super::callers::head_of;
use super::door::Shards;
use super::figures::Traffic;
use super::operate::Operator;
use super::peers::{BESIDE, CLIENT, COUNTED, SHARD, TOKEN};
use super::relayed::Relayed;
use super::sending::{Moving, answer};
use super::settled::{no_owner, outcome_unknown};
use super::shown::{OPERATIONS, admin_token, bearer};
use crate::http::pipeline::headers::{add_common_headers, is_private};
use crate::http::{
    AdminToken, Answering, ApiError, BodyBudget, Code, Drain, Peer, Query, callback_address,
    check_page, longest_of,
};
use crate::metrics::Metrics;
use crate::serve::Answers;

const WORKSPACE: HeaderName = HeaderName::from_static("postrider-workspace");
pub(super) const WORKSPACES: &str = "/admin/v1/workspaces";
const OVERVIEW: &str = "/admin/v1/overview";
const AUDIT: &str = "/admin/v1/audit";
const AUDIT_CHECK: &str = "/admin/v1/audit/check";
/// The wait before an owner is looked up again.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);
/// Bodies up to this length are kept until the owner has taken the request. They are read before
/// the caller is known, so all connections together must not take much memory.
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
    /// The time another node may take to answer once it has the last part of the body.
    ///
    /// A node that hangs must not keep connections.
    pub(super) answer_within: Duration,
    /// The budget for bodies in memory that several shards need.
    pub(super) bodies: Arc<BodyBudget>,
    pub(super) drain: Drain,
}

/// The destination of a request.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// This node answers it.
    Node,
    /// The list of all workspaces, or a new one.
    Workspaces,
    /// All workspaces at a glance.
    Overview,
    /// The audit log of all shards.
    Audit,
    /// The owner of a shard answers it.
    Home(u16),
    /// The shard of people answers it.
    People,
    /// The shard of the only workspace of the person who has signed in.
    Session,
    /// A callback of the Cloud API, which several shards may have to take.
    Callback,
    /// Any engine answers it, in the same way.
    Any,
}

/// The outcome of forwarding a request.
enum Sent {
    Answered(Response<Body>),
    /// Nothing was done; this is the request, if it can be sent again.
    NotTaken(Option<Request>),
    Unknown,
}

impl Answers for Front {
    fn answer(&self, mut request: Request) -> Answering {
        let inner = self.0.clone();
        for name in [TOKEN, SHARD, CLIENT, COUNTED, BESIDE] {
            request.headers_mut().remove(name);
        }
        let is_private = is_private(request.uri().path());
        Box::pin(async move {
            let mut response = match inner.way(request.uri(), request.headers()) {
                Way::Node
                    if inner.is_a_guess(&request) && !inner.is_token(head_of(&request)).await =>
                {
                    // An engine knows the signed-in people, and counts guesses.
                    inner.route(inner.any_shard(), request).await
                }
                Way::Node if request.uri().path().starts_with(OPERATIONS) => {
                    Operator(&inner).answer(request).await
                }
                Way::Node => inner.answer_itself(&request),
                Way::Audit if request.method() != Method::GET => {
                    inner.has_no_such_method(request.headers())
                }
                Way::Audit if request.uri().path() == AUDIT => inner.audit(request).await,
                Way::Audit => inner.check_audit(request).await,
                Way::Workspaces if request.method() == Method::POST => inner.create(request).await,
                Way::Workspaces if request.method() == Method::GET => {
                    inner.gather(request, WORKSPACES, "id").await
                }
                Way::Overview if request.method() == Method::GET => {
                    inner.gather(request, OVERVIEW, "workspace").await
                }
                Way::Workspaces | Way::Overview => inner.has_no_such_method(request.headers()),
                Way::Home(home) => {
                    let deleted = deleted_workspace(&request);
                    let response = inner.route(inner.shard_of(home), request).await;
                    if let Some(id) = deleted.filter(|_| response.status().is_success()) {
                        inner.forget_members(id).await;
                    }
                    response
                }
                Way::People => inner.route(PEOPLE, request).await,
                Way::Session => inner.of_session(request).await,
                Way::Callback => Callbacks(inner.clone()).take(request).await,
                Way::Any => inner.route(inner.any_shard(), request).await,
            };
            // An engine's answers have them already.
            add_common_headers(response.headers_mut(), is_private);
            response
        })
    }
}

/// Returns the destination of a request, by its path and its key.
fn way(path: &str, headers: &HeaderMap, home: impl Fn(&str) -> Option<u16>) -> Way {
    let named = |name: &str| {
        let name = name.split('/').next().unwrap_or_default();
        name.parse().map_or(Way::Any, |id: WorkspaceId| Way::Home(home_of(&id)))
    };
    let is_own = matches!(path, "/healthz" | "/readyz" | "/metrics" | "/admin/v1/cluster");
    if is_own || path.starts_with(OPERATIONS) {
        Way::Node
    } else if path == WORKSPACES {
        Way::Workspaces
    } else if path == OVERVIEW {
        Way::Overview
    } else if matches!(path, AUDIT | AUDIT_CHECK) {
        Way::Audit
    } else if is_of_people(path) {
        Way::People
    } else if let Some(rest) = path.strip_prefix("/admin/v1/workspaces/") {
        named(rest)
    } else if path.starts_with("/v1/") {
        bearer(headers).and_then(home).map_or(Way::Any, Way::Home)
    } else if let Some(rest) = path.strip_prefix("/channels/email/") {
        named(rest)
    } else if let Some(rest) = path.strip_prefix("/channels/sms/") {
        named(rest)
    } else if path.starts_with(&callback_address("")) {
        Way::Callback
    } else {
        Way::Any
    }
}

/// Returns whether a path is about people, their sessions or the tokens of administrators.
fn is_of_people(path: &str) -> bool {
    let of_workspace = path.strip_prefix("/admin/v1/workspaces/");
    let below = of_workspace.and_then(|it| it.split('/').nth(1));
    let begins = |root: &str| {
        path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    matches!(below, Some("members" | "invites"))
        || path.starts_with("/ui/api/")
        || begins("/admin/v1/users")
        || begins("/admin/v1/tokens")
}

/// Returns the workspace that a page names, by the header or, for a stream, in the query.
fn named_by_page(uri: &Uri, headers: &HeaderMap) -> Option<WorkspaceId> {
    if let Some(value) = headers.get(&WORKSPACE) {
        return value.to_str().ok()?.parse().ok();
    }
    let query = Query::of(uri).ok().filter(|_| uri.path() == "/v1/events/stream")?;
    query.text("workspace").ok().flatten()?.parse().ok()
}

/// Returns the workspace that a request deletes.
fn deleted_workspace(request: &Request) -> Option<WorkspaceId> {
    let path = request.uri().path().strip_prefix("/admin/v1/workspaces/")?;
    if request.method() == Method::DELETE { path.parse().ok() } else { None }
}

impl Inner {
    pub(super) fn shard_of(&self, home: u16) -> u16 {
        self.shards.shard_of(home)
    }

    /// Returns whether a request shows a valid admin token other than that of the settings.
    async fn is_token(&self, head: Parts) -> bool {
        let Some(token) = admin_token(&head.headers) else { return false };
        let shown = self.shards.token_shown(self.any_shard(), token, &head).await;
        shown.is_ok_and(|info| info.is_some())
    }

    /// Routes a request to the shard of the only workspace of the signed-in person.
    ///
    /// Without one, or with several, the shard of people answers: there the workspace must be
    /// named.
    async fn of_session(&self, request: Request) -> Response<Body> {
        let (any, head) = (self.any_shard(), head_of(&request));
        let is_ours = check_page(&self.shards.engines.app.dashboard, &head).is_ok();
        let Some(token) = self.shards.session_token(&head.headers).filter(|_| is_ours) else {
            return self.route(any, request).await;
        };
        let session = match self.shards.session_shown(any, (token, false), &head).await {
            Ok(session) => session,
            Err(error) => return self.shards.answers.refuse(&head.headers, error),
        };
        // The engine of people counts it too, but on another node.
        if session.is_none() && any != PEOPLE {
            self.shards.count_try(any, &head);
        }
        let person = session.and_then(|it| it.visit().0.person);
        let shard = match person.as_ref().map(|it| it.memberships.as_slice()) {
            Some([only]) => self.shard_of(home_of(&only.workspace)),
            _ => PEOPLE,
        };
        self.route(shard, request).await
    }

    fn way(&self, uri: &Uri, headers: &HeaderMap) -> Way {
        let path = uri.path();
        let is_by_cookie = headers.contains_key(header::COOKIE) && bearer(headers).is_none();
        if path.starts_with("/v1/") && is_by_cookie {
            let named = named_by_page(uri, headers);
            return named.map_or(Way::Session, |id| Way::Home(home_of(&id)));
        }
        let node = &self.shards.node;
        // A key from an import does not name its home.
        let known = |key: &str| node.home_of_key(&key_mark(key)?);
        way(path, headers, |key| home_in_key(key).or_else(|| known(key)))
    }

    pub(super) fn any_shard(&self) -> u16 {
        self.shards.engines.any().unwrap_or(0)
    }

    /// Routes a request to the owner of a shard, and waits a moment for an owner.
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
                let sent = self.send_on(shard, record, client, request).await;
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
        owner: &NodeRecord,
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
        let (body, moved) = Moving::new(body);
        let sent = Request::from_parts(parts.clone(), Body::new(body));
        let forwarded = self.shards.peers.forward(&owner.advertise, shard, client, sent);
        // The owner bounds how long the body may take, too.
        let length = length.filter(|_| !is_chunked).map(|it| it as u64);
        let longest = self.answer_within + longest_of(length);
        let Some(answer) = answer(forwarded, &moved, self.answer_within, longest).await else {
            tracing::debug!(shard, "the owner did not answer in time");
            return Ok(if is_safe { Sent::NotTaken(kept.map(again)) } else { Sent::Unknown });
        };
        Ok(match answer {
            // Only a node that does not own the shard sets this header.
            Ok(response) if response.headers().contains_key(SHARD) => {
                Sent::NotTaken(kept.map(again))
            }
            Ok(response) => {
                let is_owner = self.shards.is_owned_by(shard, owner.incarnation);
                let relayed = |body| Body::new(Relayed::new(Body::new(body), is_owner));
                let mut response = response.map(relayed);
                // The connection to the owner has nothing to do with the client's.
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
            ("/admin/v1/tokens", Way::People),
            ("/admin/v1/overview", Way::Overview),
            ("/admin/v1/system", Way::Any),
            ("/admin/v1/archive", Way::Any),
            ("/channels/email/acme", home("acme")),
            ("/channels/cloud-api/num_1", Way::Callback),
            ("/v1/otp/send", Way::Any),
            ("/docs", Way::Any),
        ] {
            assert_eq!(way(path, &none, home_in_key), expected, "{path}");
        }
        // 32 bytes of zeros and the home 0x0102.
        let key = format!("Bearer pr_{}BAg", "A".repeat(43));
        let headers =
            HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::try_from(key).unwrap())]);
        assert_eq!(way("/v1/otp/send", &headers, home_in_key), Way::Home(0x0102));
    }
}

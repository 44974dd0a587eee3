//! Answers the other nodes: requests that they forward, and requests for the release of a shard.

use std::sync::{Arc, Mutex};

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, Method, Response, StatusCode, Uri};
use postrider_cluster::shard::ReleaseAnswer;
use postrider_cluster::{Node, NodeName};

use super::engines::Engines;
use super::kept::{self, Place};
use super::known::KnownTokens;
use super::peers::{BESIDE, CLIENT, COUNTED, Peers, SHARD, TOKEN};
use super::questions::Question;
use super::settled::{OwnAnswers, outcome_unknown};
use super::shown::OPERATIONS;
use crate::http::elsewhere::CallbackBeside;
use crate::http::{Answering, App, Peer};
use crate::serve::Answers;

/// The maximum size of a question in bytes.
const QUESTION_BYTES_MAX: usize = 1 << 20;

/// The parts that both of a node's listeners need.
pub(super) struct Shards {
    pub(super) node: Node,
    pub(super) engines: Arc<Engines>,
    pub(super) peers: Peers,
    /// The reasons why traffic of the listener for nodes can be read on its way.
    pub(super) exposure: Vec<String>,
    pub(super) answers: OwnAnswers,
    /// The tokens of administrators and sessions that were valid.
    pub(super) known: Mutex<KnownTokens>,
}

impl Shards {
    /// The interface of a shard, if this node may answer for it now.
    pub(super) fn local(&self, shard: u16) -> Option<App> {
        let app = self.node.gate().admits(shard).then(|| self.engines.app(shard));
        app.flatten()
    }

    /// Returns a check whether this process of a node may still own the shard.
    ///
    /// It may for as long as this node has seen no other owner.
    pub(super) fn is_owned_by(
        self: &Arc<Self>,
        shard: u16,
        incarnation: [u8; 16],
    ) -> impl Fn() -> bool + Send + Unpin + use<> {
        let shards = Arc::downgrade(self);
        move || {
            let seen = shards.upgrade().map(|shards| shards.node.seen());
            seen.as_ref()
                .and_then(|seen| seen.owner(shard))
                .is_none_or(|(_, record, _)| record.incarnation == incarnation)
        }
    }

    /// Answers a request by the engine of a shard.
    ///
    /// The engine's answer counts only if the node may still answer afterwards.
    pub(super) async fn answer(
        self: &Arc<Self>,
        app: &App,
        shard: u16,
        mut request: Request,
    ) -> Response<Body> {
        let id: HeaderMap = request_id_of(request.headers());
        let counts = request.headers_mut().remove(COUNTED).is_none();
        if request.headers_mut().remove(BESIDE).is_some() {
            request.extensions_mut().insert(CallbackBeside);
        }
        if let Err(error) = self.inform(shard, counts, &mut request).await {
            return self.answers.refuse(&id, error);
        }
        // It is about no shard's records, and may move this shard away.
        let is_operation = request.uri().path().starts_with(OPERATIONS);
        let response = app.answer(request).await;
        if is_operation || self.node.gate().answers(shard) {
            return response;
        }
        self.answers.refuse(&id, outcome_unknown())
    }
}

/// The request's id, for a refusal after the request was consumed.
fn request_id_of(headers: &HeaderMap) -> HeaderMap {
    let name: HeaderName = crate::http::request_id::HEADER;
    let id = headers.get(&name).cloned();
    id.map(|id| HeaderMap::from_iter([(name, id)])).unwrap_or_default()
}

/// The listener for other nodes.
#[derive(Clone)]
pub(super) struct Door(pub(super) Arc<Shards>);

impl Answers for Door {
    fn answer(&self, request: Request) -> Answering {
        let shards = self.0.clone();
        Box::pin(async move { answer(shards, request).await })
    }
}

async fn answer(shards: Arc<Shards>, mut request: Request) -> Response<Body> {
    if !shards.peers.are_shown(request.headers()) {
        let mut response = plain(StatusCode::UNAUTHORIZED, "this address is for other nodes");
        // A node with another master key must not take this for an engine's answer.
        let shard = request.headers().get(SHARD).cloned();
        shard.map(|shard| response.headers_mut().insert(SHARD, shard));
        return response;
    }
    let headers = request.headers_mut();
    headers.remove(TOKEN);
    let client = headers.remove(CLIENT).and_then(|it| it.to_str().ok()?.parse().ok());
    let shard = headers.remove(SHARD).and_then(|it| it.to_str().ok()?.parse::<u16>().ok());
    let Some(shard) = shard else {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        return match (asked_shard(&uri, "/ask"), asked_shard(&uri, "/entries")) {
            (Some(shard), _) => answer_question(&shards, shard, request).await,
            (_, Some(shard)) => entries(&shards, shard, &uri).await,
            (None, None) => release(shards, method, uri).await,
        };
    };
    if let Some(client) = client {
        request.extensions_mut().insert(Peer(client));
    }
    match shards.local(shard) {
        Some(app) => shards.answer(&app, shard, request).await,
        None => {
            let text = "this node does not own the shard";
            let mut response = plain(StatusCode::MISDIRECTED_REQUEST, text);
            // An engine may answer with this status too, for a name that is not its own.
            response.headers_mut().insert(SHARD, shard.into());
            response
        }
    }
}

/// Parses the shard in the path of a question with this end.
fn asked_shard(uri: &Uri, end: &str) -> Option<u16> {
    uri.path().strip_prefix("/cluster/v1/shards/")?.strip_suffix(end)?.parse().ok()
}

/// `GET /cluster/v1/shards/{shard}/entries?from={place}`: a part of the retained entries of this
/// node, for a repair, and the place at which they continue.
async fn entries(shards: &Arc<Shards>, shard: u16, uri: &Uri) -> Response<Body> {
    let from = uri.query().and_then(|query| query.strip_prefix("from=")).and_then(Place::parse);
    let Some(from) = from else {
        return plain(StatusCode::BAD_REQUEST, "a place is missing");
    };
    let dir = kept::directory(shards.engines.directory.path(), shard);
    let read = move || kept::some_from(&dir, &from);
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(bytes)) => Response::new(Body::from(bytes)),
        Ok(Err(_)) | Err(_) => plain(StatusCode::SERVICE_UNAVAILABLE, "they cannot be read"),
    }
}

async fn answer_question(shards: &Arc<Shards>, shard: u16, request: Request) -> Response<Body> {
    let body = to_bytes(request.into_body(), QUESTION_BYTES_MAX).await.unwrap_or_default();
    let Ok(question) = serde_json::from_slice::<Question>(&body) else {
        return plain(StatusCode::BAD_REQUEST, "there is no such question");
    };
    let answer = shards.answer_question(shard, question).await;
    match answer.and_then(|answer| serde_json::to_vec(&answer).ok()) {
        Some(bytes) => Response::new(Body::from(bytes)),
        None => plain(StatusCode::MISDIRECTED_REQUEST, "this node does not own the shard"),
    }
}

/// `POST /cluster/v1/shards/{shard}/release?by={node}`
async fn release(shards: Arc<Shards>, method: Method, uri: Uri) -> Response<Body> {
    let path = uri.path().strip_prefix("/cluster/v1/shards/");
    let shard = path.and_then(|path| path.strip_suffix("/release")?.parse::<u16>().ok());
    let by = uri.query().and_then(|query| query.strip_prefix("by="));
    let by = by.and_then(|by| NodeName::new(by).ok());
    let (Some(shard), Some(by), Method::POST) = (shard, by, method) else {
        return plain(StatusCode::NOT_FOUND, "there is no such route");
    };
    let asked = tokio::task::spawn_blocking(move || shards.node.release(shard, by)).await;
    match asked.ok().flatten() {
        Some(ReleaseAnswer::Accepted) => plain(StatusCode::OK, "accepted"),
        Some(ReleaseAnswer::NotOwner) => plain(StatusCode::OK, "not_owner"),
        Some(ReleaseAnswer::Busy) => plain(StatusCode::OK, "busy"),
        None => plain(StatusCode::SERVICE_UNAVAILABLE, "no answer in time"),
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response
}

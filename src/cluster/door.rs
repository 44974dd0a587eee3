//! Answers the other nodes: requests that they send on, and the wish to have a shard.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, Method, Response, StatusCode, Uri};
use postrider_cluster::shard::ReleaseAnswer;
use postrider_cluster::{Node, NodeName};

use super::engines::Engines;
use super::peers::{CLIENT, Peers, SHARD, TOKEN};
use super::settled::{OwnAnswers, outcome_unknown};
use crate::http::{Answering, App, Peer};
use crate::serve::Answers;

/// What both of a node's listeners need.
pub(super) struct Shards {
    pub(super) node: Node,
    pub(super) engines: Arc<Engines>,
    pub(super) peers: Peers,
    pub(super) answers: OwnAnswers,
}

impl Shards {
    /// The interface of a shard, if this node may answer for it now.
    pub(super) fn local(&self, shard: u16) -> Option<App> {
        let app = self.node.gate().admits(shard).then(|| self.engines.app(shard));
        app.flatten()
    }

    /// Answers a request by the engine of a shard. What that says counts only if the node may
    /// still answer when it has said it.
    pub(super) async fn answer(&self, app: &App, shard: u16, request: Request) -> Response<Body> {
        let id: HeaderMap = request_id_of(request.headers());
        let response = app.answer(request).await;
        if self.node.gate().answers(shard) {
            return response;
        }
        self.answers.refuse(&id, outcome_unknown())
    }
}

/// The request's id, for a refusal after the request is gone.
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
        // A node with another master key must not take this for the answer of an engine.
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
        return release(shards, method, uri).await;
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

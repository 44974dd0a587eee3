//! The HTTP client for other nodes, and for the monitoring addresses of NATS.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::request::Builder;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use postrider_cluster::NodeName;
use postrider_cluster::nats::preflight::Monitor;
use postrider_cluster::shard::ReleaseAnswer;
use tokio::runtime::Handle;

use super::encrypted::{Connector, Encryption, NodeTls, to_monitor};
use super::error::ClusterError;
use super::kept::Place;
use super::questions::{PeerAnswer, Question};
use crate::settings::Cluster;

/// The header of the token between nodes.
pub(super) const TOKEN: HeaderName = HeaderName::from_static("x-postrider-cluster");
/// The header of the shard that a request is for.
pub(super) const SHARD: HeaderName = HeaderName::from_static("x-postrider-shard");
/// The header of a request that is a part of one that was counted already.
pub(super) const COUNTED: HeaderName = HeaderName::from_static("x-postrider-counted");
/// The header of a callback that came to the address of another shard's number.
pub(super) const BESIDE: HeaderName = HeaderName::from_static("x-postrider-beside");
/// The header of the client's address and port.
pub(super) const CLIENT: HeaderName = HeaderName::from_static("x-postrider-client");
/// The time that an idle connection is kept: the other node closes it later.
const IDLE_FOR: Duration = Duration::from_secs(4);
/// The timeout of a short answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// The timeout of a page of entries. It allows for a slow disk, as a missing answer may lose data.
const ENTRIES_WITHIN: Duration = Duration::from_secs(30);
/// The maximum size of a page in bytes.
const PAGE_BYTES_MAX: usize = 4 << 20;

/// The client. Clones share its connections.
#[derive(Debug, Clone)]
pub(super) struct Peers {
    client: Client<Connector, Body>,
    /// The client for monitoring addresses. It sends no secrets, and uses other roots.
    monitor: Client<Connector, Body>,
    /// The TLS settings between nodes; `None` if there is no encryption.
    pub(super) tls: Option<Arc<NodeTls>>,
    /// The token that nodes show each other; never logged.
    token: HeaderValue,
    /// The runtime on which blocking callers wait.
    runtime: Handle,
}

impl Peers {
    /// Makes a client with this token. It must be made within the runtime.
    ///
    /// # Errors
    /// The errors of [`ClusterError`] about TLS.
    pub(super) fn new(token: String, settings: &Cluster) -> Result<Self, ClusterError> {
        let tls = NodeTls::of(settings)?.map(Arc::new);
        let client = client_of(tls.as_ref().map(|tls| tls.client.clone()));
        let monitor = client_of(to_monitor(settings)?);
        // Hexadecimal digits are a valid header value.
        let mut token =
            HeaderValue::try_from(token).unwrap_or_else(|_| HeaderValue::from_static(""));
        token.set_sensitive(true);
        Ok(Self { client, monitor, tls, token, runtime: Handle::current() })
    }

    /// Returns the URL of a path of the node at this address.
    fn url(&self, address: &str, path: &str) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{address}{path}")
    }

    /// Returns whether a request shows the token. It takes the same time for each wrong one.
    pub(super) fn are_shown(&self, headers: &HeaderMap) -> bool {
        use subtle::ConstantTimeEq;
        let shown = headers.get(TOKEN).map_or(&[][..], HeaderValue::as_bytes);
        !self.token.is_empty() && shown.ct_eq(self.token.as_bytes()).into()
    }

    /// Forwards a request for a shard to the node at this address.
    pub(super) async fn forward(
        &self,
        address: &str,
        shard: u16,
        client: Option<SocketAddr>,
        mut request: Request<Body>,
    ) -> Result<axum::http::Response<Incoming>, Error> {
        let path = request.uri().path_and_query().map_or("/", |it| it.as_str());
        // The address of a node and a received path make a valid URL.
        if let Ok(uri) = Uri::try_from(self.url(address, path)) {
            *request.uri_mut() = uri;
        }
        let headers = request.headers_mut();
        headers.remove(axum::http::header::CONNECTION);
        headers.insert(TOKEN, self.token.clone());
        headers.insert(SHARD, HeaderValue::from(shard));
        headers.remove(CLIENT);
        let client = client.and_then(|client| HeaderValue::try_from(client.to_string()).ok());
        client.map(|client| headers.insert(CLIENT, client));
        self.client.request(request).await
    }

    /// Asks the node at this address about a shard.
    ///
    /// `None`: the node does not own the shard, or has no answer now.
    pub(super) async fn ask(
        &self,
        address: &str,
        shard: u16,
        question: &Question,
    ) -> Result<Option<PeerAnswer>, String> {
        let url = self.url(address, &format!("/cluster/v1/shards/{shard}/ask"));
        let body = serde_json::to_vec(question).map_err(|error| error.to_string())?;
        let request = Request::post(url).header(TOKEN, self.token.clone());
        let request = request.body(Body::from(body)).map_err(|error| error.to_string())?;
        let asked = async {
            let response =
                self.client.request(request).await.map_err(|error| with_causes(&error))?;
            match response.status() {
                StatusCode::OK => {}
                StatusCode::MISDIRECTED_REQUEST => return Ok(None),
                status => return Err(format!("status {}", status.as_u16())),
            }
            let body = Limited::new(response.into_body(), PAGE_BYTES_MAX).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes();
            serde_json::from_slice(&body).map(Some).map_err(|error| error.to_string())
        };
        let asked = tokio::time::timeout(ANSWER_WITHIN, asked).await;
        asked.unwrap_or_else(|_| Err("no answer in time".to_owned()))
    }

    /// Returns a page of the entries that the node at this address has retained. Blocks.
    pub(super) fn entries(&self, address: &str, shard: u16, from: &Place) -> Result<Bytes, String> {
        let url = self.url(address, &format!("/cluster/v1/shards/{shard}/entries?from={from}"));
        let request = Request::get(url).header(TOKEN, self.token.clone());
        self.fetch(&self.client, request, ENTRIES_WITHIN)
    }

    /// Fetches the body of a short answer. Blocks.
    fn fetch(
        &self,
        by: &Client<Connector, Body>,
        request: Builder,
        within: Duration,
    ) -> Result<Bytes, String> {
        let request = request.body(Body::empty()).map_err(|error| error.to_string())?;
        let fetched = async {
            let response = by.request(request).await.map_err(|error| with_causes(&error))?;
            if !response.status().is_success() {
                return Err(format!("status {}", response.status().as_u16()));
            }
            let body = Limited::new(response.into_body(), PAGE_BYTES_MAX).collect().await;
            Ok(body.map_err(|error| error.to_string())?.to_bytes())
        };
        let fetched = async { tokio::time::timeout(within, fetched).await };
        self.runtime.block_on(fetched).unwrap_or_else(|_| Err("no answer in time".to_owned()))
    }

    /// Asks the node at this address to hand over a shard. Blocks.
    pub(super) fn ask_release(
        &self,
        address: &str,
        shard: u16,
        by: &NodeName,
    ) -> Option<ReleaseAnswer> {
        let url = self.url(address, &format!("/cluster/v1/shards/{shard}/release?by={by}"));
        let asked = Request::post(url).header(TOKEN, self.token.clone());
        match &*self.fetch(&self.client, asked, ANSWER_WITHIN).ok()? {
            b"accepted" => Some(ReleaseAnswer::Accepted),
            b"not_owner" => Some(ReleaseAnswer::NotOwner),
            b"busy" => Some(ReleaseAnswer::Busy),
            _ => None,
        }
    }
}

fn client_of(encryption: Option<Encryption>) -> Client<Connector, Body> {
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_FOR)
        .build(Connector::new(encryption))
}

impl Monitor for Peers {
    fn page(&self, url: &str) -> Result<String, String> {
        let body = self.fetch(&self.monitor, Request::get(url), ANSWER_WITHIN)?;
        String::from_utf8(body.into()).map_err(|error| error.to_string())
    }
}

/// Formats an error with its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

//! The HTTP client for other nodes, and for the monitoring addresses of NATS.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use postrider_cluster::NodeName;
use postrider_cluster::nats::preflight::Monitor;
use postrider_cluster::shard::ReleaseAnswer;
use tokio::runtime::Handle;

/// The header of the token between nodes.
pub(super) const TOKEN: HeaderName = HeaderName::from_static("x-postrider-cluster");
/// The header of the shard that a request is for.
pub(super) const SHARD: HeaderName = HeaderName::from_static("x-postrider-shard");
/// The header of the client's address and port.
pub(super) const CLIENT: HeaderName = HeaderName::from_static("x-postrider-client");
/// Longest wait for a connection to another node.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);
/// For how long a connection is kept that has nothing to do: the other node closes it later.
const IDLE_FOR: Duration = Duration::from_secs(4);
/// Longest wait for a short answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Most bytes of one.
const PAGE_BYTES_MAX: usize = 4 << 20;

/// The client. Clones share its connections.
#[derive(Debug, Clone)]
pub(super) struct Peers {
    client: Client<HttpConnector, Body>,
    /// What nodes show each other; never logged.
    token: HeaderValue,
    /// Where blocking callers wait.
    runtime: Handle,
}

impl Peers {
    /// A client of this token. It must be made within the runtime.
    pub(super) fn new(token: String) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_WITHIN));
        connector.set_nodelay(true);
        // Hexadecimal digits are a header value.
        let mut token =
            HeaderValue::try_from(token).unwrap_or_else(|_| HeaderValue::from_static(""));
        token.set_sensitive(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_FOR)
            .build(connector);
        Self { client, token, runtime: Handle::current() }
    }

    /// Whether a request shows the token. It takes the same time for each wrong one.
    pub(super) fn are_shown(&self, headers: &HeaderMap) -> bool {
        use subtle::ConstantTimeEq;
        let shown = headers.get(TOKEN).map_or(&[][..], HeaderValue::as_bytes);
        !self.token.is_empty() && shown.ct_eq(self.token.as_bytes()).into()
    }

    /// Sends a request for a shard on to the node at this address.
    pub(super) async fn forward(
        &self,
        address: &str,
        shard: u16,
        client: Option<SocketAddr>,
        mut request: Request<Body>,
    ) -> Result<axum::http::Response<Incoming>, Error> {
        let path = request.uri().path_and_query().map_or("/", |it| it.as_str());
        // An address of a node and a path that was received make an address.
        if let Ok(uri) = Uri::try_from(format!("http://{address}{path}")) {
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

    /// The body of a short answer. Blocks.
    fn fetch(&self, method: Method, url: &str) -> Result<String, String> {
        let request = Request::builder().method(method).uri(url).header(TOKEN, self.token.clone());
        let request = request.body(Body::empty()).map_err(|error| error.to_string())?;
        let fetched = async {
            let response = self.client.request(request).await.map_err(|error| told(&error))?;
            if !response.status().is_success() {
                return Err(format!("status {}", response.status().as_u16()));
            }
            let body = Limited::new(response.into_body(), PAGE_BYTES_MAX).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes();
            String::from_utf8(body.into()).map_err(|error| error.to_string())
        };
        let fetched = async { tokio::time::timeout(ANSWER_WITHIN, fetched).await };
        self.runtime.block_on(fetched).unwrap_or_else(|_| Err("no answer in time".to_owned()))
    }

    /// Asks the node at this address to hand a shard over. Blocks.
    pub(super) fn ask_release(
        &self,
        address: &str,
        shard: u16,
        by: &NodeName,
    ) -> Option<ReleaseAnswer> {
        let url = format!("http://{address}/cluster/v1/shards/{shard}/release?by={by}");
        match self.fetch(Method::POST, &url).ok()?.as_str() {
            "accepted" => Some(ReleaseAnswer::Accepted),
            "not_owner" => Some(ReleaseAnswer::NotOwner),
            "busy" => Some(ReleaseAnswer::Busy),
            _ => None,
        }
    }
}

impl Monitor for Peers {
    fn page(&self, url: &str) -> Result<String, String> {
        // A monitoring address is shown nothing secret.
        let anybody = Self { token: HeaderValue::from_static(""), ..self.clone() };
        anybody.fetch(Method::GET, url)
    }
}

/// An error with its causes.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

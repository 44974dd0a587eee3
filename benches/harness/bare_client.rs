//! The bare client is the client library of the engine with nothing around it.
//!
//! It is the reference of the rows about HTTP that the engine calls, and the way to a server whose
//! speed is not limited by it.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::callers::Ask;
use crate::{Error, Result};

const JSON: &str = "application/json";

/// Posts one request over and over.
#[derive(Clone)]
pub(crate) struct Posts {
    client: Client<HttpConnector, Full<Bytes>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
}

impl Posts {
    /// Makes a separate client, with its own connections, that posts `body`.
    pub(crate) fn new(uri: &str, headers: &[(&'static str, &str)], body: Bytes) -> Result<Self> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(HeaderName::from_static(name), HeaderValue::from_str(value)?);
        }
        map.insert("content-type", HeaderValue::from_static(JSON));
        Ok(Self { client: client(), uri: uri.parse()?, headers: map, body })
    }
}

impl Ask for Posts {
    async fn ask(&self) -> Result<()> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        answered(self.client.request(request).await?).await.map(drop)
    }
}

/// Calls a server's API.
#[derive(Clone)]
pub(crate) struct Api {
    client: Client<HttpConnector, Full<Bytes>>,
    /// The prefix of each path.
    base: String,
    authorization: HeaderValue,
}

impl Api {
    /// Makes a client of the server at `address`, with a key.
    pub(crate) fn new(address: SocketAddr, key: &str) -> Result<Self> {
        let authorization = HeaderValue::try_from(format!("Bearer {key}"))?;
        Ok(Self { client: client(), base: format!("http://{address}/v1"), authorization })
    }

    /// Posts JSON; returns the body of the answer.
    pub(crate) async fn post(&self, path: &str, body: Bytes) -> Result<Bytes> {
        self.call(Method::POST, path, body).await
    }

    /// Gets a path; returns the body of the answer.
    pub(crate) async fn get(&self, path: &str) -> Result<Bytes> {
        self.call(Method::GET, path, Bytes::new()).await
    }

    async fn call(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = format!("{}{path}", self.base).parse()?;
        request.headers_mut().insert("authorization", self.authorization.clone());
        request.headers_mut().insert("content-type", HeaderValue::from_static(JSON));
        answered(self.client.request(request).await?).await
    }
}

fn client() -> Client<HttpConnector, Full<Bytes>> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .build(connector)
}

/// Returns the body of an answer that is a success.
async fn answered(answer: Response<Incoming>) -> Result<Bytes> {
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    match status.is_success() {
        true => Ok(body),
        false => Err(Error::from(format!("{status}: {}", String::from_utf8_lossy(&body)))),
    }
}

//! A client of the server that handles lost answers.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::Value;

use crate::Result;
use crate::measure::Stopwatch;

/// The maximum wait for one answer.
const ANSWER: Duration = Duration::from_secs(30);
/// The maximum wait until a request is answered, over all its tries.
const PATIENCE: Duration = Duration::from_secs(180);
/// The rest between two tries.
const REST: Duration = Duration::from_millis(50);

/// The outcome of one try of a request.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It was answered, and the server knows its outcome.
    Answered(Answer),
    /// It may have been carried out, or not: there was no answer, or one that states this.
    Unknown,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// The body; null if it is not JSON.
    pub(super) body: Value,
}

impl Answer {
    /// Returns a text of the answer, by its name; empty if there is none.
    pub(super) fn text(&self, name: &str) -> String {
        self.body[name].as_str().unwrap_or_default().to_owned()
    }
}

/// A request that may be tried again.
#[derive(Debug, Clone)]
pub(super) struct Call<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
}

impl<'a> Call<'a> {
    /// Makes a request without a body.
    pub(super) fn get(path: &'a str) -> Self {
        Self { method: Method::GET, path, headers: Vec::new(), body: Vec::new() }
    }

    /// Makes a request with JSON.
    pub(super) fn of(method: Method, path: &'a str, body: &Value) -> Self {
        Self { method, path, headers: Vec::new(), body: body.to_string().into_bytes() }
    }

    /// Makes a `POST` with JSON that is carried out once, however often it is tried.
    pub(super) fn once(path: &'a str, body: &Value, key: &str) -> Self {
        Self::of(Method::POST, path, body).with("idempotency-key", key.to_owned())
    }

    /// Adds a header.
    pub(super) fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }
}

/// A client with a token, or none.
#[derive(Clone)]
pub(super) struct Api {
    client: Client<HttpConnector, Full<Bytes>>,
    base: String,
    token: Option<String>,
}

impl Api {
    /// Makes a client of the server at `address`.
    pub(super) fn new(address: SocketAddr, token: Option<String>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .build(connector);
        Self { client, base: format!("http://{address}"), token }
    }

    /// Tries once; returns after the head, with the body still to be read.
    pub(super) async fn open(&self, call: &Call<'_>) -> Result<Response<Incoming>> {
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("{}{}", self.base, call.path))
            .header("content-type", "application/json");
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(Bytes::from(call.body.clone())))?;
        Ok(self.client.request(request).await?)
    }

    /// Tries once.
    pub(super) async fn call(&self, call: &Call<'_>) -> Outcome {
        let exchange = async {
            let response = self.open(call).await.ok()?;
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.ok()?.to_bytes();
            Some(Answer { status, body: serde_json::from_slice(&body).unwrap_or_default() })
        };
        match tokio::time::timeout(ANSWER, exchange).await {
            Ok(Some(answer)) if answer.status != 500 && answer.status != 503 => {
                Outcome::Answered(answer)
            }
            _ => Outcome::Unknown,
        }
    }

    /// Tries until there is a certain answer; also returns the number of uncertain ones.
    ///
    /// # Errors
    /// There was no certain answer in three minutes.
    pub(super) async fn certain(&self, call: &Call<'_>) -> Result<(Answer, u32)> {
        let (watch, mut unknown) = (Stopwatch::start(), 0);
        let keyed = call.headers.iter().any(|(name, _)| *name == "idempotency-key");
        while watch.elapsed() < PATIENCE {
            match self.call(call).await {
                // The earlier try is still being carried out.
                Outcome::Answered(answer) if keyed && answer.status == 409 => {}
                Outcome::Answered(answer) => return Ok((answer, unknown)),
                Outcome::Unknown => unknown += 1,
            }
            tokio::time::sleep(REST).await;
        }
        Err(format!("{} {}: no answer in three minutes", call.method, call.path).into())
    }

    /// Returns the body of an answer that must be a success, after any number of tries.
    pub(super) async fn fetch(&self, call: &Call<'_>) -> Result<Value> {
        let (answer, _) = self.certain(call).await?;
        match answer.status {
            200..300 => Ok(answer.body),
            other => Err(format!("{} {}: {other} {}", call.method, call.path, answer.body).into()),
        }
    }
}

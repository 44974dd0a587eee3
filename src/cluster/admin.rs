//! Answers requests that need no engine: health, readiness, metrics and the state of the cluster.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, Response, StatusCode};
use postrider_cluster::coordination::Standing;
use serde_json::{Value, json};

use super::front::Inner;
use super::shown::{OPERATIONS, bearer};
use super::state::State;
use crate::http::health::{NodeReady, ReadyAnswer};
use crate::http::{ApiError, Code, Reply};

impl Inner {
    /// Answers a request that needs no engine.
    pub(super) fn answer_itself(&self, request: &Request) -> Response<Body> {
        let (answers, headers) = (&self.shards.answers, request.headers());
        let is_read = request.method() == Method::GET || request.method() == Method::HEAD;
        if !is_read {
            return self.has_no_such_method(headers);
        }
        match request.uri().path() {
            "/healthz" => answers.json(headers, &json!({ "status": "ok" })),
            "/readyz" => match self.ready() {
                Ok(ready) => answers.json(headers, &ready),
                Err(error) => answers.refuse(headers, error),
            },
            "/metrics" => {
                let page = self.metrics.render();
                let text = "text/plain; version=0.0.4; charset=utf-8";
                answers.give(headers, Reply::of(StatusCode::OK, text, page))
            }
            _ => answers.json(headers, &json!(State(&self.shards).status())),
        }
    }

    /// Returns whether a request asks for the state of the cluster without the admin token.
    pub(super) fn is_a_guess(&self, request: &Request) -> bool {
        let (shown, path) = (bearer(request.headers()), request.uri().path());
        let needs_token = path == "/admin/v1/cluster" || path.starts_with(OPERATIONS);
        needs_token && !shown.is_some_and(|token| self.admin_token.matches(token))
    }

    pub(super) fn has_no_such_method(&self, headers: &HeaderMap) -> Response<Body> {
        let error = ApiError::new(Code::MethodNotAllowed, "the route has no such method");
        self.shards.answers.refuse(headers, error.closing_with_body())
    }

    fn ready(&self) -> Result<Value, ApiError> {
        let node = &self.shards.node;
        let reasons = State(&self.shards).standing_in_the_way();
        if let Some((reason, _)) = reasons.first() {
            let texts: Vec<_> = reasons.iter().map(|(_, text)| text.clone()).collect();
            let error = ApiError::new(Code::ServiceUnavailable, texts.join("; "));
            return Err(error.because(reason).with_reasons(texts));
        }
        let reports = node.reports();
        let owned = reports.iter().filter(|it| it.state == Standing::Owned).count();
        Ok(json!(ReadyAnswer::Node(NodeReady {
            status: "ready",
            cluster: node.cluster().0.to_string(),
            node: node.name().to_string(),
            shards_owned: owned,
            log_reachable: true,
            lease_ms: node.gate().left_ms(),
            warnings: self.warnings.clone(),
        })))
    }
}

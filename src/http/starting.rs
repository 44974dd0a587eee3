//! Answers while the server starts and rebuilds its records, which may take minutes.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use postrider_actors::Clock;
use postrider_actors::store::{Progress, Rebuilding};
use serde_json::json;

use super::edge::AppOptions;
use super::pipeline::error::Help;
use super::pipeline::{ApiError, Code, Reply, ResponseFuture, request_id};

/// The interface until the engine has started: the process lives, but accepts no work yet.
#[derive(Clone)]
pub(crate) struct Starting(Arc<Inner>);

struct Inner {
    rebuilding: Rebuilding,
    clock: Clock,
    help: Help,
    /// `true` if the listener has `/healthz`.
    is_for_operators: bool,
}

impl Starting {
    pub(crate) fn new(
        rebuilding: &Rebuilding,
        clock: &Clock,
        options: &AppOptions,
        is_for_operators: bool,
    ) -> Self {
        let (rebuilding, clock) = (rebuilding.clone(), clock.clone());
        let help = options.errors_url.as_deref().map(Help::below).unwrap_or_default();
        Self(Arc::new(Inner { rebuilding, clock, help, is_for_operators }))
    }

    /// Answers a request.
    pub(crate) fn answer(&self, request: Request) -> ResponseFuture {
        let response = self.0.answer(&request);
        Box::pin(std::future::ready(response))
    }
}

impl Inner {
    fn answer(&self, request: &Request) -> Response<Body> {
        let id = request_id::RequestId::of(request.headers(), &self.clock);
        let mut reply = if self.is_for_operators && request.uri().path() == "/healthz" {
            Reply::ok(&json!({ "status": "ok" }))
        } else {
            let reason = reason(self.rebuilding.progress());
            let error = ApiError::new(Code::ServiceUnavailable, reason.clone());
            let error = error.because("rebuilding").with_reasons(vec![reason]);
            // The connection is not needed any more once the engine has started.
            error.closing().into_reply(id.as_str(), &self.help)
        };
        reply.header(request_id::HEADER, id.header());
        reply.into_response()
    }
}

/// Returns the reason for the refusals, for an operator.
fn reason(progress: Option<Progress>) -> String {
    let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
    match progress {
        Some(Progress { done, total }) => {
            let (done, total) = (megabytes(done), megabytes(total));
            format!("rebuilding the view: {done} of {total} MB")
        }
        None => "the view was rebuilt; the server starts".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_how_far_it_is() {
        let progress = Progress { done: 1_500_000, total: 300_000_000 };
        assert_eq!(reason(Some(progress)), "rebuilding the view: 2 of 300 MB");
        assert!(reason(None).contains("starts"));
    }
}

//! Answers that the front and the door give without an engine.

use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode};
use postrider_actors::Clock;
use serde_json::Value;

use crate::http::{ApiError, Code, Help, Reply, request_id};

/// The time that a client should wait when nobody owns its shard.
const NO_OWNER_AFTER: std::time::Duration = std::time::Duration::from_secs(2);

/// Makes answers in the form of an engine's.
pub(super) struct OwnAnswers {
    pub(super) clock: Clock,
    pub(super) help: Help,
}

impl OwnAnswers {
    /// Returns the id of a request: its own, or a new one.
    pub(super) fn id_of(&self, headers: &HeaderMap) -> request_id::RequestId {
        request_id::RequestId::of(headers, &self.clock)
    }

    /// Makes a response of a reply, with the id of its request.
    pub(super) fn give(&self, headers: &HeaderMap, mut reply: Reply) -> Response<Body> {
        let id = request_id::RequestId::of(headers, &self.clock);
        reply.header(request_id::HEADER, id.header());
        reply.into_response()
    }

    /// Makes a refusal.
    pub(super) fn refuse(&self, headers: &HeaderMap, error: ApiError) -> Response<Body> {
        let id = request_id::RequestId::of(headers, &self.clock);
        let mut reply = error.into_reply(id.as_str(), &self.help);
        reply.header(request_id::HEADER, id.header());
        reply.into_response()
    }

    /// Makes an answer in JSON.
    pub(super) fn json(&self, headers: &HeaderMap, value: &Value) -> Response<Body> {
        self.give(headers, Reply::json(StatusCode::OK, value))
    }
}

/// Returns the error for a shard without an owner: nothing was done.
pub(super) fn no_owner(shard: u16) -> ApiError {
    let message = format!("no node owns shard {shard} now; nothing was done");
    let error = ApiError::new(Code::ServiceUnavailable, message).because("no_owner");
    error.after(NO_OWNER_AFTER).closing_with_body()
}

/// Returns the error for an owner that went away while it answered.
pub(super) fn outcome_unknown() -> ApiError {
    let message = "the node that answered does not own the shard any more; the outcome is unknown";
    ApiError::new(Code::ServiceUnavailable, message).because("outcome_unknown").closing_with_body()
}

/// Returns the error for an owner that does not answer a necessary question.
pub(super) fn no_answer(shard: u16) -> ApiError {
    let message = format!("the owner of shard {shard} does not answer now; nothing was done");
    ApiError::new(Code::ServiceUnavailable, message).because("no_owner").closing_with_body()
}

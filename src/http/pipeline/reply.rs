//! Builds answers, without the headers that the pipeline adds to all of them.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use serde::Serialize;

const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The initial capacity of a body, in bytes. Most bodies need no more.
const BODY_CAPACITY: usize = 192;

/// The capacity for headers, including those that the pipeline and the server add.
const HEADERS: usize = 12;

/// The status, the body and the headers that a handler sets.
#[derive(Debug)]
pub(crate) struct Reply {
    response: Response<Body>,
}

impl Reply {
    /// Returns `200` with `body`, which must be JSON.
    pub(crate) fn json_text(body: Vec<u8>) -> Self {
        Self::of(StatusCode::OK, "application/json", body)
    }

    /// Returns `200` with `value` as JSON.
    pub(crate) fn ok(value: &impl Serialize) -> Self {
        Self::json(StatusCode::OK, value)
    }

    /// Returns `status` with `value` as JSON.
    pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Self {
        let mut body = Vec::with_capacity(BODY_CAPACITY);
        match serde_json::to_writer(&mut body, value) {
            Ok(()) => Self::of(status, "application/json", body),
            // Our types have text keys and no fields that fail, and writing to a vector cannot
            // fail.
            Err(error) => {
                tracing::error!(%error, "an answer could not be written as JSON");
                Self::of(StatusCode::INTERNAL_SERVER_ERROR, "application/json", "{}")
            }
        }
    }

    /// Returns `204` without a body.
    pub(crate) fn no_content() -> Self {
        Self::empty(StatusCode::NO_CONTENT)
    }

    /// Returns `status` without a body.
    pub(crate) fn empty(status: StatusCode) -> Self {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        Self { response }
    }

    /// Returns `status` with the address of the redirect.
    pub(crate) fn redirect(status: StatusCode, to: &'static str) -> Self {
        let mut reply = Self::empty(status);
        reply.header(header::LOCATION, HeaderValue::from_static(to));
        reply
    }

    /// Returns `status` with a body of any type.
    pub(crate) fn of(
        status: StatusCode,
        content_type: &'static str,
        body: impl Into<Bytes>,
    ) -> Self {
        let mut response = Response::new(Body::from(body.into()));
        *response.status_mut() = status;
        response.headers_mut().reserve(HEADERS);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        Self { response }
    }

    /// Returns `status` with a streamed body.
    pub(crate) fn stream(status: StatusCode, content_type: &'static str, body: Body) -> Self {
        let mut response = Response::new(body);
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        Self { response }
    }

    /// Adds a header.
    pub(crate) fn header(&mut self, name: HeaderName, value: HeaderValue) {
        self.response.headers_mut().insert(name, value);
    }

    /// Adds a header that may occur more than once.
    pub(crate) fn another(&mut self, name: HeaderName, value: HeaderValue) {
        self.response.headers_mut().append(name, value);
    }

    /// Marks the answer as a replay of the answer to an earlier request with the same idempotency
    /// key.
    pub(crate) fn replayed(mut self, replayed: bool) -> Self {
        if replayed {
            self.header(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
        }
        self
    }

    /// Returns the status.
    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// Returns the HTTP response.
    pub(crate) fn into_response(self) -> Response<Body> {
        self.response
    }
}

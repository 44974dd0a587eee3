//! Maps errors to HTTP answers: status, code and body. A panic becomes an error.

use std::any::Any;
use std::borrow::Cow;
use std::future::Future;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use axum::http::{HeaderValue, header};
use postrider_actors::Permission;
use postrider_actors::domain::Scope;
use postrider_actors::domain::time::whole_seconds;
use serde::Serialize;
use utoipa::ToSchema;

use super::reply::Reply;

mod code;
mod conversions;

pub(crate) use code::{Code, ERRORS_PATH, Help};

/// An error that is answered to the client.
#[derive(Debug)]
pub(crate) struct ApiError {
    code: Code,
    message: Cow<'static, str>,
    reason: Option<&'static str>,
    /// All problems that prevent the request, one by one.
    reasons: Vec<String>,
    /// The wait before a retry, in seconds. Set exactly if the code is retryable.
    retry_after: Option<u64>,
    /// `true` if the answer has `WWW-Authenticate`.
    has_challenge: bool,
    /// `true` if the caller showed no valid key, token or signature.
    is_unauthenticated: bool,
    ending: ConnectionFate,
}

/// The code of an error, with its reason.
pub(crate) type Cause = (Code, Option<&'static str>);

/// The fate of the connection after a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionFate {
    /// The rest of the body is read first, and the connection stays open.
    Kept,
    /// The answer waits for nothing. The connection is closed if there is a body.
    ClosedWithBody,
    /// The answer waits for nothing, and the connection is closed.
    Closed,
}

/// Every refusal.
#[derive(Serialize, ToSchema)]
#[schema(as = Error, example = json!({
    "error": "Too Many Requests",
    "message": "too many one-time passwords to this phone",
    "code": "OTP_RATE_LIMITED",
    "retry_after": 12,
    "request_id": "req_01jd3v0x5n8m7k2q4r6s8t0w2y"
}))]
pub(crate) struct ErrorBody<'a> {
    /// The status in words.
    error: &'a str,
    /// For a person; of a bad value it names the field.
    message: &'a str,
    /// For a program; what to do is on the page that `Link` names.
    code: &'a str,
    /// Seconds to wait before another try, as in `Retry-After`: with 429, 500 and 503.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    retry_after: Option<u64>,
    /// What is behind a code that has several causes. A 503 always has one: `storage_failed`,
    /// `overloaded`, `draining`, `held`, `rebuilding`, `outcome_unknown`, `disk_full`,
    /// `damaged` or `provider_failed`; in a cluster `no_owner`, `log_unreachable` or
    /// `log_lost` besides.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// What stands in the way, for an operator, one by one: of `/readyz` only.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    #[schema(required = false)]
    reasons: &'a [String],
    /// As in `X-Request-Id`.
    request_id: &'a str,
}

impl ApiError {
    pub(crate) fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        let retry_after = code.is_retryable().then_some(1);
        let has_challenge = code == Code::Unauthorized;
        // After a timeout the rest of the body may never arrive.
        let ending = match code {
            Code::RequestTimeout => ConnectionFate::Closed,
            _ => ConnectionFate::Kept,
        };
        Self {
            code,
            message: message.into(),
            reason: None,
            reasons: Vec::new(),
            retry_after,
            has_challenge,
            is_unauthenticated: false,
            ending,
        }
    }

    /// Marks the refusal of a caller who showed no valid key, token or signature.
    pub(super) fn of_unauthenticated(self) -> Self {
        Self { is_unauthenticated: true, ..self }
    }

    /// Returns whether this refuses a caller who showed no valid key, token or signature.
    pub(super) const fn is_unauthenticated(&self) -> bool {
        self.is_unauthenticated
    }

    /// Sets the reason, which distinguishes the causes of a code.
    pub(crate) fn because(mut self, reason: &'static str) -> Self {
        self.reason = Some(reason);
        self
    }

    /// Adds the problems that prevent the request, one by one.
    pub(crate) fn with_reasons(self, reasons: Vec<String>) -> Self {
        Self { reasons, ..self }
    }

    /// Closes the connection after the refusal, without waiting for the body.
    pub(crate) fn closing(self) -> Self {
        Self { ending: ConnectionFate::Closed, ..self }
    }

    /// Closes the connection in the same way if there is a body.
    pub(crate) fn closing_with_body(self) -> Self {
        Self { ending: ConnectionFate::ClosedWithBody, ..self }
    }

    /// Returns the fate of the connection.
    pub(crate) const fn ending(&self) -> ConnectionFate {
        self.ending
    }

    /// Returns the refusal of a server that accepts no more at present.
    pub(crate) fn overloaded(message: &'static str) -> Self {
        Self::new(Code::ServiceUnavailable, message).because("overloaded").closing()
    }

    /// Returns whether this refuses a request for overload, on a connection that stays open.
    pub(super) fn is_overload(&self) -> bool {
        self.reason == Some("overloaded") && self.ending == ConnectionFate::Kept
    }

    /// Sets the wait before a retry. The code must be retryable.
    pub(crate) fn after(mut self, wait: Duration) -> Self {
        debug_assert!(self.code.is_retryable());
        self.retry_after = Some(whole_seconds(wait));
        self
    }

    /// Returns the refusal of a value of the body, the query or the path. The message must name it.
    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::ValidationError, message)
    }

    /// Returns the refusal of the field `field`. `rule` must begin with "must".
    pub(crate) fn field(field: &str, rule: impl std::fmt::Display) -> Self {
        Self::invalid(format!("`{field}` {rule}"))
    }

    pub(crate) fn unauthorized(message: &'static str) -> Self {
        Self::new(Code::Unauthorized, message)
    }

    /// Returns the refusal of a callback with an invalid signature. No HTTP authentication scheme
    /// applies, so the answer has no `WWW-Authenticate`.
    pub(crate) fn unsigned(message: &'static str) -> Self {
        Self { has_challenge: false, ..Self::new(Code::Unauthorized, message) }
    }

    pub(crate) fn scope_missing(scope: Scope) -> Self {
        Self::new(Code::Forbidden, format!("the API key lacks the scope {scope}"))
    }

    /// Returns the refusal of a request whose key, session or token ended while its body was on its
    /// way.
    pub(crate) fn ended() -> Self {
        let message = "the key, session or token has ended while the request was on its way";
        Self::unauthorized(message)
    }

    pub(crate) fn permission_missing(permission: Permission) -> Self {
        Self::new(Code::Forbidden, format!("you lack the permission {permission}"))
    }

    /// Returns the refusal of an API key that may not be used from this address.
    pub(crate) fn address_refused(address: IpAddr) -> Self {
        Self::new(Code::Forbidden, format!("the API key may not be used from {address}"))
            .because("address_not_allowed")
    }

    /// Returns the refusal of a caller without an admin token who moves the sandbox's clock.
    pub(crate) fn admin_only() -> Self {
        let message = "only an admin token moves the clock here (`sandbox.clock`)";
        Self::new(Code::Forbidden, message).because("admin_only")
    }

    pub(crate) fn not_found(what: &'static str) -> Self {
        Self::new(Code::NotFound, what)
    }

    pub(crate) fn rate_limited(wait: Duration, message: &'static str) -> Self {
        Self::new(Code::RateLimited, message).after(wait)
    }

    /// Returns the error for a handler that panicked. The client gets no details.
    pub(crate) fn internal() -> Self {
        Self::new(Code::ServerError, "the server failed; the outcome is unknown")
    }

    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// Returns the code, with the reason if there are several.
    pub(crate) fn cause(&self) -> Cause {
        (self.code, self.reason)
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Builds the answer.
    pub(crate) fn into_reply(self, request_id: &str, help: &Help) -> Reply {
        let body = ErrorBody {
            error: self.code.title(),
            message: &self.message,
            code: self.code.as_str(),
            retry_after: self.retry_after,
            reason: self.reason,
            reasons: &self.reasons,
            request_id,
        };
        let mut reply = Reply::json(self.code.status(), &body);
        if let Some(link) = help.link(self.code) {
            reply.header(header::LINK, link);
        }
        if let Some(seconds) = self.retry_after {
            reply.header(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        // RFC 9110, section 11.6.1: a 401 must name an authentication scheme.
        if self.code == Code::Unauthorized && self.has_challenge {
            reply.header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.ending == ConnectionFate::Closed {
            reply.header(header::CONNECTION, HeaderValue::from_static("close"));
        }
        reply
    }
}

/// Runs a handler and converts a panic to an error.
pub(super) async fn catch_unwind<T>(
    handler: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    let mut handler = pin!(handler);
    std::future::poll_fn(|context| {
        catch_panic(|| handler.as_mut().poll(context))
            .unwrap_or_else(|error| Poll::Ready(Err(error)))
    })
    .await
}

/// Runs `step` and converts a panic to an error.
pub(super) fn catch_panic<T>(step: impl FnOnce() -> T) -> Result<T, ApiError> {
    // A handler that panicked is dropped, so its own state is never used half-changed. The state
    // that it shares belongs to the engine, which stays consistent by itself.
    std::panic::catch_unwind(AssertUnwindSafe(step)).map_err(|panic| {
        tracing::error!(panic = panic_text(&*panic), "a request's handling panicked");
        ApiError::internal()
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use postrider_actors::{SendOtpError, Unavailable, UnavailableReason, VerifyOtpError};

    use super::*;

    fn answer(error: impl Into<ApiError>) -> (u16, serde_json::Value, Option<String>) {
        let response = error.into().into_reply("r-1", &Help::default()).into_response();
        let retry_after = response.headers().get(header::RETRY_AFTER);
        let retry_after = retry_after.map(|value| value.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        let body = http_body_util::BodyExt::collect(response.into_body());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let body = runtime.block_on(body).unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap(), retry_after)
    }

    #[test]
    fn the_shape_is_the_documented_one() {
        let (status, body, retry_after) = answer(VerifyOtpError::Expired);
        assert_eq!(status, 422);
        assert_eq!(
            body,
            serde_json::json!({
                "error": "Unprocessable",
                "message": "the one-time password has expired",
                "code": "OTP_EXPIRED",
                "request_id": "r-1",
            })
        );
        assert_eq!(retry_after, None);
    }

    #[test]
    fn what_may_be_tried_again_says_when() {
        let wait = Duration::from_millis(11_001);
        let (status, body, retry_after) = answer(SendOtpError::PhoneLimit { retry_after: wait });
        assert_eq!((status, body["code"].as_str()), (429, Some("OTP_RATE_LIMITED")));
        assert_eq!((body["retry_after"].as_u64(), retry_after.as_deref()), (Some(12), Some("12")));
        for &code in Code::ALL {
            let (status, body, retry_after) = answer(ApiError::new(code, "m"));
            let retryable = [429, 500, 503].contains(&status);
            assert_eq!(body["retry_after"].as_u64(), retryable.then_some(1), "{code:?}");
            assert_eq!(retry_after.is_some(), retryable, "{code:?}");
        }
    }

    #[test]
    fn a_parked_workspace_hides_the_reason_from_its_clients() {
        let reason = UnavailableReason::Parked("frame 7 is damaged".to_owned());
        let (status, body, _) = answer(Unavailable::because(reason));
        assert_eq!(status, 503);
        assert!(!body["message"].as_str().unwrap().contains("frame"));
    }

    #[test]
    fn every_503_of_the_engine_says_its_reason() {
        for (reason, expected) in [
            (UnavailableReason::Overloaded, "overloaded"),
            (UnavailableReason::Draining, "draining"),
            (UnavailableReason::Storage, "storage_failed"),
            (UnavailableReason::Restarting, "outcome_unknown"),
            (UnavailableReason::Parked("frame 7".to_owned()), "damaged"),
            (UnavailableReason::ChannelDown, "provider_failed"),
            (UnavailableReason::DiskFull, "disk_full"),
            (UnavailableReason::Held, "held"),
        ] {
            let (status, body, _) = answer(Unavailable::because(reason));
            assert_eq!((status, body["reason"].as_str()), (503, Some(expected)));
        }
    }

    #[tokio::test]
    async fn a_panic_becomes_an_answer() {
        let answer = catch_unwind::<Reply>(async { panic!("no") }).await;
        assert_eq!(answer.unwrap_err().code(), Code::ServerError);
        let answer = catch_unwind(async { Ok(Reply::no_content()) }).await;
        assert_eq!(answer.unwrap().status(), 204);
        let admitted = catch_panic(|| -> Reply { panic!("no") });
        assert_eq!(admitted.err().map(|error| error.code()), Some(Code::ServerError));
    }
}

//! Receives the callbacks of the chat-app channel, which are signed instead of having a key.

use axum::http::request::Parts;
use axum::http::{HeaderName, StatusCode};
use postrider_actors::domain::NumberId;
use postrider_actors::{CallbackError, CallbackReceiver};

use super::edge::Edge;
use super::elsewhere::CallbackBeside;
use super::pipeline::{
    Admitted, Answer, ApiError, BodyKind, Call, Code, Guard, Identity, Reply, Routes,
    count_failure, route,
};

/// The maximum size of a callback, in bytes. The channel batches up to 1,000 items into one.
pub(crate) const CALLBACK_BYTES_MAX: usize = 3 << 20;
const SIGNATURE: HeaderName = HeaderName::from_static("x-hub-signature-256");

/// Returns the path to which the provider posts callbacks of a number.
pub(crate) fn callback_address(number: &str) -> String {
    format!("/channels/cloud-api/{number}")
}

pub(crate) fn routes() -> Routes {
    Routes::default().routes(route!(verify).guarded(CallbackTarget::Asked)).routes(
        route!(take)
            .takes(BodyKind::Raw { max_bytes: CALLBACK_BYTES_MAX })
            .guarded(CallbackTarget::Signed),
    )
}

/// Finds the number before a body is read, so that nobody can make the server read bodies in vain.
#[derive(Debug, Clone, Copy)]
enum CallbackTarget {
    /// The request has a verify token.
    Asked,
    /// The request has a signature, which must look like one.
    Signed,
}

impl CallbackTarget {
    fn find(self, edge: &Edge, parts: &Parts) -> Result<CallbackReceiver, ApiError> {
        let id = parts.uri.path().rsplit('/').next().unwrap_or_default();
        let receiver = id.parse::<NumberId>().ok().and_then(|id| edge.engine.callbacks(id));
        let receiver = receiver.ok_or_else(|| ApiError::not_found("no such number"))?;
        let signature = parts.headers.get(SIGNATURE).map(|value| value.as_bytes());
        match self {
            Self::Signed if !signature.is_some_and(is_signature) => {
                Err(CallbackError::BadSignature.into())
            }
            _ if parts.extensions.get::<CallbackBeside>().is_some() => Ok(receiver.beside()),
            _ => Ok(receiver),
        }
    }
}

impl Guard for CallbackTarget {
    type Caller = CallbackReceiver;

    fn admit(&self, edge: &Edge, parts: &Parts) -> Admitted<CallbackReceiver> {
        let caller = self.find(edge, parts);
        let caller = caller.map_err(|error| count_failure(edge, parts, error).closing_with_body());
        Admitted { identity: Identity::Anonymous, bucket: None, caller }
    }
}

/// Returns whether the value has the form of a signature: `sha256=` and 64 hexadecimal digits.
fn is_signature(value: &[u8]) -> bool {
    let digits = value.strip_prefix(b"sha256=");
    digits.is_some_and(|digits| digits.len() == 64 && digits.iter().all(u8::is_ascii_hexdigit))
}

impl From<CallbackError> for ApiError {
    fn from(error: CallbackError) -> Self {
        match error {
            CallbackError::BadSignature => Self::unsigned("the signature is missing or wrong"),
            CallbackError::Unreadable => Self::invalid("the body is not JSON"),
            CallbackError::Unavailable(error) => error.into(),
        }
    }
}

#[utoipa::path(
    get,
    path = "/channels/cloud-api/{number_id}",
    operation_id = "verifyCallback",
    tag = "Channel",
    summary = "Verify the callback's address",
    description = "The channel asks this once when the address is given to it.",
    params(
        ("number_id" = String, Path, description = "The number's id"),
        ("hub.mode" = String, Query, description = "`subscribe`"),
        ("hub.verify_token" = String, Query, description = "The number's verify token"),
        ("hub.challenge" = String, Query, description = "What is to be answered"),
    ),
    responses(
        (status = 200, description = "The challenge", body = String, content_type = "text/plain"),
    )
)]
async fn verify(call: Call<CallbackReceiver>) -> Answer {
    let query = call.query()?;
    let token = query.text("hub.verify_token")?.unwrap_or_default();
    match (query.text("hub.mode")?, query.text("hub.challenge")?) {
        (Some("subscribe"), Some(challenge)) if call.caller.knows(token) => {
            Ok(Reply::of(StatusCode::OK, "text/plain; charset=utf-8", challenge.to_owned()))
        }
        _ => {
            let error = ApiError::new(Code::Forbidden, "the verify token is missing or wrong");
            Err(call.failed(error))
        }
    }
}

#[utoipa::path(
    post,
    path = "/channels/cloud-api/{number_id}",
    operation_id = "takeCallback",
    tag = "Channel",
    summary = "Take a callback",
    description = "Reports on messages, what contacts write, changes of templates, in the form of \
        the Cloud API, at most 3 MiB. What is about another number of the same app is \
        taken for that one; what is not known is passed over and counted. 200 once it is durable; \
        one that comes again changes nothing.",
    params(
        ("number_id" = String, Path, description = "The number's id"),
        ("X-Hub-Signature-256" = String, Header, description = "`sha256=` and the HMAC-SHA256 of \
         the body under the number's app secret, in hexadecimal digits"),
    ),
    request_body(content = Object, content_type = "application/json"),
    responses((status = 200, description = "Taken", body = Object))
)]
async fn take(call: Call<CallbackReceiver>) -> Answer {
    let signature = call.header(&SIGNATURE).unwrap_or_default();
    let taken = call.caller.take(signature, call.raw()).await;
    taken.map_err(|error| call.failed(error.into()))?;
    Ok(Reply::json_text(b"{}".to_vec()))
}

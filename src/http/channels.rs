//! Receives the callbacks of the chat-app channel, which are signed instead of having a key.

use axum::http::{HeaderName, StatusCode};
use postrider_actors::domain::NumberId;
use postrider_actors::{CallbackError, CallbackReceiver};

use super::pipeline::{Answer, ApiError, Call, Code, Open, Reply, Routes, Takes, route};

/// Largest callback, in bytes. The channel batches up to 1,000 items into one.
const CALLBACK_BYTES_MAX: usize = 3 << 20;
const SIGNATURE: HeaderName = HeaderName::from_static("x-hub-signature-256");

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(verify).guarded(Open))
        .routes(route!(take).takes(Takes::Raw { max_bytes: CALLBACK_BYTES_MAX }).guarded(Open))
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

async fn receiver(call: &mut Call<()>) -> Result<CallbackReceiver, ApiError> {
    let missing = "no such number";
    let number: NumberId = call.path("number_id", missing).await?;
    call.edge.engine.callbacks(number).ok_or_else(|| ApiError::not_found(missing))
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
async fn verify(mut call: Call<()>) -> Answer {
    let receiver = receiver(&mut call).await?;
    let query = call.query()?;
    let token = query.text("hub.verify_token")?.unwrap_or_default();
    match (query.text("hub.mode")?, query.text("hub.challenge")?) {
        (Some("subscribe"), Some(challenge)) if receiver.knows(token) => {
            Ok(Reply::of(StatusCode::OK, "text/plain; charset=utf-8", challenge.to_owned()))
        }
        _ => Err(ApiError::new(Code::Forbidden, "the verify token is missing or wrong")),
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
        taken for that one; what is not known is passed over. 200 once it is durable; \
        one that comes again changes nothing.",
    params(
        ("number_id" = String, Path, description = "The number's id"),
        ("X-Hub-Signature-256" = String, Header, description = "`sha256=` and the HMAC-SHA256 of \
         the body under the number's app secret, in hexadecimal digits"),
    ),
    request_body(content = Object, content_type = "application/json"),
    responses((status = 200, description = "Taken", body = Object))
)]
async fn take(mut call: Call<()>) -> Answer {
    let receiver = receiver(&mut call).await?;
    receiver.take(call.header(&SIGNATURE).unwrap_or_default(), call.raw()).await?;
    Ok(Reply::json_text(b"{}".to_vec()))
}

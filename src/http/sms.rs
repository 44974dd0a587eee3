//! Receives receipts of SMS gateways, which sign them instead of having a key.

use axum::http::HeaderName;
use axum::http::request::Parts;
use postrider_actors::domain::WorkspaceId;
use postrider_actors::domain::json::readable;
use postrider_actors::{SetSmsError, SmsReceipt, SmsReceiptError, Workspace};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::edge::Edge;
use super::pipeline::{
    Admitted, Answer, ApiError, BodyKind, Call, Guard, Identity, Reply, Routes, count_failure,
    json, route,
};

/// The maximum size of a receipt, in bytes.
const RECEIPT_BYTES_MAX: usize = 64 << 10;
const NO_SUCH_CHANNEL: &str = "there is no such SMS channel";

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

pub(crate) fn routes() -> Routes {
    Routes::default().routes(
        route!(take).takes(BodyKind::Raw { max_bytes: RECEIPT_BYTES_MAX }).guarded(ReceiptTarget),
    )
}

/// Finds the workspace before a body is read, and only for a request that looks signed.
#[derive(Debug, Clone, Copy)]
struct ReceiptTarget;

impl ReceiptTarget {
    fn find(edge: &Edge, parts: &Parts) -> Result<Workspace, ApiError> {
        let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let is_signed = header(ID).is_some_and(|id| !id.is_empty())
            && header(TIMESTAMP).is_some_and(|at| at.parse::<u64>().is_ok())
            && header(SIGNATURE)
                .is_some_and(|all| all.split(' ').any(|one| one.starts_with("v1,")));
        if !is_signed {
            return Err(SmsReceiptError::BadSignature.into());
        }
        let id = parts.uri.path().rsplit('/').next().unwrap_or_default();
        let workspace = id.parse::<WorkspaceId>().ok().and_then(|id| edge.engine.workspace(&id));
        workspace.ok_or_else(|| ApiError::not_found(NO_SUCH_CHANNEL))
    }
}

impl Guard for ReceiptTarget {
    type Caller = Workspace;

    fn admit(&self, edge: &Edge, parts: &Parts) -> Admitted<Workspace> {
        let caller = Self::find(edge, parts)
            .map_err(|error| count_failure(edge, parts, error).closing_with_body());
        Admitted { identity: Identity::Anonymous, bucket: None, caller }
    }
}

/// What became of an SMS.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = SmsReceipt)]
pub(crate) struct ReceiptBody {
    /// The `id` that it was posted with.
    #[schema(example = "otp_01jd3v0x5n8m7k2q4r6s8t0w2y:2", min_length = 1)]
    id: String,
    /// `delivered` or `failed`.
    #[schema(example = "delivered")]
    status: String,
    /// The gateway's error code, a number or a text of digits. Others are passed over.
    #[schema(value_type = Option<i64>, example = 30007)]
    error_code: Option<Box<RawValue>>,
}

#[utoipa::path(
    post,
    path = "/channels/sms/{workspace}",
    operation_id = "takeSmsReceipt",
    tag = "Channel",
    summary = "Take a receipt of an SMS",
    description = "For the SMS gateway of a workspace. Signed as Standard Webhooks says, with the \
        secret of the gateway; at most five minutes old. 200 once it is durable, also for one that \
        is not known.",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("webhook-id" = String, Header, description = "Any text, part of what is signed"),
        ("webhook-timestamp" = String, Header, description = "Unix seconds of now"),
        ("webhook-signature" = String, Header, description = "`v1,` and the HMAC-SHA256 of \
         `{id}.{timestamp}.{body}` in Base64; several with spaces between them"),
    ),
    request_body = ReceiptBody,
    responses((status = 200, description = "Taken", body = Object))
)]
async fn take(call: Call<Workspace>) -> Answer {
    let workspace = &call.caller;
    let header = |name| call.header(name).unwrap_or_default();
    let (id, timestamp, signatures) = (header(&ID), header(&TIMESTAMP), header(&SIGNATURE));
    let checked = workspace.check_sms_signature(id, timestamp, signatures, call.raw()).await;
    checked.map_err(|error| call.failed(error.into()))?;
    let body = json::parse_given::<ReceiptBody>(call.raw())?;
    let delivered = match body.status.as_str() {
        "delivered" => true,
        "failed" => false,
        _ => return Err(ApiError::field("status", "must be one of delivered, failed")),
    };
    let error_code = body.error_code.and_then(|code| match readable(&code) {
        serde_json::Value::String(text) => text.parse().ok(),
        code => code.as_u64().and_then(|code| code.try_into().ok()),
    });
    let named = body.id.split_once(':');
    let named = named.and_then(|(id, step)| Some((id.parse().ok()?, step.parse().ok()?)));
    if let Some((request_id, step)) = named {
        let receipt = SmsReceipt { request_id, step, delivered, error_code };
        workspace.receive_sms_receipt(receipt).await?;
    }
    Ok(Reply::json_text(b"{}".to_vec()))
}

impl From<SmsReceiptError> for ApiError {
    fn from(error: SmsReceiptError) -> Self {
        match error {
            SmsReceiptError::NotFound => Self::not_found(NO_SUCH_CHANNEL),
            SmsReceiptError::BadSignature => {
                Self::unsigned("the signature is missing, wrong or older than five minutes")
            }
            SmsReceiptError::Unavailable(error) => error.into(),
        }
    }
}

impl From<SetSmsError> for ApiError {
    fn from(error: SetSmsError) -> Self {
        match error {
            SetSmsError::Url(error) => Self::field("url", error),
            SetSmsError::Unavailable(error) => error.into(),
        }
    }
}

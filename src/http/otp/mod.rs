//! Sends, verifies, resends and reads one-time passwords.

mod cancel;
mod list;
mod send_body;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;

use postrider_actors::domain::code::{CodeLength, Expiry};
use postrider_actors::domain::{Phone, RequestId};
use postrider_actors::{
    Delivery, OtpSent, OtpStatus, Permission, Replayable, Route, SendOtp, Verification,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use send_body::ContextBody;

use super::pipeline::{Answer, ApiError, Call, Integer, Key, Principal, Reply, Routes, route};

/// Longest submitted code, in characters.
const OTP_CHARS_MAX: usize = 16;

const NO_SUCH_REQUEST: &str = "no such one-time password request";

/// Every operation has two paths, `/v1/otp/…` and `/v1/messaging/otp/…`.
pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(send).guarded(Key::of(Permission::OtpSend)))
        .routes(route!(verify).guarded(Key::of(Permission::OtpSend)))
        .routes(route!(resend).guarded(Key::of(Permission::OtpSend)))
        .routes(route!(read).guarded(Key::of(Permission::OtpRead)))
        .merge(list::routes())
        .merge(cancel::routes())
        .routes(
            route!(send)
                .at("/v1/messaging/otp/send", "sendOtpByMessagingPath")
                .guarded(Key::of(Permission::OtpSend)),
        )
        .routes(
            route!(verify)
                .at("/v1/messaging/otp/verify", "verifyOtpByMessagingPath")
                .guarded(Key::of(Permission::OtpSend)),
        )
        .routes(
            route!(resend)
                .at("/v1/messaging/otp/resend", "resendOtpByMessagingPath")
                .guarded(Key::of(Permission::OtpSend)),
        )
        .routes(
            route!(read)
                .at("/v1/messaging/otp/{request_id}", "readOtpByMessagingPath")
                .guarded(Key::of(Permission::OtpRead)),
        )
}

/// Asks for a code to be made and sent; without `Debug`, as it tells of a person.
#[derive(Deserialize, ToSchema)]
#[schema(as = SendBody)]
pub(crate) struct SendOtpBody<'a> {
    /// Where the code goes, in E.164.
    #[serde(borrow)]
    #[schema(example = "+15550123456", pattern = r"^\+[1-9][0-9]{6,14}$")]
    phone: Cow<'a, str>,
    /// Seconds that the code is valid.
    #[schema(value_type = Option<i64>, minimum = 60, maximum = 900, default = 300)]
    expiry: Option<Integer>,
    /// Digits of the code.
    #[schema(value_type = Option<i64>, minimum = 4, maximum = 8, default = 6)]
    length: Option<Integer>,
    /// Who asked for it, for the limits by address and session. Kept as keyed hashes only.
    #[serde(borrow)]
    context: Option<ContextBody<'a>>,
    /// What the caller calls the request: 1 to 128 printable characters. Shown in rows and events.
    #[serde(borrow)]
    #[schema(example = "order-1017", min_length = 1, max_length = 128)]
    reference: Option<Cow<'a, str>>,
    /// At most 16 strings that are kept with the request, with keys of at most 40 characters and
    /// values of at most 256.
    #[schema(example = json!({"flow": "sign-in"}))]
    metadata: Option<BTreeMap<String, String>>,
}

/// A code was accepted for sending.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what `sent_reply` writes by hand")]
pub(crate) struct OtpSentAnswer {
    /// Names the request in every later call.
    #[schema(example = "otp_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    request_id: String,
    /// When the code stops being valid.
    #[schema(format = DateTime, example = "2026-01-31T09:30:00.000Z")]
    expires_at: String,
}

#[utoipa::path(
    post,
    path = "/v1/otp/send",
    operation_id = "sendOtp",
    tag = "OTP",
    summary = "Send a one-time password",
    description = "Makes a code and sends it to a phone. It costs one credit. A refused send \
                   consumes nothing. Answered once it is durable. Honours `Idempotency-Key`.",
    request_body = SendOtpBody,
    responses((status = 200, description = "Durable, and on its way", body = OtpSentAnswer))
)]
async fn send(call: Call<Principal>) -> Answer {
    let command = {
        let body: SendOtpBody<'_> = call.json()?;
        let phone: Phone = body.phone.parse().map_err(|error| ApiError::field("phone", error))?;
        let mut command = SendOtp::to(phone);
        if let Some(Integer(seconds)) = body.expiry {
            command.expiry =
                Expiry::from_seconds(seconds).map_err(|error| ApiError::field("expiry", error))?;
        }
        if let Some(Integer(digits)) = body.length {
            command.length = CodeLength::from_digits(digits)
                .map_err(|error| ApiError::field("length", error))?;
        }
        if body.context.is_some() || body.reference.is_some() || body.metadata.is_some() {
            let mut more = send_body::notes(body.reference, body.metadata.unwrap_or_default())?;
            if let Some(context) = &body.context {
                more.context = context.read()?;
            }
            command.more = Some(Box::new(more));
        }
        command
    };
    let workspace = call.caller.workspace();
    match call.idempotency_key(Route::SendOtp)? {
        None => Ok(sent_reply(workspace.send_otp(command).await?)),
        Some(key) => {
            let Replayable { answer, replayed } = workspace.send_otp_once(command, key).await?;
            Ok(sent_reply(answer).replayed(replayed))
        }
    }
}

/// Asks for the code of a request to be sent once more.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ResendBody<'a> {
    /// What send answered.
    #[serde(borrow)]
    #[schema(example = "otp_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    request_id: Cow<'a, str>,
}

#[utoipa::path(
    post,
    path = "/v1/otp/resend",
    operation_id = "resendOtp",
    tag = "OTP",
    summary = "Send the same code again",
    description = "The code, its expiry and the attempts that are left stay as they are. It counts \
                   as a send to that phone.",
    request_body = ResendBody,
    responses((status = 200, description = "Durable, and on its way again", body = OtpSentAnswer))
)]
async fn resend(call: Call<Principal>) -> Answer {
    let request_id = request_id(&call.json::<ResendBody<'_>>()?.request_id)?;
    Ok(sent_reply(call.caller.workspace().resend_otp(request_id).await?))
}

/// Submits a code; without `Debug`, as it has the code.
#[derive(Deserialize, ToSchema)]
pub(crate) struct VerifyBody<'a> {
    /// What send answered.
    #[serde(borrow)]
    #[schema(example = "otp_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    request_id: Cow<'a, str>,
    /// What the user entered.
    #[serde(borrow)]
    #[schema(example = "123456", min_length = 1, max_length = 16)]
    otp: Cow<'a, str>,
}

/// What became of a submitted code.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what `verify` writes by hand")]
pub(crate) struct VerifyAnswer {
    /// Whether it was the code.
    verified: bool,
    /// For a person.
    message: String,
    /// `OTP_INVALID` when it was not.
    #[schema(example = "OTP_INVALID")]
    code: Option<String>,
    /// Wrong codes that are still allowed, when it was not.
    #[schema(minimum = 1, maximum = 4)]
    attempts_remaining: Option<u8>,
}

#[utoipa::path(
    post,
    path = "/v1/otp/verify",
    operation_id = "verifyOtp",
    tag = "OTP",
    summary = "Verify a code",
    description = "The right code is accepted once. A wrong one is answered 200 with `verified` \
                   false; the fifth ends the request (422 `OTP_MAX_ATTEMPTS`).",
    request_body = VerifyBody,
    responses((
        status = 200,
        description = "Compared, and the attempt is durable",
        body = VerifyAnswer,
        examples(
            ("right" = (value = json!({"verified": true, "message": "the code is right"}))),
            ("wrong" = (value = json!({
                "verified": false,
                "message": "the code is wrong; 4 attempts remain",
                "code": "OTP_INVALID",
                "attempts_remaining": 4
            })))
        )
    ))
)]
async fn verify(call: Call<Principal>) -> Answer {
    let body: VerifyBody<'_> = call.json()?;
    // A code has ASCII digits, so the byte length usually decides without counting characters.
    let submitted = &*body.otp;
    if submitted.is_empty()
        || submitted.len() > OTP_CHARS_MAX && submitted.chars().count() > OTP_CHARS_MAX
    {
        return Err(ApiError::field("otp", "must have 1 to 16 characters"));
    }
    let request_id = request_id(&body.request_id)?;
    Ok(match call.caller.workspace().verify_otp(request_id, submitted).await? {
        Verification::Verified => {
            Reply::json_text(br#"{"verified":true,"message":"the code is right"}"#.to_vec())
        }
        Verification::Wrong { attempts_remaining } => {
            let remain =
                if attempts_remaining == 1 { "attempt remains" } else { "attempts remain" };
            Reply::json_text(written(format_args!(
                r#"{{"verified":false,"message":"the code is wrong; {attempts_remaining} {remain}","code":"OTP_INVALID","attempts_remaining":{attempts_remaining}}}"#,
            )))
        }
    })
}

/// Where a request stands.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OtpAnswer {
    /// The request.
    #[schema(example = "otp_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    request_id: String,
    /// `active`, `verified`, `expired`, `invalidated` (five wrong codes) or `cancelled`.
    #[schema(value_type = String, example = "active")]
    status: OtpStatus,
    /// Wrong codes that are still allowed.
    #[schema(minimum = 0, maximum = 5)]
    attempts_remaining: u8,
    /// When the code stops, or stopped, being valid.
    #[schema(format = DateTime, example = "2026-01-31T09:30:00.000Z")]
    expires_at: String,
    /// What became of the message, after a resend of the newest: `queued`, `sent`, `delivered`,
    /// `read`, `failed` or `unknown`.
    #[schema(value_type = String, example = "sent")]
    delivery_status: Delivery,
    /// What its caller calls it.
    #[schema(example = "order-1017")]
    reference: Option<String>,
    /// What its caller keeps with it.
    #[schema(value_type = Object, example = json!({"flow": "sign-in"}))]
    metadata: BTreeMap<String, String>,
}

#[utoipa::path(
    get,
    path = "/v1/otp/{request_id}",
    operation_id = "readOtp",
    tag = "OTP",
    summary = "Read where a request stands",
    description = "A request is known for an hour after it would have expired.",
    params(("request_id" = String, Path, description = "What send answered")),
    responses((status = 200, description = "Where it stands", body = OtpAnswer))
)]
async fn read(mut call: Call<Principal>) -> Answer {
    let request_id: RequestId = call.path("request_id", NO_SUCH_REQUEST).await?;
    let state = call.caller.workspace().otp(request_id).await?;
    Ok(Reply::ok(&OtpAnswer {
        request_id: state.request_id.to_string(),
        status: state.status,
        attempts_remaining: state.attempts_remaining,
        expires_at: state.expires_at.to_string(),
        delivery_status: state.delivery,
        reference: state.notes.reference,
        metadata: state.notes.metadata,
    }))
}

/// Parses a request id. A malformed id is answered like an unknown one.
fn request_id(text: &str) -> Result<RequestId, ApiError> {
    text.parse().map_err(|_| ApiError::not_found(NO_SUCH_REQUEST))
}

/// Answers that a code was accepted. Written by hand for speed: ids and times need no JSON escapes.
fn sent_reply(sent: OtpSent) -> Reply {
    let OtpSent { request_id, expires_at } = sent;
    Reply::json_text(written(format_args!(
        r#"{{"request_id":"{request_id}","expires_at":"{expires_at}"}}"#
    )))
}

fn written(text: std::fmt::Arguments<'_>) -> Vec<u8> {
    let mut body = Vec::with_capacity(128);
    // Writing to a vector cannot fail.
    let written = body.write_fmt(text);
    debug_assert!(written.is_ok());
    body
}

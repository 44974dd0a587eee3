//! Ends requests for one-time passwords: by the code that a person has entered, or by a cancel.

use std::borrow::Cow;

use postrider_actors::{Permission, Verification};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{json_bytes, request_id};
use crate::http::pipeline::{Answer, ApiError, Call, Key, Principal, Reply, Routes, route};

/// The maximum length of a submitted code, in characters.
const OTP_CHARS_MAX: usize = 16;

pub(super) fn routes() -> Routes {
    Routes::default()
        .routes(route!(cancel).guarded(Key::of(Permission::OtpSend)))
        .routes(
            route!(cancel)
                .at("/v1/messaging/otp/cancel", "cancelOtpByMessagingPath")
                .guarded(Key::of(Permission::OtpSend)),
        )
        .routes(route!(verify).guarded(Key::of(Permission::OtpSend)))
        .routes(
            route!(verify)
                .at("/v1/messaging/otp/verify", "verifyOtpByMessagingPath")
                .guarded(Key::of(Permission::OtpSend)),
        )
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
            Reply::json_text(json_bytes(format_args!(
                r#"{{"verified":false,"message":"the code is wrong; {attempts_remaining} {remain}","code":"OTP_INVALID","attempts_remaining":{attempts_remaining}}}"#,
            )))
        }
    })
}

/// Names the request to cancel.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct CancelBody<'a> {
    /// What send answered.
    #[serde(borrow)]
    #[schema(example = "otp_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    request_id: Cow<'a, str>,
}

/// A request was cancelled.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CancelAnswer {
    /// The request.
    #[schema(example = "otp_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    request_id: String,
    /// Always `cancelled`.
    #[schema(example = "cancelled")]
    status: &'static str,
}

#[utoipa::path(
    post,
    path = "/v1/otp/cancel",
    operation_id = "cancelOtp",
    tag = "OTP",
    summary = "Cancel a request",
    description = "Its code verifies nothing from now on. What no channel has of it is withdrawn \
                   and paid back. Cancelling it again answers the same; one that has ended \
                   otherwise answers as a verify of it would.",
    request_body = CancelBody,
    responses((status = 200, description = "Cancelled", body = CancelAnswer))
)]
async fn cancel(call: Call<Principal>) -> Answer {
    let request_id = request_id(&call.json::<CancelBody<'_>>()?.request_id)?;
    call.caller.workspace().cancel_otp(request_id).await?;
    Ok(Reply::ok(&CancelAnswer { request_id: request_id.to_string(), status: "cancelled" }))
}

//! Cancels a request for a one-time password.

use std::borrow::Cow;

use postrider_actors::Permission;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::request_id;
use crate::http::pipeline::{Answer, Call, Key, Principal, Reply, Routes, route};

pub(super) fn routes() -> Routes {
    Routes::default().routes(route!(cancel).guarded(Key::of(Permission::OtpSend))).routes(
        route!(cancel)
            .at("/v1/messaging/otp/cancel", "cancelOtpByMessagingPath")
            .guarded(Key::of(Permission::OtpSend)),
    )
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

//! Pauses, resumes, cancels and retries broadcasts.

use super::broadcast_id;
use super::create::BroadcastMadeAnswer;
use super::read::{BroadcastRow, current};
use crate::http::pipeline::{Answer, Call, Key, Principal, Reply, Routes, route};
use postrider_actors::Permission;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(pause).guarded(Key::of(Permission::BroadcastsWrite)))
        .routes(route!(resume).guarded(Key::of(Permission::BroadcastsWrite)))
        .routes(route!(cancel).guarded(Key::of(Permission::BroadcastsWrite)))
        .routes(route!(retry).guarded(Key::of(Permission::BroadcastsWrite)))
}

#[utoipa::path(
    post,
    path = "/v1/messaging/broadcasts/{broadcast_id}/pause",
    operation_id = "pauseBroadcast",
    tag = "Messaging",
    summary = "Hold a broadcast",
    description = "Nothing more of it is handed to the channel; what the channel has already it keeps.",
    params(("broadcast_id" = String, Path, description = "The broadcast's id")),
    responses((status = 200, description = "It is paused", body = BroadcastRow))
)]
async fn pause(mut call: Call<Principal>) -> Answer {
    let id = broadcast_id(&mut call).await?;
    call.caller.workspace().pause_broadcast(id).await?;
    current(&call, id).await
}

#[utoipa::path(
    post,
    path = "/v1/messaging/broadcasts/{broadcast_id}/resume",
    operation_id = "resumeBroadcast",
    tag = "Messaging",
    summary = "Go on with a paused broadcast",
    description = "Answers 422 `TEMPLATE_NOT_APPROVED` while its template may not be sent.",
    params(("broadcast_id" = String, Path, description = "The broadcast's id")),
    responses((status = 200, description = "It goes on", body = BroadcastRow))
)]
async fn resume(mut call: Call<Principal>) -> Answer {
    let id = broadcast_id(&mut call).await?;
    call.caller.workspace().resume_broadcast(id).await?;
    current(&call, id).await
}

#[utoipa::path(
    post,
    path = "/v1/messaging/broadcasts/{broadcast_id}/cancel",
    operation_id = "cancelBroadcast",
    tag = "Messaging",
    summary = "Stop a broadcast for good",
    description = "What the channel does not have yet is not sent, and its credits are given back.",
    params(("broadcast_id" = String, Path, description = "The broadcast's id")),
    responses((status = 200, description = "It is cancelled", body = BroadcastRow))
)]
async fn cancel(mut call: Call<Principal>) -> Answer {
    let id = broadcast_id(&mut call).await?;
    call.caller.workspace().cancel_broadcast(id).await?;
    current(&call, id).await
}

#[utoipa::path(
    post,
    path = "/v1/messaging/broadcasts/{broadcast_id}/retry",
    operation_id = "retryBroadcast",
    tag = "Messaging",
    summary = "Send again to those that failed",
    description = "Makes a new broadcast to the recipients whose messages failed, of one that is \
                   over. Answers 409 when there are none, and when that was done before. Where \
                   it was to leave through named numbers, it leaves through those that are still \
                   connected, and through no other: 422 `unknown_number` if none is.",
    params(("broadcast_id" = String, Path, description = "The broadcast's id")),
    responses((status = 200, description = "The new broadcast", body = BroadcastMadeAnswer))
)]
async fn retry(mut call: Call<Principal>) -> Answer {
    let id = broadcast_id(&mut call).await?;
    let made = call.caller.workspace().retry_broadcast(id).await?;
    Ok(Reply::ok(&BroadcastMadeAnswer::from(made)))
}

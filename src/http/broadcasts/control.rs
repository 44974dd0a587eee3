//! Changes broadcasts that have not started, and pauses, resumes, cancels and retries broadcasts.

use std::borrow::Cow;

use postrider_actors::{BroadcastChange, Permission};
use serde::Deserialize;
use utoipa::ToSchema;

use super::broadcast_id;
use super::create::{BroadcastMadeAnswer, check_name};
use super::read::{BroadcastRow, current};
use crate::http::pipeline::{Answer, ApiError, Call, Key, Principal, Reply, Routes, route};

/// The fields that cannot be changed after creation, or that have routes of their own.
const FIXED: [&str; 6] = ["template_name", "language", "policy", "reference", "metadata", "status"];

pub(super) fn routes() -> Routes {
    Routes::default()
        .routes(route!(update).guarded(Key::of(Permission::BroadcastsWrite)))
        .routes(route!(pause).guarded(Key::of(Permission::BroadcastsWrite)))
        .routes(route!(resume).guarded(Key::of(Permission::BroadcastsWrite)))
        .routes(route!(cancel).guarded(Key::of(Permission::BroadcastsWrite)))
        .routes(route!(retry).guarded(Key::of(Permission::BroadcastsWrite)))
}

/// A change of a scheduled broadcast; what is left out stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct BroadcastUpdate<'a> {
    /// Its name, for people.
    #[serde(borrow)]
    #[schema(example = "Spring sale", min_length = 1, max_length = 200)]
    name: Option<Cow<'a, str>>,
    /// When it begins, RFC 3339.
    #[serde(borrow)]
    #[schema(format = DateTime, example = "2030-01-31T09:30:00Z")]
    schedule_at: Option<Cow<'a, str>>,
}

#[utoipa::path(
    patch,
    path = "/v1/messaging/broadcasts/{broadcast_id}",
    operation_id = "updateBroadcast",
    tag = "Messaging",
    summary = "Change the name or the time of a scheduled broadcast",
    description = "Answers 409 when it is not scheduled, or not any more. Its audience stays as it \
                   was when it was made.",
    params(("broadcast_id" = String, Path, description = "The broadcast's id")),
    request_body = BroadcastUpdate,
    responses((status = 200, description = "The broadcast", body = BroadcastRow))
)]
async fn update(mut call: Call<Principal>) -> Answer {
    let change = {
        let body: BroadcastUpdate<'_> = call.json()?;
        body.name.as_deref().map(check_name).transpose()?;
        let at = body.schedule_at.as_deref().map(str::parse).transpose();
        BroadcastChange {
            name: body.name.map(Into::into),
            schedule_at: at.map_err(|error| ApiError::field("schedule_at", error))?,
        }
    };
    let id = broadcast_id(&mut call).await?;
    call.keeps(&FIXED, async || {
        Ok(BroadcastRow::from(call.caller.workspace().broadcast(id).await?))
    })
    .await?;
    call.caller.workspace().update_broadcast(id, change).await?;
    current(&call, id).await
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

//! Changes broadcasts that have not started.

use std::borrow::Cow;

use postrider_actors::{BroadcastChange, Permission};
use serde::Deserialize;
use utoipa::ToSchema;

use super::broadcast_id;
use super::create::check_name;
use super::read::{BroadcastRow, current};
use crate::http::pipeline::{Answer, ApiError, Call, Key, Principal, Routes, route};

/// The fields that cannot be changed after creation, or that have routes of their own.
const FIXED: [&str; 6] = ["template_name", "language", "policy", "reference", "metadata", "status"];

pub(super) fn routes() -> Routes {
    Routes::default().routes(route!(update).guarded(Key::of(Permission::BroadcastsWrite)))
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

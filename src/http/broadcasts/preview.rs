//! Reports the content and the cost of a broadcast before it is sent.

use std::sync::Arc;

use postrider_actors::{BroadcastPreview, BroadcastSample, Permission};
use serde::Serialize;
use utoipa::ToSchema;

use super::create::{NewBroadcastBody, members, new_broadcast};
use crate::http::pipeline::{
    Answer, ApiError, BodySize, Call, Key, Principal, Reply, Routes, Takes, route,
};

pub(super) fn routes() -> Routes {
    Routes::default().routes(
        route!(preview)
            .takes(Takes::Json(BodySize::Broadcast))
            .guarded(Key::of(Permission::BroadcastsWrite)),
    )
}

/// What a broadcast would send and cost.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BroadcastPreview)]
pub(crate) struct PreviewAnswer {
    /// Recipients, each once, those that have opted out included.
    #[schema(example = 1200)]
    recipients: usize,
    /// Those that have opted out.
    #[schema(example = 12)]
    suppressed: usize,
    /// Contacts of the segment without a phone, which are left out.
    #[schema(example = 3)]
    without_phone: usize,
    /// Recipients whose variables are missing or do not fit. With one of them no broadcast is made.
    #[schema(example = 0)]
    missing_variables: usize,
    /// Credits for those that have not opted out.
    #[schema(example = 2376)]
    cost: u64,
    /// The balance.
    #[schema(example = 10_000)]
    credits_left: u64,
    /// Seconds that it takes at the pace of its numbers; null where one of them has no limit.
    #[schema(example = 60)]
    seconds_at_pace: Option<u64>,
    /// The messages of the first recipients, at most five.
    samples: Vec<SampleAnswer>,
}

/// The message of a recipient.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BroadcastSample)]
pub(crate) struct SampleAnswer {
    /// Who gets it.
    #[schema(example = "+15550123456")]
    to: String,
    /// The contact's name; null where there is no contact.
    #[schema(example = "Ada")]
    name: Option<Box<str>>,
    /// What their phone shows, without media.
    #[schema(example = "Hello Ada, our spring sale begins.")]
    text: Box<str>,
}

impl From<BroadcastSample> for SampleAnswer {
    fn from(sample: BroadcastSample) -> Self {
        let BroadcastSample { to, name, text } = sample;
        Self { to: to.to_string(), name, text }
    }
}

#[utoipa::path(
    post,
    path = "/v1/messaging/broadcasts/preview",
    operation_id = "previewBroadcast",
    tag = "Messaging",
    summary = "See what a broadcast would send and cost",
    description = "Takes what `POST /v1/messaging/broadcasts` takes, refuses what it refuses, but \
                   for the balance, and makes nothing.",
    request_body = NewBroadcastBody,
    responses((status = 200, description = "What it would be", body = PreviewAnswer))
)]
async fn preview(call: Call<Principal>) -> Answer {
    let permit = Arc::clone(&call.edge.parsers).acquire_owned().await;
    let permit = permit.map_err(|_| ApiError::internal())?;
    // As in `create`: long bodies are parsed beside the async workers, a few at a time.
    let read = tokio::task::spawn_blocking(move || {
        let (new, segment) = new_broadcast(call.json()?)?;
        Ok::<_, ApiError>((call.caller, new, segment, permit))
    });
    let (caller, mut new, segment, permit) = read.await.map_err(|_| ApiError::internal())??;
    let mut without_phone = 0;
    if let Some(segment) = segment {
        let found = members(&caller, segment).await?;
        (new.audience, without_phone) = (found.audience, found.without_phone);
    }
    let found = caller.workspace().preview_broadcast(new).await?;
    drop(permit);
    let BroadcastPreview { recipients, suppressed, missing_variables, .. } = found;
    Ok(Reply::ok(&PreviewAnswer {
        recipients,
        suppressed,
        without_phone,
        missing_variables,
        cost: found.cost,
        credits_left: found.credits_left,
        seconds_at_pace: found.at_pace.map(|time| time.as_secs()),
        samples: found.samples.into_iter().map(SampleAnswer::from).collect(),
    }))
}

//! Lists and shows delivery attempts of a webhook, replays events and sends test events.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use postrider_actors::domain::{Timestamp, WebhookId};
use postrider_actors::{
    AttemptId, ExchangeHalf, Permission, Replay, ReplayError, ShownAttempt, WebhookDelivery,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::NO_SUCH_WEBHOOK;
use crate::http::pipeline::{
    Answer, ApiError, Call, Code, Key, Page, Principal, Query, Reply, Routes, route,
};

const NO_SUCH_DELIVERY: &str = "no such delivery";

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(test).guarded(Key::of(Permission::WebhooksManage)))
        .routes(route!(replay).guarded(Key::of(Permission::WebhooksManage)))
        .routes(route!(list).guarded(Key::of(Permission::WebhooksManage)))
        .routes(route!(read).guarded(Key::of(Permission::WebhooksManage)))
}

/// What is delivered again: exactly one of these.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ReplayBody {
    /// Every event from this moment on, at a low priority.
    #[schema(value_type = Option<String>, format = DateTime, example = "2026-01-31T09:25:00Z")]
    since: Option<String>,
    /// This event.
    #[schema(example = json!(null))]
    event_id: Option<String>,
    #[doc = " What failed: given up (the newest 10,000 are known), or waiting for another try. Only `true`."]
    #[schema(example = json!(null))]
    failed: Option<bool>,
}

/// How much is delivered again.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReplayAnswer {
    /// Events. With `since`, where there are more than 20,000 from then on, those are looked at,
    /// and of the others an endpoint that takes every type has all, and none are counted for
    /// another.
    #[schema(example = 12)]
    queued: u64,
}

/// A test that was asked for.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TestAnswer {
    /// The event that is delivered.
    #[schema(example = "evt_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    event_id: String,
    /// Events.
    #[schema(example = 1)]
    queued: u64,
}

#[doc = " A try of a delivery, or what the event log forgot before it could be delivered, or delivered again."]
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeliveryTry {
    /// Names the row, among those of the endpoint.
    #[schema(example = "dlv_17_0")]
    id: String,
    /// What `webhook-id` said: the event's id, or that of a batch; null for what was forgotten.
    #[schema(example = "evt_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    event_id: Option<String>,
    /// The events that it carried, a hundred at the most: one, unless it was a batch.
    #[schema(example = json!(["evt_01jd3v0x5n8m7k2q4r6s8t0w2y"]), max_items = 100)]
    event_ids: Vec<String>,
    /// The `sequence` of the first and of the last event that the log forgot before they were
    /// delivered, whatever their types; null otherwise.
    #[schema(min_items = 2, max_items = 2)]
    forgotten: Option<[u64; 2]>,
    /// The event's type, `batch` or `forgotten`.
    #[serde(rename = "type")]
    #[schema(example = "otp.verified")]
    kind: String,
    /// Which try this was; of what was forgotten how many there had been.
    #[schema(example = 1)]
    attempt: u32,
    /// The HTTP status; null when there was no answer.
    #[schema(example = 200)]
    status: Option<u16>,
    /// Null for a delivery that arrived; otherwise `status`, `redirect`, `timeout`,
    /// `connection_failed`, `connection_lost`, `response_too_large`, `blocked_address`,
    /// `invalid_url` or `forgotten`.
    error: Option<String>,
    /// Milliseconds that it took.
    #[schema(example = 42)]
    latency_ms: u64,
    /// When it ended.
    #[schema(format = DateTime)]
    at: String,
    /// When the next try comes; null when none does.
    #[schema(format = DateTime)]
    next_retry_at: Option<String>,
}

/// A row of the list of tries.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeliveryRow {
    #[serde(flatten)]
    tried: DeliveryTry,
    /// The beginning of the answer's body; null for an address that is not public.
    response: Option<String>,
}

/// Half of an exchange.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExchangeHalf)]
pub(crate) struct HalfAnswer {
    /// The headers by name, as far as they are known.
    #[schema(value_type = Object, example = json!({"content-type": "application/json"}))]
    headers: BTreeMap<String, String>,
    /// The first 16 KiB of the body; null: it has none, or it is not known.
    #[schema(example = "{\"received\":true}")]
    body: Option<String>,
}

impl From<ExchangeHalf> for HalfAnswer {
    fn from(half: ExchangeHalf) -> Self {
        let mut headers: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in half.headers {
            let known = headers.entry(name).or_default();
            if !known.is_empty() {
                known.push_str(", ");
            }
            known.push_str(&value);
        }
        Self { headers, body: half.body }
    }
}

/// A try with its request and its answer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeliveryDetail {
    #[serde(flatten)]
    tried: DeliveryTry,
    /// What was posted; null for what was forgotten.
    request: Option<HalfAnswer>,
    /// What was answered; null when there was no answer. Of an address that is not public neither
    /// headers nor body are reported.
    response: Option<HalfAnswer>,
}

/// A page of tries.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what a page of them is")]
pub(crate) struct DeliveriesAnswer {
    /// The rows of the page, newest first.
    data: Vec<DeliveryRow>,
    /// Rows of all pages.
    total: usize,
    /// Which page this is.
    page: usize,
}

impl From<WebhookDelivery> for DeliveryRow {
    fn from(mut delivery: WebhookDelivery) -> Self {
        let response = delivery.attempt.response.take();
        Self { tried: delivery.into(), response }
    }
}

impl From<ShownAttempt> for DeliveryDetail {
    fn from(shown: ShownAttempt) -> Self {
        let ShownAttempt { kept, request, answer } = shown;
        let half = |half: Option<ExchangeHalf>| half.map(HalfAnswer::from);
        Self { tried: kept.into(), request: half(request), response: half(answer) }
    }
}

impl From<WebhookDelivery> for DeliveryTry {
    fn from(delivery: WebhookDelivery) -> Self {
        let WebhookDelivery { id, attempt: delivery } = delivery;
        let ids = match delivery.batch_event_ids.as_slice() {
            [] => delivery.event_id.as_slice(),
            batch => batch,
        };
        Self {
            id: id.to_string(),
            event_ids: ids.iter().map(ToString::to_string).collect(),
            event_id: delivery.event_id.map(|id| id.to_string()),
            forgotten: delivery.forgotten.map(|(first, last)| [first, last]),
            kind: delivery.kind,
            attempt: delivery.attempt,
            status: delivery.status,
            error: delivery.error,
            latency_ms: delivery.latency_ms,
            at: delivery.at.to_string(),
            next_retry_at: delivery.next_retry_at.map(|at| at.to_string()),
        }
    }
}

/// The outcome of the wanted tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TryOutcome {
    /// The delivery failed.
    Failed,
    /// The delivery succeeded.
    Ok,
}

/// The filter of a list of tries.
struct DeliveryFilter {
    status: Option<TryOutcome>,
    kind: Option<String>,
    since: Option<Timestamp>,
}

impl DeliveryFilter {
    fn of(query: &Query) -> Result<Self, ApiError> {
        let status = match query.text("status")? {
            None => None,
            Some("failed") => Some(TryOutcome::Failed),
            Some("ok") => Some(TryOutcome::Ok),
            Some(_) => return Err(ApiError::field("status", "must be `failed` or `ok`")),
        };
        let since = query.moment("since")?;
        let kind = query.text("type")?.map(str::to_owned);
        Ok(Self { status, kind, since })
    }

    fn takes(&self, delivery: &WebhookDelivery) -> bool {
        let wanted = if delivery.error.is_some() { TryOutcome::Failed } else { TryOutcome::Ok };
        self.status.is_none_or(|status| status == wanted)
            && self.kind.as_ref().is_none_or(|kind| *kind == delivery.kind)
            && self.since.is_none_or(|since| delivery.at >= since)
    }
}

impl ReplayBody {
    fn check(self) -> Result<Replay, ApiError> {
        match self {
            Self { since: Some(since), event_id: None, failed: None } => {
                let since: Timestamp =
                    since.parse().map_err(|error| ApiError::field("since", error))?;
                Ok(Replay::Since(since))
            }
            Self { since: None, event_id: Some(id), failed: None } => {
                let id = id.parse().map_err(|_| ApiError::not_found("no such event"))?;
                Ok(Replay::Event(id))
            }
            Self { since: None, event_id: None, failed: Some(true) } => Ok(Replay::Failed),
            Self { since: None, event_id: None, failed: Some(false) } => {
                Err(ApiError::field("failed", "must be true"))
            }
            _ => {
                Err(ApiError::invalid("exactly one of `since`, `event_id` and `failed` is needed"))
            }
        }
    }
}

#[utoipa::path(
    post,
    path = "/v1/webhooks/{webhook_id}/test",
    operation_id = "testWebhook",
    tag = "Webhooks",
    summary = "Have a test event delivered",
    description = "A `webhook.test`, to this endpoint alone, whatever types it takes.",
    params(("webhook_id" = String, Path, description = "The endpoint's id")),
    responses((status = 202, description = "Durable, and on its way", body = TestAnswer))
)]
async fn test(mut call: Call<Principal>) -> Answer {
    let id: WebhookId = call.path("webhook_id", NO_SUCH_WEBHOOK).await?;
    let event_id = call.caller.workspace().test_webhook(id).await?.to_string();
    Ok(Reply::json(StatusCode::ACCEPTED, &TestAnswer { event_id, queued: 1 }))
}

#[utoipa::path(
    post,
    path = "/v1/webhooks/{webhook_id}/replay",
    operation_id = "replayWebhook",
    tag = "Webhooks",
    summary = "Deliver events again",
    description = "Each under the `webhook-id` that it had, with all of its tries before it; an \
    endpoint with `batch` may get them in other batches, which have ids of their own. What the log \
    has forgotten does not come again. What is new goes first, whatever is delivered again: that has \
    up to a quarter of the endpoint's requests while nothing new waits, and one in ten otherwise. With `ordered` the events of one contact \
    that are delivered again keep their order too. A new event of that contact waits for one of \
    them that is under way or has failed, and then behind those of the same contact that had \
    begun to wait with it, which go at the pace of a replay; it does not wait for those that have \
    not begun: it may come before them, and its `sequence` shows it. With `ordered` and `batch` any new \
    batch waits so for one that is delivered again: it may be about the same contacts, and may never \
    have arrived; one that keeps failing holds back what is new until it is given up, as a new one \
    does. A replay that is asked for while \
    another one goes on becomes one with it: what lies between the two comes again too. A \
    disabled endpoint keeps what is asked for until it is enabled.",
    params(("webhook_id" = String, Path, description = "The endpoint's id")),
    request_body = ReplayBody,
    responses((status = 202, description = "Durable; on their way if it is enabled", body = ReplayAnswer))
)]
async fn replay(mut call: Call<Principal>) -> Answer {
    let what = call.json::<ReplayBody>()?.check()?;
    let id: WebhookId = call.path("webhook_id", NO_SUCH_WEBHOOK).await?;
    let queued = call.caller.workspace().replay_webhook(id, what).await?;
    Ok(Reply::json(StatusCode::ACCEPTED, &ReplayAnswer { queued }))
}

#[utoipa::path(
    get,
    path = "/v1/webhooks/{webhook_id}/deliveries",
    operation_id = "listWebhookDeliveries",
    tag = "Webhooks",
    summary = "List the tries of an endpoint",
    description = "The last thousand of the last seven days, unless the server is set up otherwise.",
    params(
        ("webhook_id" = String, Path, description = "The endpoint's id"),
        ("status" = Option<String>, Query, description = "Only those that `failed`, or those that \
         are `ok`"),
        ("type" = Option<String>, Query, description = "Only those of this type: an event's, `batch` \
         or `forgotten`"),
        ("since" = Option<String>, Query, description = "Only those that ended at this moment or \
         later"),
        ("page" = Option<i64>, Query, minimum = 1, description = "Which page, 1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Rows of a page, \
         50 by default"),
    ),
    responses((status = 200, description = "A page of tries", body = DeliveriesAnswer))
)]
async fn list(mut call: Call<Principal>) -> Answer {
    let query = call.query()?;
    let (page, filter) = (Page::of(&query)?, DeliveryFilter::of(&query)?);
    let id: WebhookId = call.path("webhook_id", NO_SUCH_WEBHOOK).await?;
    let mut all = call.caller.workspace().webhook_deliveries(id).await?;
    all.retain(|delivery| filter.takes(delivery));
    Ok(Reply::ok(&page.cut(all, DeliveryRow::from)))
}

#[utoipa::path(
    get,
    path = "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}",
    operation_id = "readWebhookDelivery",
    tag = "Webhooks",
    summary = "Read a try of an endpoint, with its request and its answer",
    description = "The request's body is made again of the events, while the event log has all of \
        them. Of the newest tries of the whole server, as many as fit into 8 MiB of memory, the \
        timestamp, the signature, and the answer's headers and 16 KiB of its body are known until \
        the server stops; of the others the beginning of the answer's body.",
    params(
        ("webhook_id" = String, Path, description = "The endpoint's id"),
        ("delivery_id" = String, Path, description = "The try's `id`"),
    ),
    responses((status = 200, description = "The try", body = DeliveryDetail))
)]
async fn read(mut call: Call<Principal>) -> Answer {
    let id: WebhookId = call.path("webhook_id", NO_SUCH_WEBHOOK).await?;
    let attempt: AttemptId = call.path("delivery_id", NO_SUCH_DELIVERY).await?;
    let shown = call.caller.workspace().webhook_delivery(id, attempt).await?;
    let shown = shown.ok_or_else(|| ApiError::not_found(NO_SUCH_DELIVERY))?;
    Ok(Reply::ok(&DeliveryDetail::from(shown)))
}

impl From<ReplayError> for ApiError {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::NotFound | ReplayError::NoSuchEvent => {
                Self::new(Code::NotFound, error.to_string())
            }
            ReplayError::Unavailable(error) => error.into(),
        }
    }
}

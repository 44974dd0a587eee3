//! Registers, reads, updates and deletes webhook endpoints, and shows how they do.

mod deliveries;

use std::num::NonZeroU32;

use axum::http::StatusCode;
use postrider_actors::domain::{PublicEvent, WebhookId};
use postrider_actors::{
    EndpointHealth, Permission, WebhookChange, WebhookError, WebhookInfo, WebhookSecret,
    WebhookSettings, Workspace,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::pipeline::{
    Answer, ApiError, Call, Code, Integer, Key, Page, PageOf, Principal, Reply, Routes, route,
};

pub(crate) const NO_SUCH_WEBHOOK: &str = "no such webhook";
/// The maximum length of a description, in characters.
const DESCRIPTION_CHARS_MAX: usize = 500;
/// The maximum rate limit of an endpoint, in deliveries per second.
const RATE_MAX: u32 = 10_000;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(create).guarded(Key::of(Permission::WebhooksManage)))
        .routes(route!(list).guarded(Key::of(Permission::WebhooksManage)))
        .routes(route!(read).guarded(Key::of(Permission::WebhooksManage)))
        .routes(route!(update).guarded(Key::of(Permission::WebhooksManage)))
        .routes(route!(delete).guarded(Key::of(Permission::WebhooksManage)))
        .routes(route!(rotate).guarded(Key::of(Permission::WebhooksManage)))
        .merge(deliveries::routes())
}

/// An endpoint to be made.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct WebhookInput {
    /// Where events are posted: `https`, and no private or local address, unless the server is set
    /// up to allow it, as a sandbox is.
    #[schema(example = "https://example.com/hooks", max_length = 2048)]
    url: String,
    /// Types of the events that are delivered; empty or left out: all.
    #[schema(example = json!(["otp.verified", "otp.failed"]))]
    events: Option<Vec<String>>,
    /// What you call it.
    #[schema(max_length = 500)]
    description: Option<String>,
    /// Whether anything is delivered.
    #[schema(default = true)]
    enabled: Option<bool>,
    /// Most deliveries in a second.
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 10000)]
    rate_limit_per_second: Option<Integer>,
    /// Whether each delivery waits until those before it that are about the same contact have
    /// arrived or were given up. With `batch`: until the batch before has.
    #[schema(default = false)]
    ordered: Option<bool>,
    /// Whether events are delivered as an array of up to 100.
    #[schema(default = false)]
    batch: Option<bool>,
}

/// Changes of an endpoint. What is left out stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct WebhookUpdate {
    /// Where events are posted.
    #[schema(example = "https://example.com/hooks", max_length = 2048)]
    url: Option<String>,
    /// Types of the events that are delivered; empty: all.
    events: Option<Vec<String>>,
    /// What you call it; null clears it.
    #[serde(default, deserialize_with = "super::pipeline::object::nullable")]
    #[schema(value_type = Option<String>, max_length = 500)]
    description: Option<Option<String>>,
    /// Whether anything is delivered. Enabled again, it goes on where it stood.
    enabled: Option<bool>,
    /// Most deliveries in a second; null lifts the limit.
    #[serde(default, deserialize_with = "super::pipeline::object::nullable")]
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 10000)]
    rate_limit_per_second: Option<Option<Integer>>,
    /// Whether each delivery waits until those before it that are about the same contact have
    /// arrived or were given up. With `batch`: until the batch before has.
    ordered: Option<bool>,
    /// Whether events are delivered as an array of up to 100.
    batch: Option<bool>,
}

/// An endpoint.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WebhookRow {
    /// Its id.
    #[schema(example = "whk_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    id: String,
    /// Where events are posted.
    #[schema(example = "https://example.com/hooks")]
    url: String,
    /// Types of the events that are delivered; empty: all.
    events: Vec<String>,
    /// What you call it.
    description: Option<String>,
    /// Whether anything is delivered.
    enabled: bool,
    /// Why it was disabled, if you did not do so: `gone` (it answered 410), `failing` (for five
    /// days no delivery succeeded) or `administrator`.
    disabled_reason: Option<&'static str>,
    /// Most deliveries in a second.
    rate_limit_per_second: Option<u32>,
    /// Whether each delivery waits until those before it that are about the same contact have
    /// arrived or were given up. With `batch`: until the batch before has.
    ordered: bool,
    /// Whether events are delivered as an array of up to 100.
    batch: bool,
    /// When it was made.
    #[schema(format = DateTime)]
    created_at: String,
    /// When it was last changed.
    #[schema(format = DateTime)]
    updated_at: String,
    /// Until when the secret before the present one signs too; null when none does.
    #[schema(format = DateTime)]
    previous_secret_ends_at: Option<String>,
    /// How it does.
    health: HealthRow,
}

/// An endpoint with its secret; without `Debug`, as it has the secret.
#[derive(Serialize, ToSchema)]
pub(crate) struct WebhookWithSecret {
    #[serde(flatten)]
    webhook: WebhookRow,
    /// What signs every delivery (Standard Webhooks 1.0.0). It is shown here only.
    #[schema(example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]
    secret: String,
}

/// A page of endpoints.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what a page of them is")]
pub(crate) struct WebhooksAnswer {
    /// The rows of the page, oldest first.
    data: Vec<WebhookRow>,
    /// Rows of all pages.
    total: usize,
    /// Which page this is.
    page: usize,
}

impl WebhookRow {
    /// Returns an endpoint with its health.
    pub(crate) async fn of<C>(
        call: &Call<C>,
        workspace: &Workspace,
        info: WebhookInfo,
    ) -> Result<Self, ApiError> {
        let (settings, now) = (info.settings, call.edge.engine.clock().now());
        let ends_at = info.previous_secret_ends_at.filter(|at| *at > now);
        Ok(Self {
            id: info.id.to_string(),
            url: settings.url,
            events: settings.events,
            description: settings.description,
            enabled: settings.enabled,
            disabled_reason: info.disabled_reason.map(|reason| reason.as_str()),
            rate_limit_per_second: settings.rate_limit_per_second.map(NonZeroU32::get),
            ordered: settings.ordered,
            batch: settings.batch,
            created_at: info.created_at.to_string(),
            updated_at: info.updated_at.to_string(),
            previous_secret_ends_at: ends_at.map(|at| at.to_string()),
            health: workspace.webhook_health(info.id).await?.into(),
        })
    }

    /// Returns a page of endpoints. A workspace has at most ten.
    pub(crate) async fn page<C>(
        call: &Call<C>,
        workspace: &Workspace,
        page: Page,
    ) -> Result<PageOf<Self>, ApiError> {
        let all = workspace.webhooks().await?;
        let total = all.len();
        let mut rows = Vec::new();
        for info in all.into_iter().skip(page.skip()).take(page.limit()) {
            rows.push(Self::of(call, workspace, info).await?);
        }
        Ok(page.of_rows(rows, total))
    }
}

impl WebhookWithSecret {
    /// Returns an endpoint with its secret.
    pub(crate) async fn of<C>(
        call: &Call<C>,
        workspace: &Workspace,
        (info, secret): (WebhookInfo, WebhookSecret),
    ) -> Result<Self, ApiError> {
        let webhook = WebhookRow::of(call, workspace, info).await?;
        Ok(Self { webhook, secret: secret.reveal() })
    }
}

impl WebhookInput {
    pub(crate) fn check(self) -> Result<WebhookSettings, ApiError> {
        Ok(WebhookSettings {
            url: self.url,
            events: kinds(self.events.unwrap_or_default())?,
            description: self.description.map(description).transpose()?,
            enabled: self.enabled.unwrap_or(true),
            rate_limit_per_second: self.rate_limit_per_second.map(rate).transpose()?,
            ordered: self.ordered.unwrap_or(false),
            batch: self.batch.unwrap_or(false),
        })
    }
}

impl WebhookUpdate {
    pub(crate) fn check(self) -> Result<WebhookChange, ApiError> {
        let rate_limit = self.rate_limit_per_second;
        Ok(WebhookChange {
            url: self.url,
            events: self.events.map(kinds).transpose()?,
            description: self.description.map(|it| it.map(description).transpose()).transpose()?,
            enabled: self.enabled,
            rate_limit_per_second: rate_limit.map(|it| it.map(rate).transpose()).transpose()?,
            ordered: self.ordered,
            batch: self.batch,
            by_administrator: false,
        })
    }
}

/// Checks event types and removes duplicates.
fn kinds(mut kinds: Vec<String>) -> Result<Vec<String>, ApiError> {
    let known = |kind: &String| PublicEvent::KINDS.iter().any(|(name, _)| name == kind);
    if !kinds.iter().all(known) {
        let names: Vec<_> = PublicEvent::KINDS.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        return Err(ApiError::field("events", format_args!("must be some of {names}")));
    }
    kinds.sort();
    kinds.dedup();
    Ok(kinds)
}

fn description(text: String) -> Result<String, ApiError> {
    if text.chars().count() > DESCRIPTION_CHARS_MAX {
        let rule = format_args!("must have at most {DESCRIPTION_CHARS_MAX} characters");
        return Err(ApiError::field("description", rule));
    }
    Ok(text)
}

fn rate(given: Integer) -> Result<NonZeroU32, ApiError> {
    let rate = given.within("rate_limit_per_second", 1, RATE_MAX)?;
    // `rate` is at least 1.
    Ok(NonZeroU32::new(rate).unwrap_or(NonZeroU32::MIN))
}

#[utoipa::path(
    post,
    path = "/v1/webhooks",
    operation_id = "createWebhook",
    tag = "Webhooks",
    summary = "Register an endpoint",
    description = "Events from now on are posted to it, signed as Standard Webhooks 1.0.0 says. A \
                   workspace may have 10. Answered 2xx within 20 seconds, a delivery has arrived; \
                   otherwise it is tried again after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, \
                   20 h and 24 h. The same event always has the same `webhook-id`.",
    request_body = WebhookInput,
    responses((status = 201, description = "Registered", body = WebhookWithSecret))
)]
async fn create(call: Call<Principal>) -> Answer {
    let settings = call.json::<WebhookInput>()?.check()?;
    let workspace = call.audited(call.caller.workspace());
    let created = workspace.create_webhook(settings).await?;
    let answer = WebhookWithSecret::of(&call, &workspace, created).await?;
    Ok(Reply::json(StatusCode::CREATED, &answer))
}

#[utoipa::path(
    get,
    path = "/v1/webhooks",
    operation_id = "listWebhooks",
    tag = "Webhooks",
    summary = "List the endpoints",
    params(
        ("page" = Option<i64>, Query, minimum = 1, description = "Which page, 1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Rows of a page, \
         50 by default"),
    ),
    responses((status = 200, description = "A page of endpoints", body = WebhooksAnswer))
)]
async fn list(call: Call<Principal>) -> Answer {
    let page = Page::of(&call.query()?)?;
    Ok(Reply::ok(&WebhookRow::page(&call, call.caller.workspace(), page).await?))
}

#[utoipa::path(
    get,
    path = "/v1/webhooks/{webhook_id}",
    operation_id = "readWebhook",
    tag = "Webhooks",
    summary = "Read an endpoint",
    params(("webhook_id" = String, Path, description = "The endpoint's id")),
    responses((status = 200, description = "The endpoint", body = WebhookRow))
)]
async fn read(mut call: Call<Principal>) -> Answer {
    let id: WebhookId = call.path("webhook_id", NO_SUCH_WEBHOOK).await?;
    let workspace = call.caller.workspace();
    let info = workspace.webhook(id).await?;
    Ok(Reply::ok(&WebhookRow::of(&call, workspace, info).await?))
}

#[utoipa::path(
    patch,
    path = "/v1/webhooks/{webhook_id}",
    operation_id = "updateWebhook",
    tag = "Webhooks",
    summary = "Change an endpoint",
    params(("webhook_id" = String, Path, description = "The endpoint's id")),
    request_body = WebhookUpdate,
    responses((status = 200, description = "Changed", body = WebhookRow))
)]
async fn update(mut call: Call<Principal>) -> Answer {
    let change = call.json::<WebhookUpdate>()?.check()?;
    let id: WebhookId = call.path("webhook_id", NO_SUCH_WEBHOOK).await?;
    let workspace = call.audited(call.caller.workspace());
    let info = workspace.update_webhook(id, change).await?;
    Ok(Reply::ok(&WebhookRow::of(&call, &workspace, info).await?))
}

#[utoipa::path(
    delete,
    path = "/v1/webhooks/{webhook_id}",
    operation_id = "deleteWebhook",
    tag = "Webhooks",
    summary = "Delete an endpoint",
    params(("webhook_id" = String, Path, description = "The endpoint's id")),
    responses((status = 204, description = "Deleted; what was not delivered is not delivered"))
)]
async fn delete(mut call: Call<Principal>) -> Answer {
    let id: WebhookId = call.path("webhook_id", NO_SUCH_WEBHOOK).await?;
    call.audited(call.caller.workspace()).delete_webhook(id).await?;
    Ok(Reply::no_content())
}

#[utoipa::path(
    post,
    path = "/v1/webhooks/{webhook_id}/rotate-secret",
    operation_id = "rotateWebhookSecret",
    tag = "Webhooks",
    summary = "Replace an endpoint's secret",
    description = "For 24 hours the secret before signs too: `webhook-signature` then has two, or \
                   more after more rotations, five at the most.",
    params(("webhook_id" = String, Path, description = "The endpoint's id")),
    responses((status = 200, description = "Replaced", body = WebhookWithSecret))
)]
async fn rotate(mut call: Call<Principal>) -> Answer {
    let id: WebhookId = call.path("webhook_id", NO_SUCH_WEBHOOK).await?;
    let workspace = call.audited(call.caller.workspace());
    let rotated = workspace.rotate_webhook_secret(id).await?;
    Ok(Reply::ok(&WebhookWithSecret::of(&call, &workspace, rotated).await?))
}

/// How an endpoint does.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WebhookHealth)]
pub(crate) struct HealthRow {
    /// Which part of the tries of the last 24 hours arrived, of those that are kept; null when
    /// there were none.
    #[schema(minimum = 0, maximum = 1, example = 0.98)]
    success_24h: Option<f64>,
    /// Within how many milliseconds 95 of 100 of them ended; null when there were none.
    #[schema(example = 240)]
    p95_ms: Option<u64>,
    /// Deliveries that wait, as far as the log was read for the endpoint, or are under way.
    #[schema(example = 3)]
    waiting: usize,
    /// For how long the oldest of them has been due.
    #[schema(example = 12)]
    oldest_seconds: u64,
    /// Whether it keeps failing, and is tried only now and then.
    breaker_open: bool,
}

impl From<EndpointHealth> for HealthRow {
    fn from(health: EndpointHealth) -> Self {
        let ms = |took: std::time::Duration| u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        Self {
            success_24h: health.success,
            p95_ms: health.p95.map(ms),
            waiting: health.waiting,
            oldest_seconds: health.oldest.as_secs(),
            breaker_open: health.breaker_open,
        }
    }
}

impl From<WebhookError> for ApiError {
    fn from(error: WebhookError) -> Self {
        let message = error.to_string();
        match error {
            WebhookError::NotFound => Self::new(Code::NotFound, message),
            WebhookError::TooMany => {
                Self::new(Code::Unprocessable, message).because("webhook_limit")
            }
            WebhookError::Url(error) => Self::field("url", error),
            WebhookError::Disabled => {
                Self::new(Code::Unprocessable, message).because("webhook_disabled")
            }
            WebhookError::Unavailable(error) => error.into(),
        }
    }
}

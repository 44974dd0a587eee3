//! Making a broadcast.

use std::borrow::Cow;
use std::sync::Arc;

use postrider_actors::domain::Timestamp;
use postrider_actors::{BroadcastMade, BroadcastPolicy, Caller, NewBroadcast, Route};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::recipients::Recipients;
use crate::http::error::ApiError;
use crate::http::pipeline::{Answer, Call};
use crate::http::reply::Reply;

/// Most characters of a broadcast's name.
const NAME_CHARS_MAX: usize = 200;

/// A broadcast to be made.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewBroadcastBody<'a> {
    /// Its name, for people.
    #[serde(borrow)]
    #[schema(example = "Spring sale", min_length = 1, max_length = 200)]
    name: Cow<'a, str>,
    /// The template's name.
    #[serde(borrow)]
    #[schema(example = "spring_sale")]
    template_name: Cow<'a, str>,
    /// The template's language; `en` unless told.
    #[serde(borrow)]
    #[schema(example = "en", default = "en")]
    language: Option<Cow<'a, str>>,
    /// Phones in E.164, or objects `{"to": "+15550123456", "variables": ["Ada"]}` with the body's
    /// parameters of that recipient. Doubled ones count once.
    #[schema(value_type = Vec<Object>, example = json!(["+15550123456", "+15550123457"]))]
    recipients: Recipients,
    /// When it begins, RFC 3339; left out: at once.
    #[serde(borrow)]
    #[schema(format = DateTime, example = "2030-01-31T09:30:00Z")]
    schedule_at: Option<Cow<'a, str>>,
    /// Parameters of all messages, as the channel's `components` of a template message.
    #[schema(value_type = Option<Vec<Object>>)]
    components: Option<Vec<serde_json::Value>>,
    /// What becomes of messages whose outcome a crash has swallowed: `at_most_once` (they stay
    /// `unknown`) or `at_least_once` (they are sent again).
    #[serde(borrow)]
    #[schema(example = "at_most_once", default = "at_most_once")]
    policy: Option<Cow<'a, str>>,
}

/// A broadcast was made.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BroadcastMadeAnswer {
    /// Names it in every later call.
    #[schema(example = "brd_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    broadcast_id: String,
    /// `queued` or `scheduled`.
    #[schema(example = "queued")]
    status: &'static str,
    /// Recipients, each counted once, those that have opted out included.
    #[schema(example = 2)]
    total_recipients: u32,
}

impl From<BroadcastMade> for BroadcastMadeAnswer {
    fn from(made: BroadcastMade) -> Self {
        Self {
            broadcast_id: made.broadcast_id.to_string(),
            status: made.status.as_str(),
            total_recipients: made.total_recipients,
        }
    }
}

#[utoipa::path(
    post,
    path = "/v1/messaging/broadcasts",
    operation_id = "createBroadcast",
    tag = "Messaging",
    summary = "Send a template to many recipients",
    description = "At once, or at `schedule_at`. Recipients that have opted out are left out and \
                   counted. One credit for each of the others is taken now; what surely is not sent \
                   is given back when the broadcast is over. Answered once all of it is durable. \
                   Honours `Idempotency-Key`.",
    request_body = NewBroadcastBody,
    responses((status = 200, description = "Durable", body = BroadcastMadeAnswer))
)]
pub(crate) async fn create(call: Call<Arc<Caller>>) -> Answer {
    // A body of a million recipients takes a while to read.
    let read = tokio::task::spawn_blocking(move || {
        let new = new_broadcast(call.json()?)?;
        let key = call.idempotency_key(Route::CreateBroadcast)?;
        Ok::<_, ApiError>((call, new, key))
    });
    let (call, new, key) = read.await.map_err(|_| ApiError::internal())??;
    let made = call.caller.workspace.create_broadcast(new, key).await?;
    Ok(Reply::ok(&BroadcastMadeAnswer::from(made.answer)).replayed(made.replayed))
}

fn new_broadcast(body: NewBroadcastBody<'_>) -> Result<NewBroadcast, ApiError> {
    let chars = body.name.chars().count();
    if !(1..=NAME_CHARS_MAX).contains(&chars) || body.name.chars().any(char::is_control) {
        let rule = format_args!("must have 1 to {NAME_CHARS_MAX} characters, none of them control");
        return Err(ApiError::field("name", rule));
    }
    if body.template_name.is_empty() {
        return Err(ApiError::field("template_name", "must not be empty"));
    }
    let schedule_at = match body.schedule_at.as_deref() {
        None => None,
        Some(text) => {
            let at: Timestamp =
                text.parse().map_err(|error| ApiError::field("schedule_at", error))?;
            Some(at)
        }
    };
    let policy = match body.policy.as_deref() {
        None | Some("at_most_once") => BroadcastPolicy::AtMostOnce,
        Some("at_least_once") => BroadcastPolicy::AtLeastOnce,
        Some(_) => {
            return Err(ApiError::field("policy", "must be at_most_once or at_least_once"));
        }
    };
    Ok(NewBroadcast {
        name: body.name.into(),
        template: body.template_name.into(),
        language: body.language.unwrap_or(Cow::Borrowed("en")).into(),
        components: body.components.unwrap_or_default(),
        audience: body.recipients.audience()?,
        schedule_at,
        policy,
    })
}

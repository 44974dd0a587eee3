//! Serves the developer sandbox: delivered messages, the clock, automatic behaviour.
//!
//! Its routes are mounted only in a sandbox.

mod inbound;
mod outcomes;
mod phones;

use std::borrow::Cow;
use std::time::Duration;

use postrider_actors::domain::Timestamp;
use postrider_actors::{AutoDeliver, Permission, SandboxMessage};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::pipeline::{
    Answer, ApiError, Call, ClockMover, Integer, Key, LIMIT_DEFAULT, Principal, Reply, Routes,
    route,
};

/// The maximum number of messages in one answer.
const MESSAGES_MAX: usize = 1000;
/// The default error code of a scripted failure: "Message undeliverable".
const ERROR_CODE_DEFAULT: u32 = 131_026;
/// The maximum step of the clock in one request: a year, in seconds.
const ADVANCE_SECONDS_MAX: u32 = 31_536_000;
/// The latest time of the clock, 2500-01-01T00:00:00Z. Token buckets and ids overflow later.
const CLOCK_END: Timestamp = Timestamp::from_millis(16_725_225_600_000);

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(messages).guarded(Key::of(Permission::SandboxUse)))
        .routes(route!(clock).guarded(Key::of(Permission::SandboxUse)))
        .routes(route!(advance).guarded(ClockMover))
        .merge(inbound::routes())
        .merge(outcomes::routes())
        .merge(phones::routes())
        .routes(route!(read_settings).guarded(Key::of(Permission::SandboxUse)))
        .routes(route!(set_settings).guarded(Key::of(Permission::SandboxUse)))
}

/// A message that the sandbox number "delivered"; without `Debug`, as it has the code.
#[derive(Serialize, ToSchema)]
pub(crate) struct MessageRow {
    /// The message.
    #[schema(example = "msg_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    message_id: String,
    /// Where it went.
    #[schema(example = "+15550123456")]
    to: String,
    /// `otp`, `template`, `text`, `image`, `video`, `document`, `audio`, `sticker`, `location`,
    /// `contacts`, `reaction` or `interactive`.
    #[schema(example = "otp")]
    kind: &'static str,
    /// What the recipient reads.
    text: String,
    /// The code, for an `otp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "123456")]
    code: Option<String>,
    /// When.
    #[schema(format = DateTime)]
    at: String,
    /// The channel that it came over: `messaging`, `sms` or `email`.
    #[schema(example = "messaging")]
    channel: &'static str,
    /// The address of a mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "ada@example.com")]
    email: Option<String>,
}

impl From<SandboxMessage> for MessageRow {
    fn from(message: SandboxMessage) -> Self {
        Self {
            message_id: message.message_id.to_string(),
            to: message.to.to_string(),
            kind: message.kind,
            text: message.text,
            code: message.code,
            at: message.at.to_string(),
            channel: message.channel.as_str(),
            email: message.email.map(Into::into),
        }
    }
}

/// What the sandbox number "delivered".
#[derive(Serialize, ToSchema)]
pub(crate) struct MessagesAnswer {
    /// Newest first.
    data: Vec<MessageRow>,
}

#[utoipa::path(
    get,
    path = "/v1/sandbox/messages",
    operation_id = "listSandboxMessages",
    tag = "Sandbox",
    summary = "Read what was \"delivered\"",
    description = "In memory: lost on a restart.",
    params(
        ("to" = Option<String>, Query, description = "Only messages to this phone"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 1000, description = "Most messages, \
         50 by default"),
    ),
    responses((status = 200, description = "Messages, newest first", body = MessagesAnswer))
)]
async fn messages(call: Call<Principal>) -> Answer {
    let query = call.query()?;
    let to = query.phone("to")?;
    let limit = query.integer("limit", LIMIT_DEFAULT, 1, MESSAGES_MAX)?;
    let messages = call.edge.engine.sandbox().messages(call.caller.workspace().id(), to, limit);
    Ok(Reply::ok(&MessagesAnswer { data: messages.into_iter().map(MessageRow::from).collect() }))
}

/// The engine's clock.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClockAnswer {
    /// Engine time.
    #[schema(format = DateTime, example = "2026-01-31T09:25:00.000Z")]
    now: String,
    /// How far it is ahead of real time.
    #[schema(example = 3600)]
    offset_seconds: u64,
}

/// Moves the clock.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct AdvanceBody {
    /// How far.
    #[schema(value_type = i64, minimum = 0, maximum = 31_536_000, example = 3600)]
    advance_seconds: Integer,
}

#[utoipa::path(
    get,
    path = "/v1/sandbox/clock",
    operation_id = "readSandboxClock",
    tag = "Sandbox",
    summary = "Read the clock",
    responses((status = 200, description = "Engine time", body = ClockAnswer))
)]
async fn clock(call: Call<Principal>) -> Answer {
    Ok(clock_reply(&call))
}

#[utoipa::path(
    post,
    path = "/v1/sandbox/clock",
    operation_id = "advanceSandboxClock",
    tag = "Sandbox",
    summary = "Move the clock forward",
    description = "Moves all that the engine measures, in every workspace of the server, or of \
                   the key's shard in a cluster: limits, expiry, schedules, windows. It survives a restart, never goes back, and ends at \
                   2500-01-01T00:00:00Z. An admin token moves it as a key does; where \
                   `sandbox.clock` is `admin`, a key is answered 403.",
    request_body = AdvanceBody,
    responses((status = 200, description = "Engine time after the move", body = ClockAnswer))
)]
async fn advance(call: Call<Option<Principal>>) -> Answer {
    let seconds = call.json::<AdvanceBody>()?.advance_seconds;
    let seconds: u32 = seconds.within("advance_seconds", 0, ADVANCE_SECONDS_MAX)?;
    let step = Duration::from_secs(seconds.into());
    // Concurrent steps must not pass the end together.
    let clock_lock = call.edge.clock_moves.lock().await;
    let now_ms = call.edge.engine.clock().now().as_millis();
    let moved_ms = u64::from(seconds).checked_mul(1000).and_then(|ms| now_ms.checked_add(ms));
    if moved_ms.is_none_or(|moved_ms| moved_ms > CLOCK_END.as_millis()) {
        let rule = format_args!("must not move the clock beyond {CLOCK_END}");
        return Err(ApiError::field("advance_seconds", rule));
    }
    call.admin().advance_clock(step).await?;
    drop(clock_lock);
    Ok(clock_reply(&call))
}

fn clock_reply<C>(call: &Call<C>) -> Reply {
    let clock = call.edge.engine.clock();
    Reply::ok(&ClockAnswer {
        now: clock.now().to_string(),
        offset_seconds: clock.offset().as_secs(),
    })
}

/// What the sandbox does by itself.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SandboxSettings {
    /// What is reported of each message that it delivers: `none`, `delivered` or `read`.
    #[schema(example = "none")]
    auto_deliver: &'static str,
}

/// What the sandbox is to do by itself.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewSandboxSettings<'a> {
    /// What is reported of each message that it delivers from now on: `none`, `delivered` or
    /// `read`.
    #[serde(borrow)]
    #[schema(example = "delivered")]
    auto_deliver: Cow<'a, str>,
}

#[utoipa::path(
    get,
    path = "/v1/sandbox/settings",
    operation_id = "readSandboxSettings",
    tag = "Sandbox",
    summary = "Read what the sandbox does by itself",
    responses((status = 200, description = "Its settings", body = SandboxSettings))
)]
async fn read_settings(call: Call<Principal>) -> Answer {
    let auto_deliver = call.edge.engine.sandbox().auto_deliver(call.caller.workspace().id());
    Ok(Reply::ok(&SandboxSettings { auto_deliver: auto_deliver.as_str() }))
}

#[utoipa::path(
    put,
    path = "/v1/sandbox/settings",
    operation_id = "setSandboxSettings",
    tag = "Sandbox",
    summary = "Set what the sandbox does by itself",
    description = "At first nothing is reported but what `POST /v1/sandbox/reports` asks for. In \
                   memory: `none` again after a restart.",
    request_body = NewSandboxSettings,
    responses((status = 200, description = "Its settings", body = SandboxSettings))
)]
async fn set_settings(call: Call<Principal>) -> Answer {
    let auto_deliver = {
        let body: NewSandboxSettings<'_> = call.json()?;
        let rule = "must be one of none, delivered, read";
        AutoDeliver::of(&body.auto_deliver).ok_or_else(|| ApiError::field("auto_deliver", rule))?
    };
    call.edge.engine.sandbox().set_auto_deliver(call.caller.workspace().id(), auto_deliver);
    Ok(Reply::ok(&SandboxSettings { auto_deliver: auto_deliver.as_str() }))
}

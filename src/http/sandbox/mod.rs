//! Serves the developer sandbox: delivered messages, the clock, scripted outcomes.
//!
//! Its routes are mounted in a sandbox only.

mod phones;
mod settings;

use std::borrow::Cow;
use std::time::Duration;

use postrider_actors::channel::callback::{Callback, Inbound, Referral};
use postrider_actors::domain::text::MessageText;
use postrider_actors::domain::{Phone, Timestamp, printable};
use postrider_actors::{Permission, SandboxMessage, ScriptedOutcome, random};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::pipeline::{
    Answer, ApiError, Call, ClockMover, Code, Integer, Key, LIMIT_DEFAULT, Principal, Reply,
    Routes, route,
};

/// Most messages in one answer.
const MESSAGES_MAX: usize = 1000;
/// Longest name of a customer, in characters.
const NAME_CHARS_MAX: usize = 100;
/// Longest field of a referral, in characters.
const REFERRAL_CHARS_MAX: usize = 200;
/// Largest step of the clock in one request: a year.
const ADVANCE_SECONDS_MAX: u32 = 31_536_000;
/// The latest time of the clock, 2500-01-01T00:00:00Z. Token buckets and ids overflow later.
const CLOCK_END: Timestamp = Timestamp::from_millis(16_725_225_600_000);
/// Error code of a scripted failure by default: "Message undeliverable".
const ERROR_CODE_DEFAULT: u32 = 131_026;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(messages).guarded(Key::of(Permission::SandboxUse)))
        .routes(route!(clock).guarded(Key::of(Permission::SandboxUse)))
        .routes(route!(advance).guarded(ClockMover))
        .routes(route!(script).guarded(Key::of(Permission::SandboxUse)))
        .routes(route!(receive).guarded(Key::of(Permission::SandboxUse)))
        .merge(phones::routes())
        .merge(settings::routes())
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
    /// `otp`, `template` or `text`.
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
    description = "In memory: gone on a restart.",
    params(
        ("to" = Option<String>, Query, description = "Only messages to this phone"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 1000, description = "Most messages, \
         50 unless told"),
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
    description = "Moves all that the engine measures, in every workspace of the server: limits, \
                   expiry, schedules, windows. It survives a restart, never goes back, and ends at \
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

/// A customer writes; without `Debug`, as it has the text.
#[derive(Deserialize, ToSchema)]
pub(crate) struct InboundBody<'a> {
    /// Who writes, in E.164.
    #[serde(borrow)]
    #[schema(example = "+15550123456", pattern = r"^\+[1-9][0-9]{6,14}$")]
    from: Cow<'a, str>,
    /// What they write.
    #[serde(borrow)]
    #[schema(example = "Hello", min_length = 1, max_length = 4096)]
    text: Cow<'a, str>,
    /// The name in their profile.
    #[serde(borrow)]
    #[schema(example = "Ada", min_length = 1, max_length = 100)]
    name: Option<Cow<'a, str>>,
    /// The advertisement that led them to write.
    #[serde(borrow)]
    referral: Option<ReferralBody<'a>>,
}

/// An advertisement that leads to a conversation.
#[derive(Deserialize, ToSchema)]
#[schema(as = SandboxReferral)]
pub(crate) struct ReferralBody<'a> {
    /// `ad` or `post`; `ad` unless told.
    #[serde(borrow)]
    #[schema(example = "ad", default = "ad")]
    source_type: Option<Cow<'a, str>>,
    /// The channel's id of it.
    #[serde(borrow)]
    #[schema(example = "120208999", min_length = 1, max_length = 200)]
    source_id: Cow<'a, str>,
    /// Its headline.
    #[serde(borrow)]
    #[schema(example = "Spring sale", min_length = 1, max_length = 200)]
    headline: Option<Cow<'a, str>>,
}

impl ReferralBody<'_> {
    fn read(self) -> Result<Referral, ApiError> {
        let source_type = self.source_type.unwrap_or(Cow::Borrowed("ad"));
        if !["ad", "post"].contains(&&*source_type) {
            return Err(ApiError::field("referral.source_type", "must be ad or post"));
        }
        let texts = [
            Some(("source_id", &self.source_id)),
            self.headline.as_ref().map(|it| ("headline", it)),
        ];
        for (name, text) in texts.into_iter().flatten() {
            if !(1..=REFERRAL_CHARS_MAX).contains(&text.chars().count()) {
                let rule = format_args!("must have 1 to {REFERRAL_CHARS_MAX} characters");
                return Err(ApiError::field(&format!("referral.{name}"), rule));
            }
        }
        Ok(Referral {
            source_type: source_type.into(),
            source_id: self.source_id.into(),
            headline: self.headline.map(Into::into),
        })
    }
}

/// What was received.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct InboundAnswer {
    /// What the message is called from now on.
    #[schema(example = "msg_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    message_id: String,
    /// When it was written.
    #[schema(format = DateTime)]
    at: String,
}

#[utoipa::path(
    post,
    path = "/v1/sandbox/inbound",
    operation_id = "receiveSandboxMessage",
    tag = "Sandbox",
    summary = "Have a customer write",
    description = "As if a customer had written to the workspace's number: opens the 24-hour \
                   window in which free text may be sent to them.",
    request_body = InboundBody,
    responses((status = 200, description = "Received", body = InboundAnswer))
)]
async fn receive(call: Call<Principal>) -> Answer {
    let inbound = {
        let body: InboundBody<'_> = call.json()?;
        let from = body.from.parse().map_err(|error| ApiError::field("from", error))?;
        let text: MessageText =
            body.text.parse().map_err(|error| ApiError::field("text", error))?;
        let name = body.name.as_deref();
        let fits = |name: &str| {
            (1..=NAME_CHARS_MAX).contains(&name.chars().count()) && !printable::has_control(name)
        };
        if name.is_some_and(|name| !fits(name)) {
            let rule =
                format_args!("must have 1 to {NAME_CHARS_MAX} characters, none of them control");
            return Err(ApiError::field("name", rule));
        }
        Inbound {
            provider_id: format!("sandbox.{:020x}", random::unique()).into(),
            from: Some(from),
            user_id: None,
            username: None,
            name: name.map(|name| printable::without_turns(name).into()),
            kind: "text".into(),
            text: (**text.as_str()).into(),
            at: call.edge.engine.clock().now(),
            referral: body.referral.map(ReferralBody::read).transpose()?,
        }
    };
    let workspace = call.caller.workspace();
    let numbers = call.edge.engine.admin().numbers(workspace.id()).await?;
    let number = numbers.first().ok_or_else(|| {
        let message = "the workspace has no active messaging number";
        ApiError::new(Code::MessagingNotConnected, message)
    })?;
    let (id, from, text) =
        (inbound.message_id(number.id), inbound.from, Box::<str>::clone(&inbound.text));
    let answer = InboundAnswer { message_id: id.to_string(), at: inbound.at.to_string() };
    let callback = Callback { inbound: vec![inbound], ..Callback::default() };
    workspace.receive(number.id, callback).await?;
    if let Some(from) = from {
        call.edge.engine.sandbox().note_written(workspace.id(), id, from, &text);
    }
    Ok(Reply::ok(&answer))
}

/// What the channel does next.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct OutcomeBody<'a> {
    /// A phone, or `*` for all that have no outcome of their own.
    #[serde(borrow)]
    #[schema(example = "+15550123456")]
    to: Cow<'a, str>,
    /// `sent`; `failed`; `unavailable`: the provider cannot be reached; `lost`: taken, but the
    /// answer never comes; `slow`: `sent` after 5 seconds of engine time.
    #[serde(borrow)]
    #[schema(example = "failed")]
    outcome: Cow<'a, str>,
    /// The channel's error, with `failed` only.
    #[schema(value_type = Option<i64>, minimum = 0, maximum = 4_294_967_295_i64, default = 131_026)]
    error_code: Option<Integer>,
    /// For how many messages; left out: until replaced.
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 4_294_967_295_i64)]
    times: Option<Integer>,
}

/// What the channel does next, as it was scripted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OutcomeAnswer {
    /// A phone, or `*` for all that have no outcome of their own.
    #[schema(example = "+15550123456")]
    to: String,
    /// What happens to the messages.
    #[schema(example = "failed")]
    outcome: String,
    /// The channel's error, with `failed` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<u32>,
    /// For how many messages; left out: until replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    times: Option<u32>,
}

#[utoipa::path(
    post,
    path = "/v1/sandbox/outcomes",
    operation_id = "scriptSandboxOutcome",
    tag = "Sandbox",
    summary = "Script what the channel does next",
    request_body = OutcomeBody,
    responses((status = 200, description = "What was scripted", body = OutcomeAnswer))
)]
async fn script(call: Call<Principal>) -> Answer {
    let body: OutcomeBody<'_> = call.json()?;
    let mut error_code = None;
    let to: Option<Phone> = match &*body.to {
        "*" => None,
        phone => Some(phone.parse().map_err(|error| {
            ApiError::field("to", format_args!("must be `*` or a phone, which {error}"))
        })?),
    };
    let outcome = match &*body.outcome {
        "sent" => ScriptedOutcome::Sent,
        "failed" => {
            let code = body.error_code.unwrap_or(Integer(ERROR_CODE_DEFAULT.into()));
            let code = code.within("error_code", 0, u32::MAX)?;
            error_code = Some(code);
            ScriptedOutcome::Failed { error_code: code }
        }
        "unavailable" => ScriptedOutcome::Unavailable,
        "lost" => ScriptedOutcome::Lost,
        "slow" => ScriptedOutcome::Slow,
        _ => {
            let rule = "must be one of sent, failed, unavailable, lost, slow";
            return Err(ApiError::field("outcome", rule));
        }
    };
    if body.error_code.is_some() && error_code.is_none() {
        return Err(ApiError::field("error_code", "must be given with the outcome `failed` only"));
    }
    let times = body.times.map(|times| times.within("times", 1, u32::MAX)).transpose()?;
    call.edge.engine.sandbox().script(call.caller.workspace().id(), to, outcome, times);
    let (to, outcome) = (body.to.into_owned(), body.outcome.into_owned());
    Ok(Reply::ok(&OutcomeAnswer { to, outcome, error_code, times }))
}

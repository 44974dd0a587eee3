//! Serves the scripted outcomes of the sandbox: what its channel does with the next messages.

use std::borrow::Cow;

use postrider_actors::channel::sandbox::script_codes;
use postrider_actors::domain::Phone;
use postrider_actors::domain::event::chain::OtpChannel;
use postrider_actors::{Permission, ScriptedOutcome};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ERROR_CODE_DEFAULT;
use crate::http::pipeline::{
    Answer, ApiError, Call, Integer, Key, Principal, Reply, Routes, route,
};

pub(super) fn routes() -> Routes {
    let guard = Key::of(Permission::SandboxUse);
    Routes::default()
        .routes(route!(script_outcome).guarded(guard))
        .routes(route!(outcomes).guarded(guard))
        .routes(route!(forget_outcomes).guarded(guard))
}

/// What the channel does next.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct OutcomeBody<'a> {
    /// A phone, or `*` for all that have no outcome of their own.
    #[serde(borrow)]
    #[schema(example = "+15550123456")]
    to: Cow<'a, str>,
    /// `sent`; `failed`; `unavailable`: the provider cannot be reached; `lost`: taken, but the
    /// answer never comes; `slow`: `sent` after 5 seconds of engine time; `silent`: `sent`, and its
    /// delivery is never reported, so that a further channel of a code has its turn; `held`: taken
    /// and held back until a report on it is made.
    #[serde(borrow)]
    #[schema(example = "failed")]
    outcome: Cow<'a, str>,
    /// The channel's error, with `failed` only.
    #[schema(value_type = Option<i64>, minimum = 0, maximum = 4_294_967_295_i64, default = 131_026)]
    error_code: Option<Integer>,
    /// For how many messages; left out: until replaced.
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 4_294_967_295_i64)]
    times: Option<Integer>,
    /// Which channel does so: `messaging`, `sms` or `email`.
    #[serde(borrow)]
    #[schema(example = "messaging", default = "messaging")]
    channel: Option<Cow<'a, str>>,
}

/// What the channel does next, as it was scripted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OutcomeAnswer {
    /// A phone, or `*` for all that have no outcome of their own.
    #[schema(example = "+15550123456")]
    pub(super) to: String,
    /// What happens to the messages.
    #[schema(example = "failed")]
    pub(super) outcome: String,
    /// The channel's error, with `failed` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error_code: Option<u32>,
    /// For how many messages; left out: until replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) times: Option<u32>,
    /// Which channel does so.
    #[schema(example = "messaging")]
    pub(super) channel: &'static str,
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
async fn script_outcome(call: Call<Principal>) -> Answer {
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
        "silent" => ScriptedOutcome::Silent,
        "held" => ScriptedOutcome::Held,
        _ => {
            let rule = "must be one of sent, failed, unavailable, lost, slow, silent, held";
            return Err(ApiError::field("outcome", rule));
        }
    };
    if body.error_code.is_some() && error_code.is_none() {
        return Err(ApiError::field("error_code", "must be given with the outcome `failed` only"));
    }
    let times = body.times.map(|times| times.within("times", 1, u32::MAX)).transpose()?;
    let channel = match body.channel.as_deref() {
        None => OtpChannel::Messaging,
        Some(name) => OtpChannel::of(name)
            .ok_or_else(|| ApiError::field("channel", "must be one of messaging, sms, email"))?,
    };
    let sandbox = call.edge.engine.sandbox();
    let workspace = call.caller.workspace().id();
    match channel {
        OtpChannel::Messaging => sandbox.script(workspace, to, outcome, times),
        OtpChannel::Sms | OtpChannel::Email => {
            script_codes(sandbox, workspace, channel, to, outcome, times);
        }
    }
    let (to, outcome) = (body.to.into_owned(), body.outcome.into_owned());
    Ok(Reply::ok(&OutcomeAnswer { to, outcome, error_code, times, channel: channel.as_str() }))
}

/// An outcome that is scripted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OutcomesAnswer {
    /// That for all phones first.
    data: Vec<OutcomeAnswer>,
}

#[utoipa::path(
    get,
    path = "/v1/sandbox/outcomes",
    operation_id = "listSandboxOutcomes",
    tag = "Sandbox",
    summary = "List what is scripted",
    responses((status = 200, description = "What the channel does next", body = OutcomesAnswer))
)]
async fn outcomes(call: Call<Principal>) -> Answer {
    let scripts = call.edge.engine.sandbox().scripts(call.caller.workspace().id());
    let row = |(to, outcome, times): (Option<Phone>, ScriptedOutcome, Option<u32>)| {
        let (outcome, error_code) = match outcome {
            ScriptedOutcome::Sent => ("sent", None),
            ScriptedOutcome::Failed { error_code } => ("failed", Some(error_code)),
            ScriptedOutcome::Unavailable => ("unavailable", None),
            ScriptedOutcome::Lost => ("lost", None),
            ScriptedOutcome::Slow => ("slow", None),
            ScriptedOutcome::Silent => ("silent", None),
            ScriptedOutcome::Held => ("held", None),
        };
        let to = to.map_or_else(|| "*".to_owned(), |to| to.to_string());
        let channel = "messaging";
        OutcomeAnswer { to, outcome: outcome.to_owned(), error_code, times, channel }
    };
    Ok(Reply::ok(&OutcomesAnswer { data: scripts.into_iter().map(row).collect() }))
}

#[utoipa::path(
    delete,
    path = "/v1/sandbox/outcomes",
    operation_id = "forgetSandboxOutcomes",
    tag = "Sandbox",
    summary = "Forget what is scripted",
    responses((status = 204, description = "The channel delivers everything again"))
)]
async fn forget_outcomes(call: Call<Principal>) -> Answer {
    call.edge.engine.sandbox().forget_scripts(call.caller.workspace().id());
    Ok(Reply::no_content())
}

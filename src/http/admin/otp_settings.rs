//! Sets and reads how a workspace sends one-time passwords.
//!
//! These are the prefixes that they may go to, the channels that they are sent over, their texts
//! for SMS and mail, and the test phones.

use std::borrow::Cow;
use std::collections::BTreeMap;

use postrider_actors::domain::destination::PREFIXES_MAX;
use postrider_actors::domain::event::chain::ChainStep;
use postrider_actors::domain::otp_text::{Language, OtpText, OtpTexts};
use postrider_actors::domain::{Destinations, DestinationsChange, OtpCode, Phone, Prefix};
use postrider_actors::{Permission, TestPhones};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{workspace, workspace_id};
use crate::http::otp::{StepBody, steps};
use crate::http::pipeline::{Answer, ApiError, Call, Manages, Reply, Routes, object, route};

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(set_destinations).guarded(Manages::of(Permission::SettingsWrite)))
        .routes(route!(read_destinations).guarded(Manages::of(Permission::SettingsWrite)))
        .routes(route!(set_test_phones).guarded(Manages::of(Permission::SettingsWrite)))
        .routes(route!(read_test_phones).guarded(Manages::of(Permission::SettingsWrite)))
        .routes(route!(set_channels).guarded(Manages::of(Permission::SettingsWrite)))
        .routes(route!(read_channels).guarded(Manages::of(Permission::SettingsWrite)))
        .routes(route!(set_texts).guarded(Manages::of(Permission::SettingsWrite)))
        .routes(route!(read_texts).guarded(Manages::of(Permission::SettingsWrite)))
}

/// Where one-time passwords may go, by the first digits of phones: a country calling code, or a
/// part of a country such as 1876.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Destinations)]
pub(crate) struct DestinationsBody<'a> {
    /// Only here; empty: everywhere.
    #[serde(borrow, default)]
    #[schema(value_type = Vec<String>, example = json!(["49", "43"]), max_items = 1000)]
    allow: Vec<Cow<'a, str>>,
    /// Not here, whatever is allowed.
    #[serde(borrow, default)]
    #[schema(value_type = Vec<String>, example = json!(["1876"]), max_items = 1000)]
    deny: Vec<Cow<'a, str>>,
    /// Not limited here, however few codes are verified; left out: as it is.
    #[serde(borrow, default, deserialize_with = "object::nullable")]
    #[schema(value_type = Vec<String>, example = json!(["4915"]), max_items = 1000)]
    safe: Option<Vec<Cow<'a, str>>>,
    /// What is done about destinations whose codes are rarely verified: `off`, `report` or
    /// `refuse`; null: what `[guard] adaptive` of the settings says; left out: as it is.
    #[serde(borrow, default, deserialize_with = "object::nullable")]
    #[schema(value_type = Option<String>, example = "refuse")]
    adaptive: Option<Option<Cow<'a, str>>>,
}

fn checked_prefixes(field: &str, texts: &[Cow<'_, str>]) -> Result<Vec<Prefix>, ApiError> {
    if texts.len() > PREFIXES_MAX {
        let rule = format_args!("must have at most {PREFIXES_MAX} entries");
        return Err(ApiError::field(field, rule));
    }
    let parse = |(index, text): (usize, &Cow<'_, str>)| {
        text.parse().map_err(|error| ApiError::field(&format!("{field}[{index}]"), error))
    };
    texts.iter().enumerate().map(parse).collect()
}

fn destinations_reply(destinations: &Destinations) -> Reply {
    let texts = |prefixes: &[Prefix]| -> Vec<Cow<'static, str>> {
        prefixes.iter().map(|prefix| prefix.to_string().into()).collect()
    };
    let Destinations { allow, deny, safe, adaptive } = destinations;
    let adaptive = adaptive.map(|mode| mode.as_str().into());
    let (allow, deny, safe) = (texts(allow), texts(deny), Some(texts(safe)));
    Reply::ok(&DestinationsBody { allow, deny, safe, adaptive: Some(adaptive) })
}

#[utoipa::path(
    put,
    path = "/admin/v1/workspaces/{workspace}/destinations",
    operation_id = "setDestinations",
    tag = "Administration",
    summary = "Set where one-time passwords of a workspace may go",
    description = "`allow` and `deny` are empty where they are left out; `safe` and `adaptive` then stay as they are. One to anywhere \
                   else is answered 422 with the reason `destination_blocked`, and costs nothing. So is one to a destination that is \
                   limited because few of its codes are verified; `otp.decided` says why.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    request_body = DestinationsBody,
    responses((status = 200, description = "The destinations in force", body = DestinationsBody))
)]
async fn set_destinations(mut call: Call<()>) -> Answer {
    let change = {
        let body: DestinationsBody<'_> = call.json()?;
        let adaptive = body.adaptive.map(|mode| mode.map(|mode| mode.parse()).transpose());
        DestinationsChange {
            allow: checked_prefixes("allow", &body.allow)?,
            deny: checked_prefixes("deny", &body.deny)?,
            safe: body.safe.map(|safe| checked_prefixes("safe", &safe)).transpose()?,
            adaptive: adaptive.transpose().map_err(|error| ApiError::field("adaptive", error))?,
        }
    };
    let id = workspace_id(&mut call).await?;
    Ok(destinations_reply(&call.admin().set_destinations(&id, change).await?))
}

#[utoipa::path(
    get,
    path = "/admin/v1/workspaces/{workspace}/destinations",
    operation_id = "readDestinations",
    tag = "Administration",
    summary = "Read where one-time passwords of a workspace may go",
    params(("workspace" = String, Path, description = "The workspace's id")),
    responses((status = 200, description = "The destinations in force", body = DestinationsBody))
)]
async fn read_destinations(mut call: Call<()>) -> Answer {
    let id = workspace_id(&mut call).await?;
    Ok(destinations_reply(&call.edge.engine.admin().destinations(&id).await?))
}

/// The test phones to be; without `Debug`, as it has their codes.
#[derive(Deserialize, ToSchema)]
#[schema(as = NewTestPhones, example = json!({"phones": {"+15550100001": "123456"}}))]
pub(crate) struct TestPhonesBody {
    /// Each phone with the code that verifies there, of 4 to 8 digits: at most 50.
    #[schema(example = json!({"+15550100001": "123456"}))]
    phones: BTreeMap<String, String>,
}

/// The test phones of a workspace, without their codes.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TestPhones)]
pub(crate) struct TestPhonesAnswer {
    /// In order.
    #[schema(example = json!(["+15550100001"]))]
    phones: Vec<String>,
}

fn test_phones_reply(phones: &[Phone]) -> Reply {
    Reply::ok(&TestPhonesAnswer { phones: phones.iter().map(ToString::to_string).collect() })
}

#[utoipa::path(
    put,
    path = "/admin/v1/workspaces/{workspace}/test-phones",
    operation_id = "setTestPhones",
    tag = "Administration",
    summary = "Set the test phones of a workspace",
    description = "In place of those before. A one-time password to one of them is answered as any \
                   other, but nothing is sent, paid, limited or counted: the code that is set here \
                   verifies it. Its events have `test` true.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    request_body = TestPhonesBody,
    responses((status = 200, description = "The test phones in force", body = TestPhonesAnswer))
)]
async fn set_test_phones(mut call: Call<()>) -> Answer {
    let phones = {
        let body: TestPhonesBody = call.json()?;
        if body.phones.len() > TestPhones::MAX {
            let rule = format_args!("must have at most {} entries", TestPhones::MAX);
            return Err(ApiError::field("phones", rule));
        }
        let parse = |(phone, code): (&String, &String)| {
            let field = format!("phones.{phone}");
            let phone: Phone = phone.parse().map_err(|error| ApiError::field(&field, error))?;
            let code = OtpCode::chosen(code).map_err(|error| ApiError::field(&field, error))?;
            Ok((phone, code))
        };
        let phones = body.phones.iter().map(parse).collect::<Result<Vec<_>, ApiError>>()?;
        for (at, (phone, _)) in phones.iter().enumerate() {
            if let Some((other, _)) = phones[..at].iter().find(|(other, _)| other == phone) {
                let rule = format_args!("is the same phone as {other}");
                return Err(ApiError::field(&format!("phones.{phone}"), rule));
            }
        }
        phones
    };
    let (workspace, phones) = (workspace(&mut call).await?, TestPhones::new(phones));
    let answer = test_phones_reply(&phones.phones());
    workspace.set_test_phones(phones).await?;
    Ok(answer)
}

#[utoipa::path(
    get,
    path = "/admin/v1/workspaces/{workspace}/test-phones",
    operation_id = "readTestPhones",
    tag = "Administration",
    summary = "Read the test phones of a workspace",
    description = "Without their codes.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    responses((status = 200, description = "The test phones in force", body = TestPhonesAnswer))
)]
async fn read_test_phones(mut call: Call<()>) -> Answer {
    Ok(test_phones_reply(&workspace(&mut call).await?.test_phones().await?))
}

/// The chain of requests that name none.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewOtpChannels)]
pub(crate) struct OtpChannelsBody {
    /// One to three steps, each the name of a channel or an object with its time.
    #[schema(
        value_type = Vec<Object>, min_items = 1, max_items = 3,
        example = json!([{"channel": "messaging"}, {"channel": "sms"}])
    )]
    channels: Vec<StepBody>,
}

/// The chain of requests that name none.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OtpChannels)]
pub(crate) struct OtpChannelsAnswer {
    /// In order, each with its `channel` and `timeout_seconds`.
    #[schema(value_type = Vec<Object>, example = json!([{"channel": "sms", "timeout_seconds": 30}]))]
    channels: Vec<StepRow>,
}

/// A step of a chain.
#[derive(Debug, Serialize)]
pub(crate) struct StepRow {
    /// The name of the channel: `messaging`, `sms` or `email`.
    channel: &'static str,
    /// The time after which the next step starts without a known delivery, in seconds.
    timeout_seconds: u16,
}

fn channels_reply(steps: &[ChainStep]) -> Reply {
    let row = |step: &ChainStep| StepRow {
        channel: step.channel.as_str(),
        timeout_seconds: step.timeout_seconds,
    };
    Reply::ok(&OtpChannelsAnswer { channels: steps.iter().map(row).collect() })
}

#[utoipa::path(
    put,
    path = "/admin/v1/workspaces/{workspace}/otp-channels",
    operation_id = "setOtpChannels",
    tag = "Administration",
    summary = "Set over which channels one-time passwords of a workspace arrive",
    description = "The chain of requests that name no `channels`. A code goes over the first; each \
                   further step begins when the one before is refused or has had its time.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    request_body = OtpChannelsBody,
    responses((status = 200, description = "The chain in force", body = OtpChannelsAnswer))
)]
async fn set_channels(mut call: Call<()>) -> Answer {
    let steps = steps(&call.json::<OtpChannelsBody>()?.channels)?;
    let id = workspace_id(&mut call).await?;
    Ok(channels_reply(&call.admin().set_otp_channels(&id, steps).await?))
}

#[utoipa::path(
    get,
    path = "/admin/v1/workspaces/{workspace}/otp-channels",
    operation_id = "readOtpChannels",
    tag = "Administration",
    summary = "Read over which channels one-time passwords of a workspace arrive",
    params(("workspace" = String, Path, description = "The workspace's id")),
    responses((status = 200, description = "The chain in force", body = OtpChannelsAnswer))
)]
async fn read_channels(mut call: Call<()>) -> Answer {
    let id = workspace_id(&mut call).await?;
    Ok(channels_reply(&call.edge.engine.admin().otp_channels(&id).await?))
}

/// What a code is written in, in one language. `{code}` and `{minutes}` stand for what they name.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub(crate) struct OtpTextBody {
    /// An SMS, with `{code}` in it.
    #[schema(example = "{code} is your code. It is valid for {minutes} min.")]
    sms: String,
    /// The subject of a mail.
    #[schema(example = "Your code")]
    email_subject: String,
    /// The text of a mail, with `{code}` in it.
    #[schema(example = "{code} is your code. It is valid for {minutes} min.")]
    email_text: String,
}

/// Texts by language, such as `en` or `pt_BR`: at most 50.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = OtpTexts, example = json!({"pt": {
    "sms": "{code} é o seu código.",
    "email_subject": "O seu código",
    "email_text": "{code} é o seu código. Vale por {minutes} min."
}}))]
pub(crate) struct OtpTextsBody(
    #[serde(deserialize_with = "object::values")] BTreeMap<String, OtpTextBody>,
);

fn texts_reply(texts: &OtpTexts) -> Reply {
    let row = |(language, text): (String, OtpText)| {
        let OtpText { sms, email_subject, email_text } = text;
        (language, OtpTextBody { sms, email_subject, email_text })
    };
    Reply::ok(&OtpTextsBody(texts.in_force().into_iter().map(row).collect()))
}

#[utoipa::path(
    put,
    path = "/admin/v1/workspaces/{workspace}/otp-texts",
    operation_id = "setOtpTexts",
    tag = "Administration",
    summary = "Set what one-time passwords of a workspace are written in over SMS and mail",
    description = "In place of those before. English is built in, and can be replaced.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    request_body = OtpTextsBody,
    responses((status = 200, description = "The texts in force", body = OtpTextsBody))
)]
async fn set_texts(mut call: Call<()>) -> Answer {
    let OtpTextsBody(given) = call.json()?;
    if given.len() > OtpTexts::MAX {
        let rule = format_args!("must be at most {} languages", OtpTexts::MAX);
        return Err(ApiError::field("the body", rule));
    }
    let mut texts = OtpTexts::default();
    for (language, OtpTextBody { sms, email_subject, email_text }) in given {
        language.parse::<Language>().map_err(|error| ApiError::field(&language, error))?;
        let text = OtpText { sms, email_subject, email_text };
        text.check()
            .map_err(|(field, error)| ApiError::field(&format!("{language}.{field}"), error))?;
        texts.0.insert(language, text);
    }
    let id = workspace_id(&mut call).await?;
    Ok(texts_reply(&call.admin().set_otp_texts(&id, texts).await?))
}

#[utoipa::path(
    get,
    path = "/admin/v1/workspaces/{workspace}/otp-texts",
    operation_id = "readOtpTexts",
    tag = "Administration",
    summary = "Read what one-time passwords of a workspace are written in over SMS and mail",
    params(("workspace" = String, Path, description = "The workspace's id")),
    responses((status = 200, description = "The texts in force", body = OtpTextsBody))
)]
async fn read_texts(mut call: Call<()>) -> Answer {
    let id = workspace_id(&mut call).await?;
    Ok(texts_reply(&call.edge.engine.admin().otp_texts(&id).await?))
}

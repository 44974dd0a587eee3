//! Sets up the channels of a workspace beside the chat app: e-mail, and an SMS gateway.

use std::borrow::Cow;

use axum::http::StatusCode;
use postrider_actors::domain::printable;
use postrider_actors::{EmailChannel, Permission, SmsInfo, SmsRoute, WebhookSecret, Workspace};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::workspace;
use crate::http::pipeline::{Answer, ApiError, Call, Manages, Reply, Routes, route};

/// The maximum length of an SMS sender's name, in characters.
const SENDER_CHARS_MAX: usize = 64;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(open_email).guarded(Manages::of(Permission::SettingsWrite)))
        .routes(route!(read_email).guarded(Manages::of(Permission::SettingsWrite)))
        .routes(route!(close_email).guarded(Manages::of(Permission::SettingsWrite)))
        .routes(route!(set_sms).guarded(Manages::of(Permission::SettingsWrite)))
        .routes(route!(read_sms).guarded(Manages::of(Permission::SettingsWrite)))
        .routes(route!(delete_sms).guarded(Manages::of(Permission::SettingsWrite)))
}

/// The e-mail channel of a workspace.
#[derive(Serialize, ToSchema)]
#[schema(as = EmailChannel)]
pub(crate) struct EmailAnswer {
    /// Where mails are posted.
    #[schema(example = "/channels/email/acme")]
    callback_path: String,
    /// What signs them, as Standard Webhooks says; shown only here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]
    secret: Option<String>,
    /// Since when the secret is this one.
    #[schema(format = DateTime, example = "2026-01-31T09:25:00.000Z")]
    created_at: String,
}

impl EmailAnswer {
    fn of(workspace: &Workspace, channel: &EmailChannel, secret: Option<String>) -> Self {
        let callback_path = format!("/channels/email/{}", workspace.id());
        Self { callback_path, secret, created_at: channel.created_at.to_string() }
    }
}

#[utoipa::path(
    post,
    path = "/admin/v1/workspaces/{workspace}/email",
    operation_id = "openEmail",
    tag = "Administration",
    summary = "Open the e-mail channel, or give it another secret",
    description = "The secret is shown only here; one that was before it is void at once.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    responses((status = 201, description = "The channel and its secret", body = EmailAnswer))
)]
async fn open_email(mut call: Call<()>) -> Answer {
    let workspace = workspace(&mut call).await?;
    let (channel, secret) = workspace.open_email().await?;
    let answer = EmailAnswer::of(&workspace, &channel, Some(secret.reveal()));
    Ok(Reply::json(StatusCode::CREATED, &answer))
}

#[utoipa::path(
    get,
    path = "/admin/v1/workspaces/{workspace}/email",
    operation_id = "readEmail",
    tag = "Administration",
    summary = "Read the e-mail channel",
    params(("workspace" = String, Path, description = "The workspace's id")),
    responses((status = 200, description = "The channel", body = EmailAnswer))
)]
async fn read_email(mut call: Call<()>) -> Answer {
    let workspace = workspace(&mut call).await?;
    let channel = workspace.email_channel().await?;
    let channel = channel.ok_or_else(|| ApiError::not_found("the channel is not open"))?;
    Ok(Reply::ok(&EmailAnswer::of(&workspace, &channel, None)))
}

#[utoipa::path(
    delete,
    path = "/admin/v1/workspaces/{workspace}/email",
    operation_id = "closeEmail",
    tag = "Administration",
    summary = "Close the e-mail channel",
    description = "No mail comes in any more; conversations stay.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    responses((status = 204, description = "Closed"))
)]
async fn close_email(mut call: Call<()>) -> Answer {
    workspace(&mut call).await?.close_email().await?;
    Ok(Reply::no_content())
}

/// An SMS gateway to be; without `Debug`, as it has a secret.
#[derive(Deserialize, ToSchema)]
#[schema(as = SmsInput)]
pub(crate) struct SmsBody<'a> {
    /// `http`: requests to `url`; `sandbox`: SMS stand in `GET /v1/sandbox/messages`.
    #[serde(borrow)]
    #[schema(example = "http")]
    kind: Cow<'a, str>,
    /// Where SMS are posted, of the kind `http`.
    #[serde(borrow)]
    #[schema(example = "https://sms.example.com/send")]
    url: Option<Cow<'a, str>>,
    /// What signs the requests and their receipts; made here if it is left out.
    #[serde(borrow)]
    #[schema(example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]
    secret: Option<Cow<'a, str>>,
    /// Whom SMS come from: 1 to 64 printable characters.
    #[serde(borrow)]
    #[schema(example = "Acme", min_length = 1, max_length = 64)]
    sender: Option<Cow<'a, str>>,
}

/// The SMS gateway of a workspace.
#[derive(Serialize, ToSchema)]
#[schema(as = Sms)]
pub(crate) struct SmsAnswer {
    /// `http` or `sandbox`.
    #[schema(example = "http")]
    kind: &'static str,
    /// Where SMS are posted.
    #[schema(example = "https://sms.example.com/send")]
    url: Option<String>,
    /// Whom SMS come from.
    #[schema(example = "Acme")]
    sender: Option<String>,
    /// Where the gateway posts receipts.
    #[schema(example = "/channels/sms/acme")]
    callback_path: String,
    /// What signs both, as Standard Webhooks says; shown only when it was made here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]
    secret: Option<String>,
    /// Since when it is so.
    #[schema(format = DateTime, example = "2026-01-31T09:25:00.000Z")]
    created_at: String,
}

impl SmsAnswer {
    fn of(workspace: &Workspace, info: SmsInfo, secret: Option<WebhookSecret>) -> Self {
        let (kind, url) = match info.route {
            SmsRoute::Sandbox => ("sandbox", None),
            SmsRoute::Http { url } => ("http", Some(url)),
        };
        Self {
            kind,
            url,
            sender: info.sender,
            callback_path: format!("/channels/sms/{}", workspace.id()),
            secret: secret.map(|secret| secret.reveal()),
            created_at: info.created_at.to_string(),
        }
    }
}

#[utoipa::path(
    put,
    path = "/admin/v1/workspaces/{workspace}/sms",
    operation_id = "setSms",
    tag = "Administration",
    summary = "Set the SMS gateway of a workspace",
    description = "Steps by `sms` of one-time passwords are posted to it, signed as Standard \
                   Webhooks says, with `id`, `type`, `to`, `from`, `text`, `language` and \
                   `expires_at`. 2xx: sent; 429 and 503: not taken, and posted again while the step \
                   lasts; other 4xx: refused. The rules for addresses are those of webhooks.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    request_body = SmsBody,
    responses((status = 200, description = "The gateway, with a secret made here", body = SmsAnswer))
)]
async fn set_sms(mut call: Call<()>) -> Answer {
    let (route, sender, secret) = {
        let body: SmsBody<'_> = call.json()?;
        let route = match (&*body.kind, &body.url) {
            ("sandbox", _) if !call.edge.options.sandbox => {
                return Err(ApiError::field("kind", "`sandbox` is for a server with a sandbox"));
            }
            ("sandbox", None) => SmsRoute::Sandbox,
            ("sandbox", Some(_)) => {
                return Err(ApiError::field("url", "must not be given with the kind sandbox"));
            }
            ("http", Some(url)) => SmsRoute::Http { url: url.as_ref().to_owned() },
            ("http", None) => return Err(ApiError::field("url", "must be given")),
            _ => return Err(ApiError::field("kind", "must be one of http, sandbox")),
        };
        let fits = |sender: &str| {
            (1..=SENDER_CHARS_MAX).contains(&sender.chars().count())
                && !printable::has_control(sender)
        };
        if body.sender.as_deref().is_some_and(|sender| !fits(sender)) {
            let rule = format_args!("must have 1 to {SENDER_CHARS_MAX} printable characters");
            return Err(ApiError::field("sender", rule));
        }
        let secret = body.secret.as_deref().map(|text| {
            WebhookSecret::parse(text).ok_or_else(|| {
                ApiError::field("secret", "must be `whsec_` and 24 to 64 bytes in Base64")
            })
        });
        (route, body.sender.map(Cow::into_owned), secret.transpose()?)
    };
    let workspace = workspace(&mut call).await?;
    let (info, made) = workspace.set_sms(route, sender, secret).await?;
    Ok(Reply::ok(&SmsAnswer::of(&workspace, info, made)))
}

#[utoipa::path(
    get,
    path = "/admin/v1/workspaces/{workspace}/sms",
    operation_id = "readSms",
    tag = "Administration",
    summary = "Read the SMS gateway of a workspace",
    params(("workspace" = String, Path, description = "The workspace's id")),
    responses((status = 200, description = "The gateway, without its secret", body = SmsAnswer))
)]
async fn read_sms(mut call: Call<()>) -> Answer {
    let workspace = workspace(&mut call).await?;
    let info = workspace.sms().await?;
    let info = info.ok_or_else(|| ApiError::not_found("there is no SMS gateway"))?;
    Ok(Reply::ok(&SmsAnswer::of(&workspace, info, None)))
}

#[utoipa::path(
    delete,
    path = "/admin/v1/workspaces/{workspace}/sms",
    operation_id = "deleteSms",
    tag = "Administration",
    summary = "Remove the SMS gateway of a workspace",
    description = "No step by `sms` begins any more.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    responses((status = 204, description = "Removed"))
)]
async fn delete_sms(mut call: Call<()>) -> Answer {
    workspace(&mut call).await?.delete_sms().await?;
    Ok(Reply::no_content())
}

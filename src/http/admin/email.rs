//! Opens, reads and closes the e-mail channel of a workspace.

use axum::http::StatusCode;
use postrider_actors::{EmailChannel, Permission, Workspace};
use serde::Serialize;
use utoipa::ToSchema;

use super::params::workspace;
use crate::http::pipeline::{Answer, ApiError, Call, Manages, Reply, Routes, route};

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(open).guarded(Manages::of(Permission::SettingsWrite)))
        .routes(route!(read).guarded(Manages::of(Permission::SettingsWrite)))
        .routes(route!(close).guarded(Manages::of(Permission::SettingsWrite)))
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
async fn open(mut call: Call<()>) -> Answer {
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
async fn read(mut call: Call<()>) -> Answer {
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
async fn close(mut call: Call<()>) -> Answer {
    workspace(&mut call).await?.close_email().await?;
    Ok(Reply::no_content())
}

//! Administers the webhooks of a workspace, with the schemas of `/v1/webhooks`.

use axum::http::StatusCode;
use postrider_actors::domain::WebhookId;
use postrider_actors::{Permission, WebhookChange};

use super::workspace;
use crate::http::pipeline::{Answer, Call, Manages, Page, Reply, Routes, route};
use crate::http::webhooks::{
    NO_SUCH_WEBHOOK, WebhookInput, WebhookRow, WebhookUpdate, WebhookWithSecret, WebhooksAnswer,
};

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(list).guarded(Manages::of(Permission::WebhooksManage)))
        .routes(route!(create).guarded(Manages::of(Permission::WebhooksManage)))
        .routes(route!(read).guarded(Manages::of(Permission::WebhooksManage)))
        .routes(route!(update).guarded(Manages::of(Permission::WebhooksManage)))
        .routes(route!(delete).guarded(Manages::of(Permission::WebhooksManage)))
        .routes(route!(rotate).guarded(Manages::of(Permission::WebhooksManage)))
}

#[utoipa::path(
    get,
    path = "/admin/v1/workspaces/{workspace}/webhooks",
    operation_id = "listWorkspaceWebhooks",
    tag = "Administration",
    summary = "List the webhooks",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("page" = Option<i64>, Query, minimum = 1, description = "Which page, 1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Rows of a page, \
         50 by default"),
    ),
    responses((status = 200, description = "A page of webhooks", body = WebhooksAnswer))
)]
async fn list(mut call: Call<()>) -> Answer {
    let page = Page::of(&call.query()?)?;
    let workspace = workspace(&mut call).await?;
    Ok(Reply::ok(&WebhookRow::page(&call, &workspace, page).await?))
}

#[utoipa::path(
    post,
    path = "/admin/v1/workspaces/{workspace}/webhooks",
    operation_id = "createWorkspaceWebhook",
    tag = "Administration",
    summary = "Register a webhook",
    params(("workspace" = String, Path, description = "The workspace's id")),
    request_body = WebhookInput,
    responses((status = 201, description = "Registered; the secret is shown here only",
        body = WebhookWithSecret))
)]
async fn create(mut call: Call<()>) -> Answer {
    let settings = call.json::<WebhookInput>()?.check()?;
    let workspace = workspace(&mut call).await?;
    let created = workspace.create_webhook(settings).await?;
    let answer = WebhookWithSecret::of(&call, &workspace, created).await?;
    Ok(Reply::json(StatusCode::CREATED, &answer))
}

#[utoipa::path(
    get,
    path = "/admin/v1/workspaces/{workspace}/webhooks/{webhook_id}",
    operation_id = "readWorkspaceWebhook",
    tag = "Administration",
    summary = "Read a webhook",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("webhook_id" = String, Path, description = "The webhook's id"),
    ),
    responses((status = 200, description = "The webhook", body = WebhookRow))
)]
async fn read(mut call: Call<()>) -> Answer {
    let id: WebhookId = call.path("webhook_id", NO_SUCH_WEBHOOK).await?;
    let workspace = workspace(&mut call).await?;
    let info = workspace.webhook(id).await?;
    Ok(Reply::ok(&WebhookRow::of(&call, &workspace, info).await?))
}

#[utoipa::path(
    patch,
    path = "/admin/v1/workspaces/{workspace}/webhooks/{webhook_id}",
    operation_id = "updateWorkspaceWebhook",
    tag = "Administration",
    summary = "Change, disable or enable a webhook",
    description = "One that is disabled here has the `disabled_reason` `administrator`.",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("webhook_id" = String, Path, description = "The webhook's id"),
    ),
    request_body = WebhookUpdate,
    responses((status = 200, description = "Changed", body = WebhookRow))
)]
async fn update(mut call: Call<()>) -> Answer {
    let change = call.json::<WebhookUpdate>()?.check()?;
    let change = WebhookChange { by_administrator: true, ..change };
    let id: WebhookId = call.path("webhook_id", NO_SUCH_WEBHOOK).await?;
    let workspace = workspace(&mut call).await?;
    let changed = workspace.update_webhook(id, change).await?;
    Ok(Reply::ok(&WebhookRow::of(&call, &workspace, changed).await?))
}

#[utoipa::path(
    delete,
    path = "/admin/v1/workspaces/{workspace}/webhooks/{webhook_id}",
    operation_id = "deleteWorkspaceWebhook",
    tag = "Administration",
    summary = "Delete a webhook",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("webhook_id" = String, Path, description = "The webhook's id"),
    ),
    responses((status = 204, description = "Deleted; what was not delivered is not delivered"))
)]
async fn delete(mut call: Call<()>) -> Answer {
    let id: WebhookId = call.path("webhook_id", NO_SUCH_WEBHOOK).await?;
    workspace(&mut call).await?.delete_webhook(id).await?;
    Ok(Reply::no_content())
}

#[utoipa::path(
    post,
    path = "/admin/v1/workspaces/{workspace}/webhooks/{webhook_id}/rotate-secret",
    operation_id = "rotateWorkspaceWebhookSecret",
    tag = "Administration",
    summary = "Replace a webhook's secret",
    description = "For 24 hours the secret before signs too.",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("webhook_id" = String, Path, description = "The webhook's id"),
    ),
    responses((status = 200, description = "Replaced; the secret is shown here only",
        body = WebhookWithSecret))
)]
async fn rotate(mut call: Call<()>) -> Answer {
    let id: WebhookId = call.path("webhook_id", NO_SUCH_WEBHOOK).await?;
    let workspace = workspace(&mut call).await?;
    let rotated = workspace.rotate_webhook_secret(id).await?;
    Ok(Reply::ok(&WebhookWithSecret::of(&call, &workspace, rotated).await?))
}

//! Adds and lists templates, changes their status, and chooses the OTP template.

use std::borrow::Cow;

use axum::http::StatusCode;
use postrider_actors::Permission;
use postrider_actors::domain::template;
use postrider_actors::domain::template::TemplateName;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{workspace, workspace_id};
use crate::http::pipeline::{Answer, ApiError, Call, Manages, Page, Reply, Routes, route};
use crate::http::templates::{
    NO_SUCH_TEMPLATE, NewTemplateBody, TEMPLATE_FIXED, TemplateChange, TemplateRow, TemplatesAnswer,
};

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(create).guarded(Manages::of(Permission::TemplatesWrite)))
        .routes(route!(list).guarded(Manages::of(Permission::TemplatesRead)))
        .routes(route!(sync).guarded(Manages::of(Permission::TemplatesWrite)))
        .routes(route!(change).guarded(Manages::of(Permission::TemplatesWrite)))
        .routes(route!(set_otp_template).guarded(Manages::of(Permission::SettingsWrite)))
}

/// The template that carries one-time passwords.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct OtpTemplateBody<'a> {
    /// Its name.
    #[serde(borrow)]
    #[schema(example = "otp_code")]
    name: Cow<'a, str>,
    /// Its language as the channel writes it.
    #[serde(borrow)]
    #[schema(example = "en")]
    language: Cow<'a, str>,
}

#[utoipa::path(
    post,
    path = "/admin/v1/workspaces/{workspace}/templates",
    operation_id = "createTemplate",
    tag = "Administration",
    summary = "Add a template",
    params(("workspace" = String, Path, description = "The workspace's id")),
    request_body = NewTemplateBody,
    responses((status = 201, description = "Added", body = TemplateRow))
)]
async fn create(mut call: Call<()>) -> Answer {
    let new = call.json::<NewTemplateBody<'_>>()?.check()?;
    let made = workspace(&mut call).await?.create_template(new).await?;
    Ok(Reply::json(StatusCode::CREATED, &TemplateRow::from(made)))
}

#[utoipa::path(
    get,
    path = "/admin/v1/workspaces/{workspace}/templates",
    operation_id = "listWorkspaceTemplates",
    tag = "Administration",
    summary = "List the templates",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("page" = Option<i64>, Query, minimum = 1, description = "Which page, 1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Rows of a page, \
         50 by default"),
    ),
    responses((status = 200, description = "A page of templates", body = TemplatesAnswer))
)]
async fn list(mut call: Call<()>) -> Answer {
    let page = Page::of(&call.query()?)?;
    let all = workspace(&mut call).await?.templates().await?;
    Ok(Reply::ok(&page.cut(all, TemplateRow::from)))
}

#[utoipa::path(
    patch,
    path = "/admin/v1/workspaces/{workspace}/templates/{name}/{language}",
    operation_id = "changeTemplate",
    tag = "Administration",
    summary = "Change a template's status",
    description = "A change is emitted as the event `template.status_changed`.",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("name" = String, Path, description = "The template's name"),
        ("language" = String, Path, description = "The template's language"),
    ),
    request_body = TemplateChange,
    responses((status = 200, description = "Changed", body = TemplateRow))
)]
async fn change(mut call: Call<()>) -> Answer {
    let status = call.json::<TemplateChange<'_>>()?.check()?;
    let name: String = call.path("name", NO_SUCH_TEMPLATE).await?;
    let language: String = call.path("language", NO_SUCH_TEMPLATE).await?;
    let workspace = workspace(&mut call).await?;
    call.keeps(&TEMPLATE_FIXED, async || {
        Ok(TemplateRow::from(workspace.template(name.clone(), language.clone()).await?))
    })
    .await?;
    let changed = workspace.set_template_status(&name, &language, status).await?;
    Ok(Reply::ok(&TemplateRow::from(changed)))
}

#[utoipa::path(
    post,
    path = "/admin/v1/workspaces/{workspace}/templates/sync",
    operation_id = "syncTemplates",
    tag = "Administration",
    summary = "Bring the templates up to date with the channel's",
    description = "Takes what the provider behind the oldest number of the workspace's pool has that \
        is of the Cloud API. A template that it does not have stays as it is; a sandbox number has none but those that are \
        there. Answers all of them.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    responses((status = 200, description = "The first page of the templates", body = TemplatesAnswer))
)]
async fn sync(mut call: Call<()>) -> Answer {
    let page = Page::of(&call.query()?)?;
    let all = workspace(&mut call).await?.sync_templates().await?;
    Ok(Reply::ok(&page.cut(all, TemplateRow::from)))
}

#[utoipa::path(
    put,
    path = "/admin/v1/workspaces/{workspace}/otp-template",
    operation_id = "setOtpTemplate",
    tag = "Administration",
    summary = "Set the template of one-time passwords",
    description = "`otp_code` in `en` unless set.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    request_body = OtpTemplateBody,
    responses((status = 200, description = "Set", body = OtpTemplateBody))
)]
async fn set_otp_template(mut call: Call<()>) -> Answer {
    let body: OtpTemplateBody<'_> = call.json()?;
    let misfit = |misfit: template::Misfit| ApiError::field(&misfit.path, misfit.rule);
    template::check_name(&body.name).map_err(misfit)?;
    template::check_language(&body.language).map_err(misfit)?;
    let reply = Reply::ok(&body);
    let name = TemplateName { name: body.name.into(), language: body.language.into() };
    let id = workspace_id(&mut call).await?;
    call.admin().set_otp_template(&id, name).await?;
    Ok(reply)
}

//! Serves a workspace's templates: the list, a single one, and its text with values filled in.
//! People of the workspace can also add templates here.

use std::borrow::Cow;

use axum::http::StatusCode;
use postrider_actors::domain::template::{TemplateCategory, TemplateQuality, TemplateStatus};
use postrider_actors::{NewTemplate, Permission, Template, TemplateError, UseTemplateError};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::pipeline::{Answer, ApiError, Call, Code, Key, Page, Principal, Reply, Routes, route};

/// The fields of a template that stay as the channel has them.
pub(crate) const TEMPLATE_FIXED: [&str; 4] = ["name", "language", "category", "components"];
pub(crate) const NO_SUCH_TEMPLATE: &str = "no such template";

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(list).guarded(Key::of(Permission::TemplatesRead)))
        .routes(route!(list_own).guarded(Key::of(Permission::TemplatesRead)))
        .routes(route!(read).guarded(Key::of(Permission::TemplatesRead)))
        .routes(route!(render).guarded(Key::of(Permission::TemplatesRead)))
        .routes(route!(create).guarded(Key::of(Permission::TemplatesWrite)))
        .routes(route!(change).guarded(Key::of(Permission::TemplatesWrite)))
        .routes(route!(sync).guarded(Key::of(Permission::TemplatesWrite)))
}

/// A template to be made.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewTemplateBody<'a> {
    /// Its name.
    #[serde(borrow)]
    #[schema(example = "order_shipped", pattern = "^[a-z0-9_]{1,512}$")]
    name: Cow<'a, str>,
    /// Its language as the channel writes it; `en` by default.
    #[serde(borrow)]
    #[schema(example = "en", default = "en")]
    language: Option<Cow<'a, str>>,
    /// `utility`, `marketing` or `authentication`.
    #[serde(borrow)]
    #[schema(example = "utility")]
    category: Cow<'a, str>,
    /// `approved` by default; otherwise `pending`, `rejected`, `paused`, `disabled`, `in_appeal`,
    /// `pending_deletion`, `deleted` or `limit_exceeded`.
    #[serde(borrow)]
    #[schema(example = "approved", default = "approved")]
    status: Option<Cow<'a, str>>,
    /// What it is made of, in the channel's form: at least a `BODY`.
    #[schema(value_type = Vec<Object>, example = json!([{"type": "BODY", "text": "Hello {{1}}"}]))]
    components: Vec<serde_json::Value>,
}

/// A template's new status.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct TemplateChange<'a> {
    /// `approved`, `pending`, `rejected`, `paused`, `disabled`, `in_appeal`, `pending_deletion`,
    /// `deleted` or `limit_exceeded`.
    #[serde(borrow)]
    #[schema(example = "paused")]
    status: Cow<'a, str>,
}

impl NewTemplateBody<'_> {
    pub(crate) fn check(self) -> Result<NewTemplate, ApiError> {
        let category = self.category.parse().map_err(|error| ApiError::field("category", error))?;
        let status = self.status.as_deref().unwrap_or("approved");
        let status = status.parse().map_err(|error| ApiError::field("status", error))?;
        Ok(NewTemplate {
            name: self.name.into(),
            language: self.language.unwrap_or(Cow::Borrowed("en")).into(),
            category,
            status,
            components: self.components,
        })
    }
}

impl TemplateChange<'_> {
    pub(crate) fn check(&self) -> Result<TemplateStatus, ApiError> {
        self.status.parse().map_err(|error| ApiError::field("status", error))
    }
}

/// A template.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TemplateRow {
    /// Its name.
    #[schema(example = "order_update")]
    name: Box<str>,
    /// Its language, as the channel writes it.
    #[schema(example = "en")]
    language: Box<str>,
    /// `utility`, `marketing` or `authentication`.
    #[schema(example = "utility")]
    category: &'static str,
    /// `approved`: it may be sent. `pending`, `rejected`, `paused`, `disabled`, `in_appeal`,
    /// `pending_deletion`, `deleted` or `limit_exceeded`: it may not.
    #[schema(example = "approved")]
    status: &'static str,
    /// What it is made of, in the channel's form.
    #[schema(value_type = Vec<Object>,
        example = json!([{"type": "BODY", "text": "Hello {{1}}, order {{2}} is on its way."}]))]
    components: Vec<serde_json::Value>,
    /// How the channel rates it: `green`, `yellow`, `red` or `unknown`; null if it never has.
    #[schema(example = "green")]
    quality: Option<&'static str>,
    /// For how long the channel tries to deliver a message of it, in seconds.
    #[schema(example = 600)]
    ttl_seconds: Option<u32>,
    /// How parameters are given: `positional` or `named`.
    #[schema(example = "positional")]
    parameter_format: Option<Box<str>>,
    /// The category that the channel holds to be right, and has announced to give it.
    #[schema(example = "marketing")]
    correct_category: Option<&'static str>,
    /// Why the channel has rejected it, in its word in small letters; null if it is not rejected,
    /// or the channel gave no reason.
    #[schema(example = "invalid_format")]
    rejected_reason: Option<Box<str>>,
    /// When it was made or last changed.
    #[schema(format = DateTime)]
    updated_at: String,
    /// The accounts that have it, with how it stands there; only their numbers send it. The row is
    /// that of the first one. Empty of one that was made here, which is the account's of the first
    /// number.
    accounts: Vec<TemplateAccount>,
}

/// An account that has a template.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TemplateAccount {
    /// The account's id at the channel.
    #[schema(example = "102290129340398")]
    account_id: String,
    /// Its category there.
    #[schema(example = "utility")]
    category: &'static str,
    /// Its status there.
    #[schema(example = "approved")]
    status: &'static str,
}

impl From<Template> for TemplateRow {
    fn from(template: Template) -> Self {
        let account = |(id, category, status): (&str, TemplateCategory, TemplateStatus)| {
            let (account_id, category, status) =
                (id.to_owned(), category.as_str(), status.as_str());
            TemplateAccount { account_id, category, status }
        };
        let accounts = template.accounts().map(account).collect();
        Self {
            accounts,
            name: template.name,
            language: template.language,
            category: template.category.as_str(),
            status: template.status.as_str(),
            components: template.components,
            quality: template.facts.quality.map(TemplateQuality::as_str),
            ttl_seconds: template.facts.ttl_seconds,
            parameter_format: template.facts.parameter_format,
            correct_category: template.facts.correct_category.map(TemplateCategory::as_str),
            rejected_reason: template.facts.rejected_reason,
            updated_at: template.updated_at.to_string(),
        }
    }
}

/// A page of templates.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what a page of them is")]
pub(crate) struct TemplatesAnswer {
    /// The rows of the page.
    data: Vec<TemplateRow>,
    /// Rows of all pages.
    total: usize,
    /// Which page this is.
    page: usize,
}

#[utoipa::path(
    get,
    path = "/v1/messaging/templates",
    operation_id = "listTemplates",
    tag = "Messaging",
    summary = "List the templates",
    description = "By name and language; only approved ones can be sent.",
    params(
        ("page" = Option<i64>, Query, minimum = 1, description = "Which page, 1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Rows of a page, \
         50 by default"),
    ),
    responses((status = 200, description = "A page of templates", body = TemplatesAnswer))
)]
async fn list(call: Call<Principal>) -> Answer {
    let page = Page::of(&call.query()?)?;
    let all = call.caller.workspace().templates().await?;
    Ok(Reply::ok(&page.cut(all, TemplateRow::from)))
}

#[utoipa::path(
    get,
    path = "/v1/templates",
    operation_id = "listOwnTemplates",
    tag = "Messaging",
    summary = "List the templates",
    description = "The same as `GET /v1/messaging/templates`.",
    params(
        ("page" = Option<i64>, Query, minimum = 1, description = "Which page, 1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Rows of a page, \
         50 by default"),
    ),
    responses((status = 200, description = "A page of templates", body = TemplatesAnswer))
)]
async fn list_own(call: Call<Principal>) -> Answer {
    list(call).await
}

/// Returns the template that the path names.
async fn template_key(call: &mut Call<Principal>) -> Result<(String, String), ApiError> {
    let name: String = call.path("name", NO_SUCH_TEMPLATE).await?;
    Ok((name, call.path("language", NO_SUCH_TEMPLATE).await?))
}

#[utoipa::path(
    get,
    path = "/v1/messaging/templates/{name}/{language}",
    operation_id = "readTemplate",
    tag = "Messaging",
    summary = "Read a template",
    params(
        ("name" = String, Path, description = "The template's name"),
        ("language" = String, Path, description = "The template's language"),
    ),
    responses((status = 200, description = "The template", body = TemplateRow))
)]
async fn read(mut call: Call<Principal>) -> Answer {
    let (name, language) = template_key(&mut call).await?;
    let template = call.caller.workspace().template(name, language).await?;
    Ok(Reply::ok(&TemplateRow::from(template)))
}

/// What a template is filled in with.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"components": [{"type": "body", "parameters": [
    {"type": "text", "text": "Ada"}, {"type": "text", "text": "17"}]}]}))]
pub(crate) struct RenderBody {
    /// The parameters in the channel's form, as a message has them; left out: none.
    #[schema(value_type = Option<Vec<Object>>)]
    components: Option<Vec<serde_json::Value>>,
}

/// A template that is filled in.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RenderAnswer {
    /// What the recipient reads.
    #[schema(example = "Hello Ada")]
    text: Box<str>,
}

#[utoipa::path(
    post,
    path = "/v1/messaging/templates/{name}/{language}/render",
    operation_id = "renderTemplate",
    tag = "Messaging",
    summary = "See how a template reads when it is filled in",
    description = "Nothing is sent, and it need not be approved. Parameters that do not fit are \
                   refused as in a message.",
    params(
        ("name" = String, Path, description = "The template's name"),
        ("language" = String, Path, description = "The template's language"),
    ),
    request_body = RenderBody,
    responses((status = 200, description = "What the recipient reads", body = RenderAnswer))
)]
async fn render(mut call: Call<Principal>) -> Answer {
    let components = call.json::<RenderBody>()?.components.unwrap_or_default();
    let (name, language) = template_key(&mut call).await?;
    let template = call.caller.workspace().template(name, language).await?;
    let content = template.content(&components).map_err(TemplateError::from)?;
    Ok(Reply::ok(&RenderAnswer { text: content.text }))
}

#[utoipa::path(
    post,
    path = "/v1/templates",
    operation_id = "createOwnTemplate",
    tag = "Messaging",
    summary = "Add a template to one's own workspace",
    description = "For people whose role allows it; no key does.",
    request_body = NewTemplateBody,
    responses((status = 201, description = "Added", body = TemplateRow))
)]
async fn create(call: Call<Principal>) -> Answer {
    let new = call.json::<NewTemplateBody<'_>>()?.check()?;
    let made = call.audited(call.caller.workspace()).create_template(new).await?;
    Ok(Reply::json(StatusCode::CREATED, &TemplateRow::from(made)))
}

#[utoipa::path(
    patch,
    path = "/v1/templates/{name}/{language}",
    operation_id = "changeOwnTemplate",
    tag = "Messaging",
    summary = "Change the status of a template of one's own workspace",
    description = "For people whose role allows it; no key does. A change is emitted as the event \
                   `template.status_changed`.",
    params(
        ("name" = String, Path, description = "The template's name"),
        ("language" = String, Path, description = "The template's language"),
    ),
    request_body = TemplateChange,
    responses((status = 200, description = "Changed", body = TemplateRow))
)]
async fn change(mut call: Call<Principal>) -> Answer {
    let status = call.json::<TemplateChange<'_>>()?.check()?;
    let (name, language) = template_key(&mut call).await?;
    let workspace = call.audited(call.caller.workspace());
    call.keeps(&TEMPLATE_FIXED, async || {
        Ok(TemplateRow::from(workspace.template(name.clone(), language.clone()).await?))
    })
    .await?;
    let changed = workspace.set_template_status(&name, &language, status).await?;
    Ok(Reply::ok(&TemplateRow::from(changed)))
}

#[utoipa::path(
    post,
    path = "/v1/templates/sync",
    operation_id = "syncOwnTemplates",
    tag = "Messaging",
    summary = "Bring the templates of one's own workspace up to date with the channel's",
    description = "For people whose role allows it; no key does. Takes what the provider behind the \
        oldest number of the pool has that is of the Cloud API, and answers all of them.",
    responses((status = 200, description = "The first page of the templates", body = TemplatesAnswer))
)]
async fn sync(call: Call<Principal>) -> Answer {
    let page = Page::of(&call.query()?)?;
    let all = call.audited(call.caller.workspace()).sync_templates().await?;
    Ok(Reply::ok(&page.cut(all, TemplateRow::from)))
}

impl From<TemplateError> for ApiError {
    fn from(error: TemplateError) -> Self {
        match error {
            TemplateError::Misfit(misfit) => Self::field(&misfit.path, misfit.rule),
            TemplateError::Exists => Self::new(Code::Conflict, error.to_string()),
            TemplateError::NoSuchTemplate => Self::new(Code::NotFound, error.to_string()),
            TemplateError::Provider(_) => {
                Self::new(Code::ServiceUnavailable, error.to_string()).because("provider_failed")
            }
            TemplateError::Unavailable(error) => error.into(),
        }
    }
}

/// Converts the refusal to send a template. `prefix` precedes `components` in the message, such as
/// `template.`.
pub(crate) fn template_refusal(error: UseTemplateError, prefix: &str) -> ApiError {
    let message = error.to_string();
    match error {
        UseTemplateError::NoSuchTemplate => ApiError::new(Code::Unprocessable, message),
        UseTemplateError::NotApproved(_) => ApiError::new(Code::TemplateNotApproved, message),
        UseTemplateError::Parameters(misfit) => {
            ApiError::field(&format!("{prefix}{}", misfit.path), misfit.rule)
        }
        UseTemplateError::Unavailable(error) => error.into(),
    }
}

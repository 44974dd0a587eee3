//! Serves the list of a workspace's templates.

use postrider_actors::{Permission, Template, TemplateError, UseTemplateError};
use serde::Serialize;
use utoipa::ToSchema;

use super::pipeline::{Answer, ApiError, Call, Code, Key, Page, Principal, Reply, Routes, route};

pub(crate) fn routes() -> Routes {
    Routes::default().routes(route!(list).guarded(Key::of(Permission::TemplatesRead)))
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
    /// When it was made, or when its status last changed.
    #[schema(format = DateTime)]
    updated_at: String,
}

impl From<Template> for TemplateRow {
    fn from(template: Template) -> Self {
        Self {
            name: template.name,
            language: template.language,
            category: template.category.as_str(),
            status: template.status.as_str(),
            components: template.components,
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
        ("page" = Option<i64>, Query, minimum = 1, description = "Which page, 1 unless told"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Rows of a page, \
         50 unless told"),
    ),
    responses((status = 200, description = "A page of templates", body = TemplatesAnswer))
)]
async fn list(call: Call<Principal>) -> Answer {
    let page = Page::of(&call.query()?)?;
    let all = call.caller.workspace().templates().await?;
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

/// Refuses to send a template. `prefix` stands before `components` in the message, such as
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

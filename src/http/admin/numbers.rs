//! A workspace's messaging numbers.

use std::borrow::Cow;

use axum::http::StatusCode;
use postrider_actors::NumberInfo;
use postrider_actors::domain::NumberId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::workspace;
use crate::http::error::ApiError;
use crate::http::list::Page;
use crate::http::pipeline::{Answer, Call};
use crate::http::reply::Reply;

/// A number to be connected.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewNumber<'a> {
    /// `sandbox`: delivers nowhere, and remembers what it was given.
    #[serde(borrow)]
    #[schema(example = "sandbox")]
    kind: Cow<'a, str>,
}

/// A connected number.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NumberRow {
    /// Its id.
    #[schema(example = "num_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    id: String,
    /// What is behind it.
    #[schema(example = "sandbox")]
    kind: &'static str,
    /// Where the provider calls back; null for a number that has no provider.
    callback_path: Option<String>,
    /// When it was connected.
    #[schema(format = DateTime)]
    created_at: String,
}

impl From<NumberInfo> for NumberRow {
    fn from(info: NumberInfo) -> Self {
        Self {
            id: info.id.to_string(),
            kind: info.kind.as_str(),
            callback_path: None,
            created_at: info.created_at.to_string(),
        }
    }
}

/// A page of numbers.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what a page of them is")]
pub(crate) struct NumbersAnswer {
    /// The rows of the page.
    data: Vec<NumberRow>,
    /// Rows of all pages.
    total: usize,
    /// Which page this is.
    page: usize,
}

#[utoipa::path(
    post,
    path = "/admin/v1/workspaces/{workspace}/numbers",
    operation_id = "connectNumber",
    tag = "Administration",
    summary = "Connect a number",
    params(("workspace" = String, Path, description = "The workspace's id")),
    request_body = NewNumber,
    responses((status = 201, description = "Connected", body = NumberRow))
)]
pub(crate) async fn connect(mut call: Call<()>) -> Answer {
    if call.json::<NewNumber<'_>>()?.kind != "sandbox" {
        return Err(ApiError::field("kind", "must be `sandbox`"));
    }
    let id = workspace(&mut call).await?;
    let number = call.edge.engine.admin().connect_sandbox_number(&id).await?;
    Ok(Reply::json(StatusCode::CREATED, &NumberRow::from(number)))
}

#[utoipa::path(
    get,
    path = "/admin/v1/workspaces/{workspace}/numbers",
    operation_id = "listNumbers",
    tag = "Administration",
    summary = "List the numbers",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("page" = Option<i64>, Query, minimum = 1, description = "Which page, 1 unless told"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Rows of a page, \
         50 unless told"),
    ),
    responses((status = 200, description = "A page of numbers", body = NumbersAnswer))
)]
pub(crate) async fn list(mut call: Call<()>) -> Answer {
    let page = Page::of(&call.query()?)?;
    let id = workspace(&mut call).await?;
    let all = call.edge.engine.admin().numbers(&id).await?;
    Ok(Reply::ok(&page.cut(all, NumberRow::from)))
}

#[utoipa::path(
    delete,
    path = "/admin/v1/workspaces/{workspace}/numbers/{number_id}",
    operation_id = "disconnectNumber",
    tag = "Administration",
    summary = "Disconnect a number",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("number_id" = String, Path, description = "The number's id"),
    ),
    responses((status = 204, description = "Disconnected"))
)]
pub(crate) async fn disconnect(mut call: Call<()>) -> Answer {
    let id = workspace(&mut call).await?;
    let number: NumberId = call.path("number_id", "no such number").await?;
    call.edge.engine.admin().disconnect_number(&id, number).await?;
    Ok(Reply::no_content())
}

//! Serves quick replies: answers that agents write often.

use axum::http::StatusCode;
use postrider_actors::domain::{ContactName, QuickReplyId};
use postrider_actors::{Permission, QuickReply, QuickReplyError};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::agents::checked_text;
use crate::http::pipeline::{
    Answer, ApiError, Call, Code, Key, Page, Principal, Reply, Routes, route,
};

const NO_SUCH_REPLY: &str = "no such quick reply";

pub(super) fn routes() -> Routes {
    Routes::default()
        .routes(route!(list_replies).guarded(Key::of(Permission::InboxRead)))
        .routes(route!(create_reply).guarded(Key::of(Permission::InboxWrite)))
        .routes(route!(delete_reply).guarded(Key::of(Permission::InboxWrite)))
}

/// An answer to be kept.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct QuickReplyBody {
    /// What it is called.
    #[schema(example = "Thanks", min_length = 1, max_length = 200)]
    name: String,
    /// What it says; 1 to 4,096 characters, not only spaces.
    #[schema(example = "Thank you for writing.", min_length = 1, max_length = 4096)]
    text: String,
}

/// An answer that is written often.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QuickReplyRow {
    /// Names it in every call.
    #[schema(example = "qrp_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    id: String,
    /// What it is called.
    #[schema(example = "Thanks")]
    name: String,
    /// What it says.
    #[schema(example = "Thank you for writing.")]
    text: String,
    /// When it was made.
    #[schema(format = DateTime, example = "2026-01-31T09:25:00.000Z")]
    created_at: String,
}

impl From<QuickReply> for QuickReplyRow {
    fn from(reply: QuickReply) -> Self {
        Self {
            id: reply.id.to_string(),
            name: reply.name,
            text: reply.text,
            created_at: reply.created_at.to_string(),
        }
    }
}

/// A page of quick replies.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what a page of them is")]
pub(crate) struct QuickRepliesAnswer {
    /// The rows of the page.
    data: Vec<QuickReplyRow>,
    /// Rows of all pages.
    total: usize,
    /// Which page this is.
    page: usize,
}

#[utoipa::path(
    get,
    path = "/v1/quick-replies",
    operation_id = "listQuickReplies",
    tag = "Conversations",
    summary = "List the quick replies",
    params(
        ("page" = Option<i64>, Query, minimum = 1, description = "1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Most of a page, \
         50 by default"),
    ),
    responses((status = 200, description = "Quick replies, oldest first", body = QuickRepliesAnswer))
)]
async fn list_replies(call: Call<Principal>) -> Answer {
    let page = Page::of(&call.query()?)?;
    let all = call.caller.workspace().quick_replies().await?;
    Ok(Reply::ok(&page.cut(all, QuickReplyRow::from)))
}

#[utoipa::path(
    post,
    path = "/v1/quick-replies",
    operation_id = "createQuickReply",
    tag = "Conversations",
    summary = "Keep an answer that is written often",
    description = "At most 200 in a workspace, for all of its agents.",
    request_body = QuickReplyBody,
    responses((status = 201, description = "Made", body = QuickReplyRow))
)]
async fn create_reply(call: Call<Principal>) -> Answer {
    let body: QuickReplyBody = call.json()?;
    let name = ContactName::new(&body.name).map_err(|error| ApiError::field("name", error))?;
    let text = checked_text(&body.text)?;
    let workspace = call.caller.workspace();
    let made = workspace.create_quick_reply(name.as_str().to_owned(), text).await?;
    Ok(Reply::json(StatusCode::CREATED, &QuickReplyRow::from(made)))
}

#[utoipa::path(
    delete,
    path = "/v1/quick-replies/{quick_reply_id}",
    operation_id = "deleteQuickReply",
    tag = "Conversations",
    summary = "Delete a quick reply",
    params(("quick_reply_id" = String, Path, description = "The quick reply's id")),
    responses((status = 204, description = "Deleted"))
)]
async fn delete_reply(mut call: Call<Principal>) -> Answer {
    let id: QuickReplyId = call.path("quick_reply_id", NO_SUCH_REPLY).await?;
    call.caller.workspace().delete_quick_reply(id).await?;
    Ok(Reply::no_content())
}

impl From<QuickReplyError> for ApiError {
    fn from(error: QuickReplyError) -> Self {
        match error {
            QuickReplyError::NotFound => Self::not_found(NO_SUCH_REPLY),
            QuickReplyError::TooMany => {
                Self::new(Code::Unprocessable, error.to_string()).because("quick_reply_limit")
            }
            QuickReplyError::Unavailable(error) => error.into(),
        }
    }
}

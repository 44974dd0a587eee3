//! Serves what agents share: notes, that somebody is answering, and quick replies.
//!
//! Notes stand beside a conversation. Quick replies are answers that agents write often.

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use postrider_actors::domain::text::MessageText;
use postrider_actors::domain::{ActorKind, AuditActor, ContactName, NoteId, QuickReplyId};
use postrider_actors::{ConversationNote, NoteError, Permission, QuickReply, QuickReplyError};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{NO_SUCH_CONVERSATION, conversation};
use crate::http::pipeline::{
    Answer, ApiError, Call, Code, Key, LIMIT_DEFAULT, LIMIT_MAX, Page, Principal, Query, Reply,
    Routes, route,
};

/// The first byte of a cursor, which defines the format of the rest.
const CURSOR_VERSION: u8 = 1;
const NO_SUCH_REPLY: &str = "no such quick reply";

pub(super) fn routes() -> Routes {
    Routes::default()
        .routes(route!(list_notes).guarded(Key::of(Permission::InboxRead)))
        .routes(route!(add_note).guarded(Key::of(Permission::InboxWrite)))
        .routes(route!(show_typing).guarded(Key::of(Permission::InboxWrite)))
        .routes(route!(list_replies).guarded(Key::of(Permission::InboxRead)))
        .routes(route!(create_reply).guarded(Key::of(Permission::InboxWrite)))
        .routes(route!(delete_reply).guarded(Key::of(Permission::InboxWrite)))
}

/// What is noted.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NoteBody {
    /// 1 to 4,096 characters, not only spaces.
    #[schema(example = "Wants to be called back", min_length = 1, max_length = 4096)]
    text: String,
}

/// Who wrote a note.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NoteAuthor {
    /// `user`, `key` or `admin_token`.
    #[schema(example = "user")]
    kind: &'static str,
    /// The id; the admin token of the settings has none.
    #[schema(example = "usr_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    id: Option<String>,
    /// The name that they had.
    #[schema(example = "Ada")]
    name: String,
}

impl From<AuditActor> for NoteAuthor {
    fn from(author: AuditActor) -> Self {
        Self {
            kind: author.kind.as_str(),
            id: author.id.map(String::from),
            name: author.name.map(String::from).unwrap_or_default(),
        }
    }
}

/// A note beside a conversation.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NoteRow {
    /// Its id.
    #[schema(example = "note_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    id: String,
    /// What it says.
    #[schema(example = "Wants to be called back")]
    text: String,
    /// Who wrote it.
    author: NoteAuthor,
    /// When.
    #[schema(format = DateTime, example = "2026-01-31T09:25:00.000Z")]
    created_at: String,
}

impl From<ConversationNote> for NoteRow {
    fn from(note: ConversationNote) -> Self {
        Self {
            id: note.id.to_string(),
            text: note.text,
            author: note.author.into(),
            created_at: note.created_at.to_string(),
        }
    }
}

/// A part of the notes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NotesAnswer {
    /// Newest first.
    data: Vec<NoteRow>,
    /// Give it as `cursor` to go on after this part; null at the oldest.
    #[schema(example = "AQGQ8fgbOAECAwQFBgcICQo")]
    next_cursor: Option<String>,
}

#[utoipa::path(
    get,
    path = "/v1/conversations/{conversation_id}/notes",
    operation_id = "listNotes",
    tag = "Conversations",
    summary = "List the notes beside a conversation",
    params(
        ("conversation_id" = String, Path, description = "The conversation's id"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the part before"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Most notes, 50 \
         by default"),
    ),
    responses((status = 200, description = "Notes, newest first", body = NotesAnswer))
)]
async fn list_notes(mut call: Call<Principal>) -> Answer {
    let query = call.query()?;
    let limit = query.integer("limit", LIMIT_DEFAULT, 1, LIMIT_MAX)?;
    let before = note_cursor(&query)?;
    let id = conversation(&mut call).await?;
    let page = call.caller.workspace().notes(id, before, limit).await?;
    Ok(Reply::ok(&NotesAnswer {
        data: page.notes.into_iter().map(NoteRow::from).collect(),
        next_cursor: page.next.map(encode_note_cursor),
    }))
}

#[utoipa::path(
    post,
    path = "/v1/conversations/{conversation_id}/notes",
    operation_id = "addNote",
    tag = "Conversations",
    summary = "Add a note beside a conversation",
    description = "For the workspace's own people; nothing is sent. At most 500 beside a \
                   conversation. They are deleted with it.",
    params(("conversation_id" = String, Path, description = "The conversation's id")),
    request_body = NoteBody,
    responses((status = 201, description = "Noted", body = NoteRow))
)]
async fn add_note(mut call: Call<Principal>) -> Answer {
    let text = checked_text(&call.json::<NoteBody>()?.text)?;
    let id = conversation(&mut call).await?;
    let note = call.caller.workspace().add_note(id, text, author(&call)).await?;
    Ok(Reply::json(StatusCode::CREATED, &NoteRow::from(note)))
}

#[utoipa::path(
    post,
    path = "/v1/conversations/{conversation_id}/typing",
    operation_id = "showTyping",
    tag = "Conversations",
    summary = "Show colleagues that one is answering",
    description = "Whoever follows the event stream gets an event `conversation.typing`, which is \
                   to be shown for ten seconds; call it again while one writes. The contact does \
                   not see it.",
    params(("conversation_id" = String, Path, description = "The conversation's id")),
    responses((status = 204, description = "Shown"))
)]
async fn show_typing(mut call: Call<Principal>) -> Answer {
    let id = conversation(&mut call).await?;
    call.caller.workspace().show_typing(id, author(&call)).await?;
    Ok(Reply::no_content())
}

/// Returns the caller under the name that colleagues know.
fn author(call: &Call<Principal>) -> AuditActor {
    match &call.caller {
        Principal::Key(key) => AuditActor {
            kind: ActorKind::Key,
            id: Some(key.key_id.to_string().into()),
            name: Some(key.key_name().into()),
        },
        Principal::Person(member) => {
            let actor = member.signed_in.actor();
            match &member.signed_in.person {
                Some(person) => AuditActor { name: Some(person.name.to_string().into()), ..actor },
                None => actor,
            }
        }
    }
}

/// Checks a text that people of the workspace write for each other or for customers.
fn checked_text(text: &str) -> Result<String, ApiError> {
    let text: MessageText = text.parse().map_err(|error| ApiError::field("text", error))?;
    if text.as_str().trim().is_empty() {
        return Err(ApiError::field("text", "must not have spaces only"));
    }
    Ok(text.as_str().to_string())
}

fn note_cursor(query: &Query) -> Result<Option<NoteId>, ApiError> {
    let Some(text) = query.text("cursor")? else { return Ok(None) };
    let bad = || ApiError::field("cursor", "must be the `next_cursor` of an earlier answer");
    decode_note_cursor(text).map(Some).ok_or_else(bad)
}

fn encode_note_cursor(before: NoteId) -> String {
    URL_SAFE_NO_PAD.encode([&[CURSOR_VERSION][..], before.as_bytes()].concat())
}

fn decode_note_cursor(cursor: &str) -> Option<NoteId> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let (version, id) = bytes.split_first()?;
    let id = id.try_into().ok()?;
    (*version == CURSOR_VERSION).then(|| NoteId::from_bytes(id))
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

impl From<NoteError> for ApiError {
    fn from(error: NoteError) -> Self {
        match error {
            NoteError::NotFound => Self::not_found(NO_SUCH_CONVERSATION),
            NoteError::TooMany => {
                Self::new(Code::Unprocessable, error.to_string()).because("note_limit")
            }
            NoteError::Unavailable(error) => error.into(),
        }
    }
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

//! Serves the notes beside a conversation, and the sign that an agent is answering in it.

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use postrider_actors::domain::text::MessageText;
use postrider_actors::domain::{ActorKind, AuditActor, NoteId};
use postrider_actors::{ConversationNote, NoteError, Permission};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{NO_SUCH_CONVERSATION, conversation};
use crate::http::pipeline::{
    Answer, ApiError, Call, Code, Key, LIMIT_DEFAULT, LIMIT_MAX, Principal, Query, Reply, Routes,
    route,
};

/// The first byte of a cursor, which defines the format of the rest.
const CURSOR_VERSION: u8 = 1;

pub(super) fn routes() -> Routes {
    Routes::default()
        .routes(route!(list_notes).guarded(Key::of(Permission::InboxRead)))
        .routes(route!(add_note).guarded(Key::of(Permission::InboxWrite)))
        .routes(route!(show_typing).guarded(Key::of(Permission::InboxWrite)))
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
pub(super) fn checked_text(text: &str) -> Result<String, ApiError> {
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

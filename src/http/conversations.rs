//! Serves the inbox: conversations, their messages, and replies.

use postrider_actors::domain::{ConversationId, printable};
use postrider_actors::{
    Contact, Conversation, ConversationChange, ConversationFilter, ConversationMessage,
    ConversationStatus, Direction, Permission, ReadConversationError, Replayable, ReplyError,
    Route, UpdateConversationError,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::contacts::ContactRow;
use super::message_body::ReplyBody;
use super::messages::{self, SentAnswer};
use super::pipeline::{Answer, ApiError, Call, Code, Key, Page, Principal, Reply, Routes, route};

/// Longest name of an agent, in characters.
const AGENT_CHARS_MAX: usize = 100;

const NO_SUCH_CONVERSATION: &str = "no such conversation";

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(list).guarded(Key::of(Permission::InboxRead)))
        .routes(route!(read).guarded(Key::of(Permission::InboxRead)))
        .routes(route!(list_messages).guarded(Key::of(Permission::InboxRead)))
        .routes(route!(update).guarded(Key::of(Permission::InboxWrite)))
        .routes(route!(reply).guarded(Key::REPLY))
}

/// What a contact and the workspace have written to each other.
#[derive(Serialize, ToSchema)]
#[schema(as = Conversation)]
pub(crate) struct ConversationRow {
    /// Names it in every call.
    #[schema(example = "cnv_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    id: String,
    /// With whom.
    contact: ContactRow,
    /// `open`: the contact waits for an answer; `pending`: it has one; `resolved`.
    #[schema(example = "open")]
    status: &'static str,
    /// `messaging` or `email`
    #[schema(example = "messaging")]
    channel: &'static str,
    /// The agent who sees to it.
    #[schema(example = "agent-7")]
    assigned_to: Option<String>,
    /// What was written last, its first 200 characters.
    #[schema(example = "Where is my order?")]
    last_message: String,
    /// When.
    #[schema(format = DateTime, example = "2026-01-31T09:25:00.000Z")]
    last_message_at: String,
    /// When it was made.
    #[schema(format = DateTime, example = "2026-01-31T09:25:00.000Z")]
    created_at: String,
}

impl From<(Conversation, Contact)> for ConversationRow {
    fn from((conversation, contact): (Conversation, Contact)) -> Self {
        Self {
            id: conversation.id.to_string(),
            contact: contact.into(),
            status: conversation.status.as_str(),
            channel: conversation.channel(),
            assigned_to: conversation.assigned_to,
            last_message: conversation.last_message,
            last_message_at: conversation.last_message_at.to_string(),
            created_at: conversation.created_at.to_string(),
        }
    }
}

/// A page of conversations.
#[derive(Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what `list` writes")]
pub(crate) struct ConversationsAnswer {
    /// The one that was last written in first.
    data: Vec<ConversationRow>,
    /// How many there are on all pages.
    total: u64,
    /// The page's number.
    page: u64,
}

/// A message of a conversation.
#[derive(Serialize, ToSchema)]
#[schema(as = ConversationMessage)]
pub(crate) struct ConversationMessageRow {
    /// The message.
    #[schema(example = "msg_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    id: String,
    /// `in`: the contact wrote it; `out`: the workspace did.
    #[schema(example = "in")]
    direction: &'static str,
    /// `text`, `template`, `email`, or what else the contact sent.
    #[serde(rename = "type")]
    #[schema(example = "text")]
    kind: String,
    /// What it says.
    #[schema(example = "Where is my order?")]
    text: String,
    /// `received` for one of the contact's; what became of it for one of the workspace's, which is
    /// `unknown` too when it is older than messages are kept.
    #[schema(example = "received")]
    status: &'static str,
    /// When it was written.
    #[schema(format = DateTime, example = "2026-01-31T09:25:00.000Z")]
    at: String,
}

impl From<ConversationMessage> for ConversationMessageRow {
    fn from(message: ConversationMessage) -> Self {
        let direction = match message.direction {
            Direction::In => "in",
            Direction::Out => "out",
        };
        Self {
            id: message.id.to_string(),
            direction,
            kind: message.kind,
            text: message.text,
            status: message.status,
            at: message.at.to_string(),
        }
    }
}

/// A page of what was written.
#[derive(Serialize, ToSchema)]
#[schema(as = WrittenAnswer)]
#[allow(dead_code, reason = "describes what `messages` writes")]
pub(crate) struct ConversationMessagesAnswer {
    /// Newest first.
    data: Vec<ConversationMessageRow>,
    /// How many there are on all pages.
    total: u64,
    /// The page's number.
    page: u64,
}

#[utoipa::path(
    get,
    path = "/v1/conversations",
    operation_id = "listConversations",
    tag = "Conversations",
    summary = "List the conversations",
    description = "A message from a contact opens a conversation. Single messages to a contact are \
                   added to the one that is there; messages of broadcasts are not.",
    params(
        ("status" = Option<String>, Query, description = "Only `open`, `pending` or `resolved` \
         ones"),
        ("assigned_to" = Option<String>, Query, description = "Only those of this agent; \
         1 to 100 characters"),
        ("page" = Option<i64>, Query, minimum = 1, description = "1 unless told"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Most \
         conversations of a page, 50 unless told"),
    ),
    responses((
        status = 200,
        description = "Conversations, the one that was last written in first",
        body = ConversationsAnswer
    ))
)]
async fn list(call: Call<Principal>) -> Answer {
    let query = call.query()?;
    let page = Page::of(&query)?;
    let filter = ConversationFilter {
        status: query.text("status")?.map(status).transpose()?,
        assigned_to: query.text("assigned_to")?.map(agent).transpose()?,
    };
    let found = call.caller.workspace().conversations(filter, page.skip(), page.limit()).await?;
    let rows: Vec<_> = found.conversations.into_iter().map(ConversationRow::from).collect();
    Ok(Reply::ok(&page.of_rows(rows, found.total)))
}

#[utoipa::path(
    get,
    path = "/v1/conversations/{conversation_id}",
    operation_id = "readConversation",
    tag = "Conversations",
    summary = "Read a conversation",
    params(("conversation_id" = String, Path, description = "The conversation's id")),
    responses((status = 200, description = "The conversation", body = ConversationRow))
)]
async fn read(mut call: Call<Principal>) -> Answer {
    let id = conversation(&mut call).await?;
    Ok(Reply::ok(&ConversationRow::from(call.caller.workspace().conversation(id).await?)))
}

#[utoipa::path(
    get,
    path = "/v1/conversations/{conversation_id}/messages",
    operation_id = "listConversationMessages",
    tag = "Conversations",
    summary = "List what was written in a conversation",
    params(
        ("conversation_id" = String, Path, description = "The conversation's id"),
        ("page" = Option<i64>, Query, minimum = 1, description = "1 unless told"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Most messages of \
         a page, 50 unless told"),
    ),
    responses((status = 200, description = "Messages, newest first", body = ConversationMessagesAnswer))
)]
async fn list_messages(mut call: Call<Principal>) -> Answer {
    let page = Page::of(&call.query()?)?;
    let id = conversation(&mut call).await?;
    let workspace = call.caller.workspace();
    let found = workspace.conversation_messages(id, page.skip(), page.limit()).await?;
    let rows: Vec<_> = found.messages.into_iter().map(ConversationMessageRow::from).collect();
    Ok(Reply::ok(&page.of_rows(rows, found.total)))
}

/// A change of a conversation; what is left out stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ConversationUpdate {
    /// `open`, `pending` or `resolved`.
    #[schema(example = "resolved")]
    status: Option<String>,
    /// The agent who sees to it; `null` is nobody.
    #[serde(default, deserialize_with = "super::pipeline::object::nullable")]
    #[schema(value_type = Option<String>, example = "agent-7", min_length = 1, max_length = 100)]
    assigned_to: Option<Option<String>>,
}

#[utoipa::path(
    patch,
    path = "/v1/conversations/{conversation_id}",
    operation_id = "updateConversation",
    tag = "Conversations",
    summary = "Change a conversation's status or assignee",
    params(("conversation_id" = String, Path, description = "The conversation's id")),
    request_body = ConversationUpdate,
    responses((status = 200, description = "The conversation", body = ConversationRow))
)]
async fn update(mut call: Call<Principal>) -> Answer {
    let body: ConversationUpdate = call.json()?;
    let change = ConversationChange {
        status: body.status.as_deref().map(status).transpose()?,
        assigned_to: match body.assigned_to {
            Some(Some(name)) => Some(Some(agent(&name)?)),
            cleared_or_kept => cleared_or_kept,
        },
    };
    let id = conversation(&mut call).await?;
    let updated = call.caller.workspace().update_conversation(id, change).await?;
    Ok(Reply::ok(&ConversationRow::from(updated)))
}

#[utoipa::path(
    post,
    path = "/v1/conversations/{conversation_id}/messages",
    operation_id = "replyInConversation",
    tag = "Conversations",
    summary = "Reply in a conversation",
    description = "Scope `messaging:send`. Free text is allowed for 24 hours after the contact has \
                   written, as with `POST /v1/messaging/send`; by e-mail, where a mail server is set up \
                   (422, `reason: \"email_not_configured\"`), text is always allowed and costs \
                   nothing. An open conversation is pending then. Honours `Idempotency-Key`. A reply leaves through the number \
                   that the contact last wrote to; where that is disconnected, free text through \
                   another one whose window is open, and a template through the oldest one. So does \
                   a template where that number is of another account than the one that the \
                   workspace's templates come from, which is that of its oldest number with an \
                   account.",
    params(("conversation_id" = String, Path, description = "The conversation's id")),
    request_body = ReplyBody,
    responses((status = 200, description = "Durable, and on its way", body = SentAnswer))
)]
async fn reply(mut call: Call<Principal>) -> Answer {
    let content = call.json::<ReplyBody<'_>>()?.content()?;
    let key = call.idempotency_key(Route::Reply)?;
    let id = conversation(&mut call).await?;
    let Replayable { answer, replayed } = call.caller.workspace().reply(id, content, key).await?;
    Ok(messages::sent_reply(answer).replayed(replayed))
}

async fn conversation(call: &mut Call<Principal>) -> Result<ConversationId, ApiError> {
    call.path("conversation_id", NO_SUCH_CONVERSATION).await
}

/// Checks the name of an agent.
fn agent(name: &str) -> Result<String, ApiError> {
    let fits = !name.trim().is_empty() && name.chars().count() <= AGENT_CHARS_MAX;
    if !fits || printable::has_control(name) {
        let rule = "must have 1 to 100 characters, none of them control";
        return Err(ApiError::field("assigned_to", rule));
    }
    Ok(printable::without_turns(name).into_owned())
}

fn status(text: &str) -> Result<ConversationStatus, ApiError> {
    let mut all = ConversationStatus::ALL.into_iter();
    all.find(|status| status.as_str() == text)
        .ok_or_else(|| ApiError::field("status", "must be one of open, pending, resolved"))
}

impl From<ReadConversationError> for ApiError {
    fn from(error: ReadConversationError) -> Self {
        match error {
            ReadConversationError::NotFound => Self::not_found(NO_SUCH_CONVERSATION),
            ReadConversationError::Unavailable(error) => error.into(),
        }
    }
}

impl From<UpdateConversationError> for ApiError {
    fn from(error: UpdateConversationError) -> Self {
        match error {
            UpdateConversationError::NotFound => Self::not_found(NO_SUCH_CONVERSATION),
            UpdateConversationError::Unavailable(error) => error.into(),
        }
    }
}

impl From<ReplyError> for ApiError {
    fn from(error: ReplyError) -> Self {
        match error {
            ReplyError::NotFound => Self::not_found(NO_SUCH_CONVERSATION),
            ReplyError::NoPhone | ReplyError::TextOnly => {
                Self::new(Code::Unprocessable, error.to_string())
            }
            ReplyError::NoMailServer => {
                Self::new(Code::Unprocessable, error.to_string()).because("email_not_configured")
            }
            ReplyError::Refused(error) => error.into(),
        }
    }
}

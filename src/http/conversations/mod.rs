//! Serves the inbox: conversations, their messages, and replies.

mod agents;
mod days;
mod quick_replies;
mod row;

use std::collections::HashMap;

use postrider_actors::domain::{ConversationId, PersonId, printable};
use postrider_actors::{
    ConversationChange, ConversationFilter, ConversationStatus, ConversationView, Permission,
    ReadConversationError, ReadReceiptError, Replayable, ReplyError, Route,
    UpdateConversationError,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::contacts::search_term;
use super::message_body::ReplyBody;
use super::messages::{self, SentAnswer};
use super::pipeline::{Answer, ApiError, Call, Code, Key, Page, Principal, Reply, Routes, route};
use row::{
    ConversationCountsAnswer, ConversationMessageRow, ConversationMessagesAnswer, ConversationRow,
    ConversationsAnswer,
};

/// The maximum length of an agent's name, in characters.
const AGENT_CHARS_MAX: usize = 100;

/// The words for nobody in a filter, and for the caller everywhere.
const NOBODY: &str = "none";
const ONESELF: &str = "me";

const NO_SUCH_CONVERSATION: &str = "no such conversation";

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(list).guarded(Key::of(Permission::InboxRead)))
        .routes(route!(counts).guarded(Key::of(Permission::InboxRead)))
        .routes(route!(read).guarded(Key::of(Permission::InboxRead)))
        .routes(route!(mark_read).guarded(Key::REPLY))
        .routes(route!(list_messages).guarded(Key::of(Permission::InboxRead)))
        .routes(route!(update).guarded(Key::of(Permission::InboxWrite)))
        .routes(route!(reply).guarded(Key::REPLY))
        .merge(days::routes())
        .merge(agents::routes())
        .merge(quick_replies::routes())
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
         `none`: those of nobody; `me`: those of the user who calls, and a key has none; \
         1 to 100 characters"),
        ("search" = Option<String>, Query, max_length = 200, description = "A part of the \
         contact's name, phone or e-mail address, or of the last message; upper and lower case are \
         the same. Of those that the other filters leave, the 5,000 that were last written in are \
         searched"),
        ("page" = Option<i64>, Query, minimum = 1, description = "1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Most \
         conversations of a page, 50 by default"),
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
    let assigned_to = query.text("assigned_to")?;
    let filter = ConversationFilter {
        status: query.text("status")?.map(status).transpose()?,
        assigned_to: match assigned_to {
            None | Some(NOBODY) => None,
            // A key is no user, so nothing is assigned to it.
            Some(ONESELF) => Some(oneself(&call).unwrap_or_default()),
            Some(name) => Some(agent(name)?),
        },
        unassigned: assigned_to == Some(NOBODY),
        search: search_term("search", query.text("search")?)?.map(str::to_owned),
    };
    let found = call.caller.workspace().conversations(filter, page.skip(), page.limit()).await?;
    let rows = rows(&call, found.conversations).await?;
    Ok(Reply::ok(&page.of_rows(rows, found.total)))
}

#[utoipa::path(
    get,
    path = "/v1/conversations/counts",
    operation_id = "countConversations",
    tag = "Conversations",
    summary = "Count the conversations",
    description = "All counts are kept, so that nothing is scanned.",
    responses((status = 200, description = "The counts", body = ConversationCountsAnswer))
)]
async fn counts(call: Call<Principal>) -> Answer {
    let counts = call.caller.workspace().conversation_counts(oneself(&call)).await?;
    Ok(Reply::ok(&ConversationCountsAnswer::from(counts)))
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
    let found = call.caller.workspace().conversation(id).await?;
    one(&call, found).await
}

#[utoipa::path(
    get,
    path = "/v1/conversations/{conversation_id}/messages",
    operation_id = "listConversationMessages",
    tag = "Conversations",
    summary = "List what was written in a conversation",
    params(
        ("conversation_id" = String, Path, description = "The conversation's id"),
        ("page" = Option<i64>, Query, minimum = 1, description = "1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Most messages of \
         a page, 50 by default"),
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
    /// The agent who sees to it: a user's id, `me`, which is the user who calls, or any other name;
    /// `null` is nobody.
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
            Some(Some(name)) if name == ONESELF => Some(Some(oneself(&call).ok_or_else(|| {
                ApiError::field("assigned_to", "can be `me` for a signed-in user only")
            })?)),
            Some(Some(name)) if name == NOBODY => {
                return Err(ApiError::field("assigned_to", "must be `null` for nobody"));
            }
            Some(Some(name)) => Some(Some(agent(&name)?)),
            cleared_or_kept => cleared_or_kept,
        },
    };
    let id = conversation(&mut call).await?;
    call.keeps(&["channel", "contact", "number_id"], async || {
        let found = call.caller.workspace().conversation(id).await?;
        let row = rows(&call, vec![found]).await?.pop();
        row.ok_or_else(|| ApiError::not_found(NO_SUCH_CONVERSATION))
    })
    .await?;
    let updated = call.caller.workspace().update_conversation(id, change).await?;
    one(&call, updated).await
}

/// What the contact is sent.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ReadBody {
    /// Whether an answer is being typed, which the contact sees for 25 seconds at the most.
    #[schema(default = false, example = true)]
    typing: Option<bool>,
}

/// Nothing is unread.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReadAnswer {
    /// Whether the contact was notified; `false` without a body.
    #[schema(example = true)]
    read: bool,
}

#[utoipa::path(
    post,
    path = "/v1/conversations/{conversation_id}/read",
    operation_id = "markConversationRead",
    tag = "Conversations",
    summary = "Take what the contact has written as read",
    description = "Scope `messaging:send`. Nothing in the conversation is `unread` then, for every \
                   agent alike. No event reports it. With a body the contact learns it too: the \
                   newest message is marked as read on the channel, once; 503 where the channel \
                   does not take it, and then nothing is changed. Without a body the contact \
                   learns nothing.",
    params(("conversation_id" = String, Path, description = "The conversation's id")),
    request_body = ReadBody,
    responses((status = 200, description = "Nothing is unread", body = ReadAnswer))
)]
async fn mark_read(mut call: Call<Principal>) -> Answer {
    let body = match call.raw().is_empty() {
        true => None,
        false => Some(call.json::<ReadBody>()?),
    };
    let id = conversation(&mut call).await?;
    let workspace = call.caller.workspace();
    let Some(ReadBody { typing }) = body else {
        workspace.mark_conversation_read(id).await?;
        return Ok(Reply::ok(&ReadAnswer { read: false }));
    };
    workspace.send_read_receipt(id, typing.unwrap_or_default()).await?;
    Ok(Reply::ok(&ReadAnswer { read: true }))
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
                   another one whose window is open, and a template as with \
                   `POST /v1/messaging/send`. So does a template where that number is of another \
                   account than the one that the workspace's templates come from, which is that of \
                   the oldest number of its pool with an account.",
    params(("conversation_id" = String, Path, description = "The conversation's id")),
    request_body = ReplyBody,
    responses((status = 200, description = "Durable, and on its way", body = SentAnswer))
)]
async fn reply(mut call: Call<Principal>) -> Answer {
    let (content, answers, notes) = call.json::<ReplyBody<'_>>()?.message()?;
    let key = call.idempotency_key(Route::Reply)?;
    let id = conversation(&mut call).await?;
    let workspace = call.caller.workspace();
    let Replayable { answer, replayed } = workspace.reply(id, content, answers, notes, key).await?;
    Ok(messages::sent_reply(answer).replayed(replayed))
}

async fn one(call: &Call<Principal>, view: ConversationView) -> Answer {
    let row = rows(call, vec![view]).await?.pop();
    row.map_or_else(|| Err(ApiError::not_found(NO_SUCH_CONVERSATION)), |row| Ok(Reply::ok(&row)))
}

/// Returns the rows of conversations for an answer.
async fn rows(
    call: &Call<Principal>,
    views: Vec<ConversationView>,
) -> Result<Vec<ConversationRow>, ApiError> {
    let workspace = call.caller.workspace();
    let windows = workspace.reply_windows(&views).await?;
    let now = call.edge.engine.clock().now();
    let names = user_names(call, &views).await;
    let row = |(view, window): (ConversationView, _)| {
        let agent = view.0.assigned_to.as_deref();
        let name = agent.and_then(|agent| names.get(agent).cloned());
        ConversationRow::of(view, (window, now), name)
    };
    Ok(views.into_iter().zip(windows).map(row).collect())
}

/// Returns the names of the assigned users by their ids, if they may still be assigned. If a
/// cluster cannot reach the engine of people now, the names are left out.
async fn user_names(call: &Call<Principal>, views: &[ConversationView]) -> HashMap<String, String> {
    let agents = views.iter().filter_map(|view| view.0.assigned_to.as_deref()?.parse().ok());
    let mut ids: Vec<PersonId> = agents.collect();
    ids.sort_unstable();
    ids.dedup();
    let workspace = call.caller.workspace().id();
    let people = call.edge.people(ids).await.unwrap_or_default().into_iter();
    let may = people.filter(|it| it.operator || it.role_in(workspace).is_some());
    may.map(|person| (person.id.to_string(), person.name.to_string())).collect()
}

/// Returns the id of the calling user; `None` for a key or an admin token.
fn oneself(call: &Call<Principal>) -> Option<String> {
    match &call.caller {
        Principal::Key(_) => None,
        Principal::Person(member) => Some(member.signed_in.person.as_ref()?.id.to_string()),
    }
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

impl From<ReadReceiptError> for ApiError {
    fn from(error: ReadReceiptError) -> Self {
        match error {
            ReadReceiptError::NotFound => Self::not_found(NO_SUCH_CONVERSATION),
            ReadReceiptError::NothingToRead => {
                Self::new(Code::Unprocessable, error.to_string()).because("nothing_to_read")
            }
            ReadReceiptError::Unavailable(error) => error.into(),
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

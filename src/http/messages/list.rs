//! Serves the list of messages.

use std::str::FromStr;

use postrider_actors::domain::{MessageId, PartyId, UserId};
use postrider_actors::{MessageFilter, MessageKind, MessageStatus, Permission};
use serde::Serialize;
use utoipa::ToSchema;

use super::MessageAnswer;
use crate::http::pipeline::{
    Answer, ApiError, Call, Key, LIMIT_DEFAULT, LIMIT_MAX, Principal, Query, Reply, Routes,
    id_cursor, route,
};

/// The first byte of a cursor, which defines the format of the rest: a message.
const CURSOR_VERSION: u8 = 1;
/// The maximum length of the `template` filter, in characters.
const TEMPLATE_CHARS_MAX: usize = 512;
const STATUSES: [MessageStatus; 7] = [
    MessageStatus::Queued,
    MessageStatus::Unknown,
    MessageStatus::Held,
    MessageStatus::Sent,
    MessageStatus::Delivered,
    MessageStatus::Read,
    MessageStatus::Failed,
];

pub(super) fn routes() -> Routes {
    Routes::default().routes(route!(list).guarded(Key::of(Permission::MessagesRead)))
}

/// A part of the messages.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ListedMessagesAnswer {
    /// Newest first. It may be short of rows, or empty, while `next_cursor` goes on.
    data: Vec<MessageAnswer>,
    /// Give it as `cursor`, with the same filters, to go on after this part; null at the oldest.
    #[schema(example = "AQGQ8fgbOAECAwQFBgcICQo")]
    next_cursor: Option<String>,
}

#[utoipa::path(
    get,
    path = "/v1/messaging/messages",
    operation_id = "listMessages",
    tag = "Messaging",
    summary = "List messages",
    description = "Those that were sent by `POST /v1/messaging/send` and as replies by chat; with \
                   `to` or `broadcast_id` those of broadcasts too. Filters combine. A recipient's \
                   and those of a reference are found by an index; of what else is asked for, a \
                   part looks at 10,000 messages at most.",
    params(
        ("to" = Option<String>, Query, description = "Only those to this phone, in E.164, or to \
         the person of this id of the channel"),
        ("recipient" = Option<String>, Query, description = "Only those to the person of this id \
         of the channel; left out with `to`"),
        ("type" = Option<String>, Query, description = "Only those of this type, as `type` of \
         `POST /v1/messaging/send`: `template`, `text`, `image`, `video`, `document`, `audio`, \
         `sticker`, `location`, `contacts`, `reaction` or `interactive`"),
        ("reference" = Option<String>, Query, description = "Only those that their sender calls \
         so, exactly"),
        ("number_id" = Option<String>, Query, description = "Only those that leave through this \
         number"),
        ("broadcast_id" = Option<String>, Query, description = "Only those of this broadcast"),
        ("status" = Option<String>, Query, description = "Only `queued`, `held`, `sent`, \
         `delivered`, `read`, `failed` or `unknown` ones"),
        ("template" = Option<String>, Query, max_length = 512, description = "Only those of the \
         template of this name, in any language"),
        ("since" = Option<String>, Query, format = DateTime, description = "Only those that were \
         accepted at this moment or later"),
        ("until" = Option<String>, Query, format = DateTime, description = "Only those that were \
         accepted before this moment"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the part before"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Most rows, 50 \
         by default"),
    ),
    responses((status = 200, description = "Messages, newest first", body = ListedMessagesAnswer))
)]
async fn list(call: Call<Principal>) -> Answer {
    let query = call.query()?;
    let limit = query.integer("limit", LIMIT_DEFAULT, 1, LIMIT_MAX)?;
    let (since, until) = (query.moment("since")?, query.moment("until")?);
    if since.zip(until).is_some_and(|(since, until)| until < since) {
        return Err(ApiError::field("until", "must not be before `since`"));
    }
    let filter = MessageFilter {
        to: party(&query)?,
        status: query.text("status")?.map(status).transpose()?,
        kind: parsed(&query, "type", &rule_of_types())?,
        template: template(&query)?,
        reference: query.text("reference")?.map(str::to_owned),
        number: parsed(&query, "number_id", "must be the id of a number")?,
        broadcast: parsed(&query, "broadcast_id", "must be the id of a broadcast")?,
        since,
        until,
    };
    let after = id_cursor::of_query(&query, CURSOR_VERSION)?.map(MessageId::from_bytes);
    let page = call.caller.workspace().messages(filter, after, limit).await?;
    Ok(Reply::ok(&ListedMessagesAnswer {
        data: page.messages.into_iter().map(MessageAnswer::from).collect(),
        next_cursor: page.next.map(|id| id_cursor::encode(CURSOR_VERSION, id.as_bytes())),
    }))
}

/// Returns the recipient to filter by. An unescaped `+` arrives as a space, with which no id
/// begins.
fn party(query: &Query) -> Result<Option<PartyId>, ApiError> {
    let recipient = query.text("recipient")?;
    let Some(text) = query.text("to")? else {
        let id = recipient.map(str::parse::<UserId>).transpose();
        let id = id.map_err(|error| ApiError::field("recipient", error))?;
        return Ok(id.map(PartyId::User));
    };
    if recipient.is_some() {
        return Err(ApiError::field("recipient", "must not be given with `to`"));
    }
    let parsed = match text.strip_prefix(' ') {
        Some(digits) => format!("+{digits}").parse(),
        None => text.parse(),
    };
    parsed.map(Some).map_err(|error| ApiError::field("to", error))
}

/// Parses a parameter. `rule` explains a refusal.
fn parsed<T: FromStr>(query: &Query, name: &str, rule: &str) -> Result<Option<T>, ApiError> {
    let text = query.text(name)?;
    text.map(|text| text.parse().map_err(|_| ApiError::field(name, rule))).transpose()
}

fn rule_of_types() -> String {
    format!("must be one of {}", MessageKind::WORDS.join(", "))
}

fn status(text: &str) -> Result<MessageStatus, ApiError> {
    STATUSES.into_iter().find(|status| status.as_str() == text).ok_or_else(|| {
        let words = STATUSES.map(MessageStatus::as_str).join(", ");
        ApiError::field("status", format!("must be one of {words}"))
    })
}

fn template(query: &Query) -> Result<Option<String>, ApiError> {
    let Some(name) = query.text("template")? else { return Ok(None) };
    if name.chars().count() > TEMPLATE_CHARS_MAX {
        return Err(ApiError::field("template", "must have at most 512 characters"));
    }
    Ok(Some(name.to_owned()))
}

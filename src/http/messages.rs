//! Sends, reads and lists single messages.

use std::collections::BTreeMap;
use std::str::FromStr;

use postrider_actors::domain::template::TemplateName;
use postrider_actors::domain::{MessageId, PartyId, UserId};
use postrider_actors::{
    MessageError, MessageFilter, MessageKind, MessageSent, MessageState, MessageStatus, Permission,
    Replayable, Route, SendMessageError, Unavailable, UnavailableReason, Workspace,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::audited_reads::ReadingKind;
use super::contacts::{NamedContact, contacts_named, reads_contacts};
use super::message_body::SendMessageBody;
use super::pipeline::{
    Answer, ApiError, Call, Code, Key, LIMIT_DEFAULT, LIMIT_MAX, Principal, Query, Reply, Routes,
    encode_id_cursor, id_cursor_of, route,
};
use super::streamed::{CSV, CSV_UTF8, FilePart, ListFile, ListedRows, PART_ROWS, stream};
use super::templates::template_refusal;

/// The first byte of a cursor, which defines the format of the rest: a message.
const CURSOR_VERSION: u8 = 1;
/// The maximum length of the `template` filter, in characters.
const TEMPLATE_CHARS_MAX: usize = 512;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(send).guarded(Key::of(Permission::MessagesSend)))
        .routes(route!(read).guarded(Key::of(Permission::MessagesRead)))
        .routes(route!(list).guarded(Key::of(Permission::MessagesRead)))
}

/// A message was accepted.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MessageSent)]
pub(crate) struct SentAnswer {
    /// Names the message in every later call.
    #[schema(example = "msg_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    message_id: String,
    /// `queued`; with `Prefer: wait` also `sent`, `held` or `failed`.
    #[schema(example = "queued")]
    status: &'static str,
    /// The number that it leaves through, while that is up; null of a mail.
    #[schema(example = "num_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    number_id: Option<String>,
}

#[utoipa::path(
    post,
    path = "/v1/messaging/send",
    operation_id = "sendMessage",
    tag = "Messaging",
    summary = "Send a message",
    description = "Answered `queued` once it is durable. With `Prefer: wait=N` (1 to 30 seconds) \
                   the answer waits for the channel's: `sent`, `held` or `failed`, or `queued` when \
                   that takes longer. What is `held` the channel took, and sends later or drops. A refused message costs nothing; one that surely failed is paid \
                   back. Free text leaves through the number that the recipient last wrote to, a \
                   template through the one that was last used with the recipient, or one of the \
                   pool. Honours `Idempotency-Key`.",
    params(("Prefer" = Option<String>, Header, description = "`wait=N`: seconds to wait for the \
        channel's answer")),
    request_body = SendMessageBody,
    responses((status = 200, description = "Durable, and on its way", body = SentAnswer))
)]
async fn send(call: Call<Principal>) -> Answer {
    let message = call.json::<SendMessageBody<'_>>()?.message()?;
    let key = call.idempotency_key(Route::SendMessage)?;
    let workspace = call.caller.workspace();
    let Replayable { answer, replayed } = match call.preferred_wait() {
        None => workspace.send_message(message, key).await?,
        Some(wait) => {
            let give_up = async {
                // A shutdown must not cut the request off, so it ends the wait.
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = call.edge.options.drain.begun() => {}
                }
            };
            workspace.send_message_and_wait(message, key, give_up).await?
        }
    };
    Ok(sent_reply(answer).replayed(replayed))
}

/// Answers that a message was accepted.
pub(crate) fn sent_reply(MessageSent { message_id, status, number }: MessageSent) -> Reply {
    Reply::ok(&SentAnswer {
        message_id: message_id.to_string(),
        status: status.as_str(),
        number_id: number.map(|id| id.to_string()),
    })
}

/// A message and where it stands.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Message)]
pub(crate) struct MessageAnswer {
    /// The message.
    #[schema(example = "msg_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    message_id: String,
    /// The broadcast that it is of; null of a single message.
    #[schema(example = "brd_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    broadcast_id: Option<String>,
    /// Who gets it, in E.164; null where it goes to no phone.
    #[schema(example = "+15550123456")]
    to: Option<String>,
    /// Who gets it, by the channel's id; null where it goes to a phone.
    #[schema(example = "US.13491208655302741918")]
    recipient: Option<String>,
    /// `template`, `text`, `image`, `video`, `document`, `audio`, `sticker`, `location`,
    /// `contacts`, `reaction` or `interactive`.
    #[serde(rename = "type")]
    #[schema(example = "template")]
    kind: &'static str,
    /// The contact of its recipient; null without one, and for a caller without `contacts:read`.
    contact: Option<NamedContact>,
    /// The template's name and language; null for a text.
    template: Option<TemplateAnswer>,
    /// The text that the recipient reads, without media. Null for an authentication template, for a
    /// caller without `contacts:read`, and after the recipient's contact was deleted or got another
    /// phone.
    #[schema(example = "Your order 1017 is on its way.")]
    text: Option<Box<str>>,
    /// `queued`, `held` (the channel took it and sends it later, or drops it), `sent`, `delivered`,
    /// `read`, `failed`, or `unknown`: it was handed over and no answer came.
    #[schema(example = "delivered")]
    status: &'static str,
    /// Why it failed; null if it did not.
    error: Option<MessageErrorAnswer>,
    /// Credits that were paid for it.
    #[schema(example = 1)]
    price: u64,
    /// The number that it leaves through; null of a broadcast's that leaves through several.
    #[schema(example = "num_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    number_id: Option<String>,
    /// When it was accepted.
    #[schema(format = DateTime)]
    created_at: String,
    /// When the channel took it.
    #[schema(format = DateTime)]
    sent_at: Option<String>,
    /// When it was delivered.
    #[schema(format = DateTime)]
    delivered_at: Option<String>,
    /// When it was opened.
    #[schema(format = DateTime)]
    read_at: Option<String>,
    /// When it failed.
    #[schema(format = DateTime)]
    failed_at: Option<String>,
    /// What its sender calls it, or calls its broadcast; null where that is nothing.
    #[schema(example = "order-1017")]
    reference: Option<String>,
    /// What its sender keeps with it, or with its broadcast.
    #[schema(value_type = Object, example = json!({"shop": "north"}))]
    metadata: BTreeMap<String, String>,
}

/// The template of a message.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = UsedTemplate)]
pub(crate) struct TemplateAnswer {
    /// Its name.
    #[schema(example = "order_update")]
    name: Box<str>,
    /// Its language.
    #[schema(example = "en")]
    language: Box<str>,
}

/// Why a message failed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MessageError)]
pub(crate) struct MessageErrorAnswer {
    /// `channel_refused`, `not_sent_in_time`, or of a broadcast's message `cancelled`.
    #[schema(example = "channel_refused")]
    reason: String,
    /// The channel's error code, where it gave one.
    #[schema(example = 131_026)]
    code: Option<u32>,
    /// The channel's explanation; empty where it gave none.
    details: String,
}

impl MessageAnswer {
    /// Returns the answer about a message with this text to this contact.
    fn of(state: MessageState, text: Box<str>, contact: Option<NamedContact>) -> Self {
        let time = |at: Option<postrider_actors::domain::Timestamp>| at.map(|at| at.to_string());
        let error = |MessageError { reason, code, details }| MessageErrorAnswer {
            reason: String::from(reason),
            code,
            details: String::from(details),
        };
        let number_id = state.known_number().map(|id| id.to_string());
        Self {
            message_id: state.message_id.to_string(),
            broadcast_id: state.broadcast.map(|id| id.to_string()),
            to: state.to.phone().map(|phone| phone.to_string()),
            recipient: state.to.user_id().map(ToString::to_string),
            kind: state.kind.as_str(),
            template: state
                .template
                .map(|TemplateName { name, language }| TemplateAnswer { name, language }),
            contact,
            text: Some(text).filter(|text| !text.is_empty()),
            status: state.status.as_str(),
            error: state.error.map(error),
            price: state.price,
            number_id,
            created_at: state.created_at.to_string(),
            sent_at: time(state.sent_at),
            delivered_at: time(state.delivered_at),
            read_at: time(state.read_at),
            failed_at: time(state.failed_at),
            reference: state.notes.reference,
            metadata: state.notes.metadata,
        }
    }
}

#[utoipa::path(
    get,
    path = "/v1/messaging/messages/{message_id}",
    operation_id = "readMessage",
    tag = "Messaging",
    summary = "Read where a message stands",
    description = "One of a broadcast too; of those no moments but that of the broadcast's making are \
                   kept.",
    params(("message_id" = String, Path, description = "What send answered")),
    responses((status = 200, description = "Where it stands", body = MessageAnswer))
)]
async fn read(mut call: Call<Principal>) -> Answer {
    const MISSING: &str = "no such message";
    let id: MessageId = call.path("message_id", MISSING).await?;
    match call.caller.workspace().message(id).await? {
        Some(state) => {
            let answer = answers(&call, vec![state]).await?.pop();
            answer.map_or_else(|| Err(ApiError::not_found(MISSING)), |it| Ok(Reply::ok(&it)))
        }
        None => Err(ApiError::not_found(MISSING)),
    }
}

/// Returns the answers about messages. Without `contacts:read` they have no names and no texts.
async fn answers(
    call: &Call<Principal>,
    states: Vec<MessageState>,
) -> Result<Vec<MessageAnswer>, ApiError> {
    let shown = shown(call.caller.workspace(), states, reads_contacts(call)).await?;
    Ok(shown.into_iter().map(|(answer, _)| answer).collect())
}

/// Returns the answers about messages, each with its recipient's name in a file.
async fn shown(
    workspace: &Workspace,
    states: Vec<MessageState>,
    may_read: bool,
) -> Result<Vec<(MessageAnswer, String)>, Unavailable> {
    if !may_read {
        let answer = |state| (MessageAnswer::of(state, Box::default(), None), String::new());
        return Ok(states.into_iter().map(answer).collect());
    }
    let people = states.iter().map(|state| Some(state.to.clone())).collect();
    let contacts = contacts_named(workspace, people).await?;
    let texts = workspace.message_texts(&states).await?;
    let rows = states.into_iter().zip(texts).zip(contacts);
    let answer = |((state, text), contact): ((_, _), Option<NamedContact>)| {
        let name = contact.as_ref().map(|contact| contact.name.clone()).unwrap_or_default();
        (MessageAnswer::of(state, text, contact), name)
    };
    Ok(rows.map(answer).collect())
}

const STATUSES: [MessageStatus; 7] = [
    MessageStatus::Queued,
    MessageStatus::Unknown,
    MessageStatus::Held,
    MessageStatus::Sent,
    MessageStatus::Delivered,
    MessageStatus::Read,
    MessageStatus::Failed,
];

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
    let wanted = MessageFilter {
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
    let after = id_cursor_of(&query, CURSOR_VERSION)?.map(MessageId::from_bytes);
    if call.wants(CSV) {
        call.reads_all(ReadingKind::Messages).await?;
        let rows = MessageRows { wanted, may_read: reads_contacts(&call) };
        return Ok(stream(&call, CSV_UTF8, ListFile::new(rows)));
    }
    let page = call.caller.workspace().messages(wanted, after, limit).await?;
    Ok(Reply::ok(&ListedMessagesAnswer {
        data: answers(&call, page.messages).await?,
        next_cursor: page.next.map(|id| encode_id_cursor(CURSOR_VERSION, id.as_bytes())),
    }))
}

/// The messages of a file.
struct MessageRows {
    wanted: MessageFilter,
    may_read: bool,
}

impl ListedRows for MessageRows {
    type Id = MessageId;
    const HEAD: &'static [&'static str] = &[
        "message_id",
        "to",
        "name",
        "type",
        "template",
        "language",
        "text",
        "status",
        "error_reason",
        "error_code",
        "error_details",
        "price",
        "created_at",
        "sent_at",
        "delivered_at",
        "read_at",
        "failed_at",
        "broadcast_id",
        "reference",
    ];

    async fn after(
        &self,
        workspace: &Workspace,
        after: Option<MessageId>,
    ) -> Result<FilePart<MessageId>, Unavailable> {
        let page = workspace.messages(self.wanted.clone(), after, PART_ROWS).await?;
        let rows = shown(workspace, page.messages, self.may_read).await?;
        Ok((rows.into_iter().map(cells).collect(), page.next))
    }
}

fn cells((row, name): (MessageAnswer, String)) -> Vec<String> {
    let error = row.error.unwrap_or(MessageErrorAnswer {
        reason: String::new(),
        code: None,
        details: String::new(),
    });
    let (template, language) = row
        .template
        .map(|template| (template.name.into(), template.language.into()))
        .unwrap_or_default();
    vec![
        row.message_id,
        row.to.or(row.recipient).unwrap_or_default(),
        name,
        row.kind.to_owned(),
        template,
        language,
        row.text.map(String::from).unwrap_or_default(),
        row.status.to_owned(),
        error.reason,
        error.code.map(|code| code.to_string()).unwrap_or_default(),
        error.details,
        row.price.to_string(),
        row.created_at,
        row.sent_at.unwrap_or_default(),
        row.delivered_at.unwrap_or_default(),
        row.read_at.unwrap_or_default(),
        row.failed_at.unwrap_or_default(),
        row.broadcast_id.unwrap_or_default(),
        row.reference.unwrap_or_default(),
    ]
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

impl From<SendMessageError> for ApiError {
    fn from(error: SendMessageError) -> Self {
        let message = error.to_string();
        match error {
            SendMessageError::NotConnected => Self::new(Code::MessagingNotConnected, message),
            SendMessageError::UnknownNumber => {
                Self::new(Code::Unprocessable, message).because("unknown_number")
            }
            SendMessageError::WindowClosed => {
                Self::new(Code::Unprocessable, message).because("conversation_window_closed")
            }
            SendMessageError::Template(error) => template_refusal(error, "template."),
            SendMessageError::OptedOut => {
                Self::new(Code::Unprocessable, message).because("opted_out")
            }
            SendMessageError::RecipientNeedsPhone => {
                Self::new(Code::Unprocessable, message).because("recipient_needs_phone")
            }
            SendMessageError::UnknownMessage => {
                Self::new(Code::Unprocessable, message).because("unknown_message")
            }
            SendMessageError::UnknownMedia { kind } => {
                Self::field(&format!("{}.media_id", kind.as_str()), message)
            }
            // The file was deleted, or another number was chosen, during the upload.
            SendMessageError::NotUploaded { .. } => {
                Unavailable::because(UnavailableReason::Restarting).into()
            }
            SendMessageError::InsufficientCredits { .. } => {
                Self::new(Code::InsufficientCredits, message)
            }
            SendMessageError::Unavailable(error) => error.into(),
        }
    }
}

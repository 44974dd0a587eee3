//! The rows of conversations and of the messages in them, as bodies report them.

use std::collections::BTreeMap;

use postrider_actors::domain::Timestamp;
use postrider_actors::domain::event::message::ReferralData;
use postrider_actors::{
    ConversationCounts, ConversationMessage, ConversationView, Direction, MessageError,
    ReplyWindow, WrittenContent, WrittenContext, WrittenMedia,
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::http::contacts::ContactRow;

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
    /// Until when it may be answered with free text.
    reply_window: ReplyWindowRow,
    /// Messages that the contact has written since the last reply, and since they were taken as
    /// read.
    #[schema(minimum = 0, example = 2)]
    unread: u64,
    /// When the contact last wrote; `null` if it never has.
    #[schema(format = DateTime, example = "2026-01-31T09:25:00.000Z")]
    last_inbound_at: Option<String>,
    /// The agent who sees to it, by name.
    assignee: Option<Assignee>,
    /// The number that the contact last wrote to; null by e-mail, and where that is not kept.
    #[schema(example = "num_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    number_id: Option<String>,
}

/// Until when a conversation may be answered with free text.
#[derive(Serialize, ToSchema)]
#[schema(as = ReplyWindow)]
pub(crate) struct ReplyWindowRow {
    /// Whether it may be now.
    open: bool,
    /// When that ends, or has ended; `null` by e-mail, where it never does, and where the contact
    /// has not written for long.
    #[schema(format = DateTime, example = "2026-02-01T09:25:00.000Z")]
    closes_at: Option<String>,
}

/// An agent.
#[derive(Serialize, ToSchema)]
pub(crate) struct Assignee {
    /// What `assigned_to` says: a user's id, or a name that a key gave.
    #[schema(example = "usr_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    id: String,
    /// The user's name, or what `assigned_to` says.
    #[schema(example = "Ada")]
    name: String,
}

impl ConversationRow {
    /// Returns the row of a conversation with its window at `now`. `user` is the name of its
    /// assignee, if that is a user.
    pub(super) fn of(
        (conversation, contact): ConversationView,
        (window, now): (ReplyWindow, Timestamp),
        user: Option<String>,
    ) -> Self {
        let last_inbound = conversation.last_inbound_at;
        let assigned_to = conversation.assigned_to.clone();
        let assignee =
            assigned_to.map(|id| Assignee { name: user.unwrap_or_else(|| id.clone()), id });
        Self {
            id: conversation.id.to_string(),
            contact: contact.into(),
            status: conversation.status.as_str(),
            channel: conversation.channel(),
            assigned_to: conversation.assigned_to,
            last_message: conversation.last_message,
            last_message_at: conversation.last_message_at.to_string(),
            created_at: conversation.created_at.to_string(),
            reply_window: ReplyWindowRow {
                open: window.is_open(now),
                closes_at: window.closes_at().map(|at| at.to_string()),
            },
            unread: conversation.unread,
            last_inbound_at: last_inbound.map(|at| at.to_string()),
            assignee,
            number_id: conversation.number.map(|id| id.to_string()),
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

/// How many conversations there are.
#[derive(Serialize, ToSchema)]
pub(crate) struct ConversationCountsAnswer {
    /// Those whose contact waits for an answer.
    #[schema(minimum = 0, example = 3)]
    open: usize,
    /// Those that are answered.
    #[schema(minimum = 0, example = 12)]
    pending: usize,
    /// Those that are done.
    #[schema(minimum = 0, example = 250)]
    resolved: usize,
    /// Those of the user who calls that are not done; a key has none.
    #[schema(minimum = 0, example = 4)]
    mine: usize,
    /// Those of nobody that are not done.
    #[schema(minimum = 0, example = 2)]
    unassigned: usize,
    /// Those with something unread.
    #[schema(minimum = 0, example = 3)]
    unread: usize,
}

impl From<ConversationCounts> for ConversationCountsAnswer {
    fn from(counts: ConversationCounts) -> Self {
        let ConversationCounts { open, pending, resolved, mine, unassigned, unread } = counts;
        Self { open, pending, resolved, mine, unassigned, unread }
    }
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
    /// `text`, `template`, `image`, `video`, `document`, `audio`, `sticker`, `location`,
    /// `contacts`, `reaction`, `interactive`, `email`, or what else the contact sent.
    #[serde(rename = "type")]
    #[schema(example = "text")]
    kind: String,
    /// What it says; of what has no words, what can be shown of it, such as the name of a place.
    /// Empty where its type says all.
    #[schema(example = "Where is my order?")]
    text: String,
    /// `received` for one of the contact's; what became of it for one of the workspace's, which is
    /// `unknown` too when it is older than messages are kept.
    #[schema(example = "received")]
    status: &'static str,
    /// Why it failed, if it did.
    error: Option<WrittenError>,
    /// When it was written.
    #[schema(format = DateTime, example = "2026-01-31T09:25:00.000Z")]
    at: String,
    /// What its sender calls it; null where that is nothing.
    #[schema(example = "order-1017")]
    reference: Option<String>,
    /// What its sender keeps with it.
    #[schema(value_type = Object, example = json!({"shop": "north"}))]
    metadata: BTreeMap<String, String>,
    /// The file that it has; null of one without, and of one by a link.
    media: Option<WrittenFile>,
    /// What one of the contact's has beside its text, in the channel's own form, of at most 16 KiB:
    /// a place, cards, what was chosen, a file with its `media_id`, a reaction with its
    /// `message_id`. Null of a text that `text` has whole, and of the workspace's own.
    #[schema(value_type = Option<Object>, example = json!(null))]
    content: Option<Value>,
    /// Whether something of `content` is left out because it was larger.
    #[schema(example = false)]
    content_truncated: bool,
    /// What one of the contact's answers; null where it answers nothing.
    context: Option<WrittenContextRow>,
    /// The advertisement that one of the contact's was written from; null of any other.
    referral: Option<ReferralData>,
}

/// What a message answers.
#[derive(Serialize, ToSchema)]
#[schema(as = WrittenContext)]
pub(crate) struct WrittenContextRow {
    /// The message; null where it is not known.
    #[schema(example = "msg_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    message_id: Option<String>,
    /// Whether it was written to somebody else before.
    #[schema(example = false)]
    forwarded: bool,
}

impl From<WrittenContext> for WrittenContextRow {
    fn from(context: WrittenContext) -> Self {
        let WrittenContext { message_id, forwarded } = context;
        Self { message_id: message_id.map(|id| id.to_string()), forwarded }
    }
}

/// The file of a message, which may not be there any more.
#[derive(Serialize, ToSchema)]
pub(crate) struct WrittenFile {
    /// Names it in every call.
    #[schema(example = "med_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    media_id: String,
    /// Its type.
    #[schema(example = "image/jpeg")]
    mime_type: String,
    /// Its name; null if it has none.
    #[schema(example = "plan.png")]
    filename: Option<String>,
}

impl From<WrittenMedia> for WrittenFile {
    fn from(media: WrittenMedia) -> Self {
        let WrittenMedia { media_id, mime_type, filename } = media;
        Self { media_id: media_id.to_string(), mime_type, filename }
    }
}

/// Why a message of a conversation failed.
#[derive(Serialize, ToSchema)]
pub(crate) struct WrittenError {
    /// The channel's error code, where it gave one.
    #[schema(example = 131_026)]
    code: Option<u32>,
    /// The channel's explanation, or else `channel_refused` or `not_sent_in_time`.
    #[schema(example = "Message undeliverable")]
    message: String,
}

impl From<MessageError> for WrittenError {
    fn from(error: MessageError) -> Self {
        let message = if error.details.is_empty() { error.reason } else { error.details };
        Self { code: error.code, message: message.into() }
    }
}

impl From<ConversationMessage> for ConversationMessageRow {
    fn from(message: ConversationMessage) -> Self {
        let direction = match message.direction {
            Direction::In => "in",
            Direction::Out => "out",
        };
        let WrittenContent { object, truncated, context, referral } =
            message.content.map(|it| *it).unwrap_or_default();
        Self {
            id: message.id.to_string(),
            direction,
            kind: message.kind,
            text: message.text,
            status: message.status,
            error: message.error.map(WrittenError::from),
            at: message.at.to_string(),
            reference: message.notes.reference,
            metadata: message.notes.metadata,
            media: message.media.map(WrittenFile::from),
            content: object,
            content_truncated: truncated,
            context: context.map(WrittenContextRow::from),
            referral,
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

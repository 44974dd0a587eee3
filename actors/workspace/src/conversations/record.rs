//! A conversation and its messages, and their records.

use std::collections::BTreeMap;

use postrider_domain::event::conversation::ConversationData;
use postrider_domain::event::message::ReferralData;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{
    ContactId, ConversationId, Email, EventData, MediaId, MessageId, NumberId, Phone, Timestamp,
    WorkspaceId,
};
use postrider_store::{StoreError, Table};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::contacts::place_of;
use crate::core::command::Context;
use crate::core::view::Reader;

/// The status of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConversationStatus {
    /// The contact waits for an answer.
    Open,
    /// The workspace has answered.
    Pending,
    /// A member has marked it as done.
    Resolved,
}

impl ConversationStatus {
    /// Every status.
    pub const ALL: [Self; 3] = [Self::Open, Self::Pending, Self::Resolved];

    /// Returns the status as a body spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Pending => "pending",
            Self::Resolved => "resolved",
        }
    }

    pub(crate) const fn as_byte(self) -> u8 {
        self as u8
    }
}

/// The author's side of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The contact.
    In,
    /// The workspace.
    Out,
}

/// A conversation. This is its record too, as JSON.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// The id in every call.
    pub id: ConversationId,
    /// The contact.
    pub contact_id: ContactId,
    /// The status.
    pub status: ConversationStatus,
    /// The assigned agent.
    pub assigned_to: Option<String>,
    /// The first 200 characters of the last message.
    pub last_message: String,
    /// The time of the last message.
    pub last_message_at: Timestamp,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time of the last activity, for the order of the list.
    pub active_at: Timestamp,
    /// Messages that were added to it.
    pub added: u64,
    /// The number to which the contact last wrote; `None` in one by e-mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<NumberId>,
    /// When that was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number_at: Option<Timestamp>,
    /// When the contact last wrote, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_inbound_at: Option<Timestamp>,
    /// The number of the contact's messages since the last reply, and since all were marked as
    /// read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unread: u64,
    /// The thread of a conversation by e-mail; `None` in one over the chat-app channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<MailThread>,
}

/// The data for the next mail of a conversation.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailThread {
    /// The address from which the contact last wrote.
    pub address: Email,
    /// The subject.
    pub subject: String,
    /// The `Message-ID`s of the thread, oldest first; the last one is answered.
    pub references: Vec<String>,
}

impl Conversation {
    /// Creates an empty conversation with a contact, whose first message, of `at`, is to be noted
    /// in it.
    ///
    /// `unique` makes its id unique.
    pub fn new(contact_id: ContactId, now: Timestamp, at: Timestamp, unique: u128) -> Self {
        Self {
            id: ConversationId::from_parts(now, unique),
            contact_id,
            status: ConversationStatus::Resolved,
            assigned_to: None,
            last_message: String::new(),
            last_message_at: at,
            created_at: now,
            active_at: now,
            added: 0,
            number: None,
            number_at: None,
            last_inbound_at: None,
            unread: 0,
            mail: None,
        }
    }

    /// Notes that the contact has written.
    pub(crate) fn note_inbound(&mut self, at: Timestamp) {
        self.unread += 1;
        self.last_inbound_at = self.last_inbound_at.max(Some(at));
    }

    /// `messaging` or `email`.
    #[must_use]
    pub const fn channel(&self) -> &'static str {
        if self.mail.is_some() { "email" } else { "messaging" }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Conversation");
        shown.field("id", &self.id).field("status", &self.status).finish_non_exhaustive()
    }
}

/// The identification of an incoming mail.
#[derive(Serialize, Deserialize)]
pub(crate) struct MailKnownBy {
    /// Its `Message-ID`.
    pub message_id: String,
    /// The address from which it came.
    pub address: Email,
}

/// A message of a conversation. The outcome of a message of the workspace's is in that message's
/// own record.
#[derive(Serialize, Deserialize)]
pub(crate) struct Written {
    pub direction: Direction,
    pub kind: String,
    pub text: String,
    pub at: Timestamp,
    /// The identification of an incoming mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<MailKnownBy>,
    /// The provider's id of a message that came in over the chat-app channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<Box<str>>,
    /// The file that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<WrittenMedia>,
    /// The content beside its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Box<WrittenContent>>,
}

/// The file of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenMedia {
    /// The file.
    pub media_id: MediaId,
    /// Its type.
    pub mime_type: String,
    /// Its name, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
}

/// The content of a message beside its text. This is a part of its record too, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenContent {
    /// Its object in the channel's own form, with our ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<Value>,
    /// Set if a part of the object is left out, which was too large.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The message that it answers, and the mark of a forwarded one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<WrittenContext>,
    /// The advertisement that it was written from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub referral: Option<ReferralData>,
}

/// The context of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenContext {
    /// The message, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// Set if it was written to another person before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forwarded: bool,
}

/// The counts after a change of conversations, by key. They are written in its commit.
#[derive(Default)]
pub(crate) struct ChangedCounts(pub BTreeMap<Vec<u8>, u64>);

impl ChangedCounts {
    pub(crate) fn write(self, context: &mut Context<'_>) {
        for (key, count) in self.0 {
            match count {
                0 => context.delete(Table::Conversations, key),
                count => context.put(Table::Conversations, key, count.to_be_bytes().to_vec()),
            }
        }
    }
}

/// Returns the key prefix of a kind.
pub(crate) fn prefix(workspace: &WorkspaceId, kind: u8) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0, kind]].concat()
}

pub(crate) fn conversation_key(workspace: &WorkspaceId, id: ConversationId) -> Vec<u8> {
    [prefix(workspace, b'c').as_slice(), id.as_bytes()].concat()
}

/// Returns the key of the conversation with a contact over one channel.
pub(super) fn contact_key(workspace: &WorkspaceId, kind: u8, place: u64) -> Vec<u8> {
    [prefix(workspace, kind).as_slice(), &place.to_be_bytes()].concat()
}

/// Returns the kind of the key of the conversation with a contact.
pub(super) const fn kind_of(conversation: &Conversation) -> u8 {
    if conversation.mail.is_some() { BY_MAIL } else { BY_MESSAGE }
}

const BY_MESSAGE: u8 = b'o';
const BY_MAIL: u8 = b'e';

pub(crate) fn messages_prefix(workspace: &WorkspaceId, id: ConversationId) -> Vec<u8> {
    [prefix(workspace, b'm').as_slice(), id.as_bytes()].concat()
}

/// Returns the key of the message that was added last, and written at `at`.
///
/// Providers and mails report whole seconds, so messages of one second are in the order in which
/// they came.
pub(crate) fn message_key(
    workspace: &WorkspaceId,
    conversation: &Conversation,
    message: MessageId,
    at: Timestamp,
) -> Vec<u8> {
    // As an id begins.
    let second = (at.as_secs() * 1000).to_be_bytes();
    let [_, _, second @ ..] = second;
    let prefix = messages_prefix(workspace, conversation.id);
    [&*prefix, &second, &conversation.added.to_be_bytes(), message.as_bytes()].concat()
}

fn active_key(workspace: &WorkspaceId, conversation: &Conversation) -> Vec<u8> {
    let at = conversation.active_at.as_millis().to_be_bytes();
    [prefix(workspace, b'a').as_slice(), &at, conversation.id.as_bytes()].concat()
}

/// Returns the conversation with this id.
pub(crate) fn find(
    context: &Context<'_>,
    id: ConversationId,
) -> Result<Option<Conversation>, Unavailable> {
    context.get_json(Table::Conversations, &conversation_key(&context.core.id, id))
}

/// Returns the conversation with the contact at a place.
pub(crate) fn of_place(
    context: &Context<'_>,
    place: u64,
) -> Result<Option<Conversation>, Unavailable> {
    of_kind(context, BY_MESSAGE, place)
}

/// Returns the conversation by e-mail with the contact at a place.
pub(crate) fn by_mail(
    context: &Context<'_>,
    place: u64,
) -> Result<Option<Conversation>, Unavailable> {
    of_kind(context, BY_MAIL, place)
}

fn of_kind(
    context: &Context<'_>,
    kind: u8,
    place: u64,
) -> Result<Option<Conversation>, Unavailable> {
    let key = contact_key(&context.core.id, kind, place);
    let id = context.get(Table::Conversations, &key)?;
    let id = id.and_then(|id| id.try_into().ok()).map(ConversationId::from_bytes);
    id.map_or(Ok(None), |id| find(context, id))
}

/// Reads the conversation by message with the contact at a place, for a command. Returns its id.
///
/// # Errors
/// [`StoreError`]: the store cannot be read.
pub(crate) fn read_ahead(
    reader: &mut Reader<'_>,
    workspace: &WorkspaceId,
    place: u64,
) -> Result<Option<ConversationId>, StoreError> {
    read_kind_ahead(reader, workspace, BY_MESSAGE, place)
}

/// Reads the conversation by e-mail in the same way.
pub(super) fn read_mail_ahead(
    reader: &mut Reader<'_>,
    workspace: &WorkspaceId,
    place: u64,
) -> Result<(), StoreError> {
    read_kind_ahead(reader, workspace, BY_MAIL, place).map(drop)
}

fn read_kind_ahead(
    reader: &mut Reader<'_>,
    workspace: &WorkspaceId,
    kind: u8,
    place: u64,
) -> Result<Option<ConversationId>, StoreError> {
    let id = reader.get(Table::Conversations, contact_key(workspace, kind, place))?;
    let id = id.and_then(|id| id.try_into().ok()).map(ConversationId::from_bytes);
    if let Some(id) = id {
        reader.get(Table::Conversations, conversation_key(workspace, id))?;
    }
    Ok(id)
}

/// Writes a conversation in place of its old state, and the counts with it.
pub(crate) fn put(
    context: &mut Context<'_>,
    old: Option<&Conversation>,
    new: &Conversation,
    counted: ChangedCounts,
) {
    counted.write(context);
    let workspace = context.core.id.clone();
    match old {
        Some(old) if old.active_at != new.active_at => {
            context.delete(Table::Conversations, active_key(&workspace, old));
        }
        Some(_) => {}
        None => {
            let key = contact_key(&workspace, kind_of(new), place_of(new.contact_id));
            context.put(Table::Conversations, key, new.id.as_bytes().to_vec());
        }
    }
    let assigned_to = new.assigned_to.as_deref().unwrap_or_default().as_bytes();
    let active = [&[new.status.as_byte()], assigned_to].concat();
    context.put(Table::Conversations, active_key(&workspace, new), active);
    context.put_json(Table::Conversations, conversation_key(&workspace, new.id), new);
}

/// Deletes a conversation, except for its messages.
pub(crate) fn delete(context: &mut Context<'_>, conversation: &Conversation) {
    let workspace = context.core.id.clone();
    for key in [
        contact_key(&workspace, kind_of(conversation), place_of(conversation.contact_id)),
        active_key(&workspace, conversation),
        conversation_key(&workspace, conversation.id),
    ] {
        context.delete(Table::Conversations, key);
    }
}

/// Emits an event of a conversation with the contact of this phone.
pub(crate) fn emit(
    context: &mut Context<'_>,
    event: fn(ConversationData) -> EventData,
    conversation: &Conversation,
    phone: Option<Phone>,
) {
    let data = ConversationData {
        conversation_id: conversation.id,
        contact_id: conversation.contact_id,
        phone,
        status: conversation.status.as_str(),
        channel: conversation.channel(),
        assigned_to: conversation.assigned_to.clone(),
        last_message: conversation.last_message.clone(),
        last_message_at: conversation.last_message_at,
        created_at: conversation.created_at,
    };
    context.effects.emit(context.now(), event(data));
}

#[cfg(test)]
mod golden;

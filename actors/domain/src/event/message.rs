//! Pure: the payloads of the events of messages: of numbers, broadcasts and mails.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fields;
use crate::{
    BroadcastId, ContactId, ConversationId, MediaId, MessageId, NumberId, Timestamp, UserId,
};

/// A message that goes out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MessageData {
    /// The message.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub message_id: MessageId,
    /// The broadcast that it is of; its other fields are then reported by the broadcast.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub broadcast_id: Option<BroadcastId>,
    /// Who gets it: a phone in E.164, or of a mail the address. Of a broadcast's message where the
    /// channel reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Who gets it, by the channel's id: of a message that does not go to a phone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub recipient: Option<UserId>,
    /// `email`, or the kind of a message: `text`, `template`, `image`, `video`, `document`,
    /// `audio`, `sticker`, `location`, `contacts`, `reaction` or `interactive`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<&'static str>,
    /// `queued`, `sent`, `held`, `delivered`, `read` or `failed`.
    pub status: &'static str,
    /// The template that it is made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<MessageTemplateData>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<MessageErrorData>,
    /// The number that it leaves through, or left through; left out of a mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub number_id: Option<NumberId>,
    /// What its sender calls it, or calls its broadcast; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What its sender keeps with it, or with its broadcast; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
}

impl MessageData {
    /// The type of a mail.
    pub const EMAIL: &'static str = "email";
}

/// The template of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = UsedTemplate))]
pub struct MessageTemplateData {
    /// Its name.
    #[cfg_attr(feature = "schema", schema(example = "order_update"))]
    pub name: Box<str>,
    /// Its language.
    #[cfg_attr(feature = "schema", schema(example = "en"))]
    pub language: Box<str>,
}

/// Why a message failed.
// Stored events have its fields in this order and without their names: none can be added, moved or
// left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = MessageError))]
pub struct MessageErrorData {
    /// `channel_refused`, `not_sent_in_time`, or of a broadcast's message `cancelled`.
    #[cfg_attr(feature = "schema", schema(example = "channel_refused"))]
    pub reason: Box<str>,
    /// The channel's error code, where it gave one.
    #[cfg_attr(feature = "schema", schema(example = 131_026))]
    pub code: Option<u32>,
    /// The channel's explanation; empty where it gave none.
    pub details: Box<str>,
}

/// A message that came in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MessageReceivedData {
    /// The message.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub message_id: MessageId,
    /// The conversation that it is in.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub conversation_id: ConversationId,
    /// Who wrote it, or has just been made for whoever did.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub contact_id: ContactId,
    /// The number that it came to; left out of a mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub number_id: Option<NumberId>,
    /// `email` of a mail; left out of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<&'static str>,
    /// Who wrote it: a phone in E.164, or of a mail the address; null of somebody who hides the
    /// phone.
    #[cfg_attr(feature = "schema", schema(required))]
    pub from: Option<String>,
    /// The channel's id of whoever wrote it, where that is reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub user_id: Option<UserId>,
    /// The name that they have chosen on the channel, where that is reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<Box<str>>,
    /// The subject of a mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What the sender is called on the channel, where that is reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// `text`, `email`, or what else the channel calls it.
    pub r#type: Box<str>,
    /// Its text, caption or choice. Of what has no words, what can be shown of it, such as the name
    /// of a place; empty where its type says all.
    pub text: Box<str>,
    /// When it was written.
    #[serde(serialize_with = "fields::text")]
    #[cfg_attr(feature = "schema", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
    /// The advertisement that it was written from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub referral: Option<ReferralData>,
    /// The file that it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media: Option<ReceivedMediaData>,
    /// What it has beside its text, in the channel's own form, of at most 16 KiB: a place, cards,
    /// what was chosen, a file with its `media_id`, a reaction with its `message_id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>,
        example = json!({"latitude": 48.85, "longitude": 2.35, "name": "Office"})))]
    pub content: Option<Value>,
    /// `true` where `content` would be larger. Then the last elements of its lists and the ends of
    /// its largest texts are left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "schema", schema(required = false))]
    pub content_truncated: bool,
    /// The message that it answers, or that it was written to somebody else before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<MessageContextData>,
}

/// What a message answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = MessageContext))]
pub struct MessageContextData {
    /// The message that it answers; left out where none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub message_id: Option<MessageId>,
    /// Whether it was written to somebody else before.
    pub forwarded: bool,
}

/// A file that came with a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ReceivedMediaData {
    /// Names it in every call.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub media_id: MediaId,
    /// Its type.
    #[cfg_attr(feature = "schema", schema(example = "image/jpeg"))]
    pub mime_type: String,
    /// Its name, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// `pending`: `media.ready` or `media.failed` follows.
    #[cfg_attr(feature = "schema", schema(example = "pending"))]
    pub state: &'static str,
}

/// An advertisement that led to a message. The message's record has it too, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ReferralData {
    /// `ad` or `post`; empty where the provider does not report it.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, required))]
    pub source_type: Box<str>,
    /// Its id at the provider, likewise.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, required))]
    pub source_id: Box<str>,
    /// Its headline, where the provider reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headline: Option<Box<str>>,
    /// What it says, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Box<str>>,
    /// Its address, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_url: Option<Box<str>>,
    /// The provider's id of the click, which conversions are reported with, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ctwa_clid: Option<Box<str>>,
}

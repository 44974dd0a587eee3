//! Pure: the payloads of the events of messages, those of numbers, broadcasts and mails alike.

use std::collections::BTreeMap;

use serde::Serialize;

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
    /// The broadcast that it is of; its other fields are then told by the broadcast.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub broadcast_id: Option<BroadcastId>,
    /// Who gets it: a phone in E.164, or of a mail the address. Of a broadcast's message where the
    /// channel tells it.
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
    /// The number that it leaves through; left out of a mail, and of a broadcast's message.
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

    /// Whether a workspace's number sends it by itself: it is no mail and of no broadcast.
    pub(super) fn is_of_number(&self) -> bool {
        self.broadcast_id.is_none() && self.r#type != Some(Self::EMAIL)
    }
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
    /// The channel's id of whoever wrote it, where it tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub user_id: Option<UserId>,
    /// The name that they have chosen on the channel, where it tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<Box<str>>,
    /// The subject of a mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What the sender is called on the channel, where it tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// `text`, `email`, or what else the channel calls it.
    pub r#type: Box<str>,
    /// Its text; of what is not text, what can be shown of it.
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

/// An advertisement that led to a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ReferralData {
    /// `ad` or `post`.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, required))]
    pub source_type: Box<str>,
    /// Its id at the provider.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, required))]
    pub source_id: Box<str>,
    /// Its headline, where the provider tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headline: Option<Box<str>>,
}

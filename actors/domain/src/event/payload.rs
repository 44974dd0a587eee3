//! Pure: the payloads of public events, by what they are about.
//!
//! The events of messages and of one-time passwords have payloads in files of their own. A field
//! whose stored form is not its JSON form names the function that writes it.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::template::{TemplateCategory, TemplateQuality, TemplateStatus};
use crate::{
    BroadcastId, ContactId, ContactName, ConversationId, Email, MediaId, MessageId, NumberId,
    OptOutSource, Phone, Tags, Timestamp, UserId, WebhookId,
};

/// A broadcast.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BroadcastData {
    /// The broadcast.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub broadcast_id: BroadcastId,
    /// What it is called.
    pub name: Box<str>,
    /// `scheduled`, `queued`, `sending`, `paused`, `completed`, `cancelled` or `failed`.
    pub status: &'static str,
    /// To how many it goes.
    pub total_recipients: u32,
    /// Why it is where it is, if nobody asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<str>>,
    /// What its sender calls it; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What its sender keeps with it; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
}

/// A broadcast all of which has been handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BroadcastCompletedData {
    /// The broadcast.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub broadcast_id: BroadcastId,
    /// What it is called.
    pub name: Box<str>,
    /// `completed`.
    pub status: &'static str,
    /// To how many it goes.
    pub total_recipients: u32,
    /// Why it was paused before, if nobody asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<str>>,
    /// What has become of its recipients so far, each counted once.
    pub counts: CompletedCounts,
    /// What its sender calls it; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What its sender keeps with it; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
}

/// Recipients of a broadcast that is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CompletedCounts {
    /// The channel took the message and holds it back: it may send it later, or drop it.
    pub held: u32,
    /// The channel took the message; whether it arrives is reported by `message.delivered`.
    pub sent: u32,
    /// It was refused, or reported as failed.
    pub failed: u32,
    /// It was handed over and no answer came.
    pub unknown: u32,
    /// The phone had opted out.
    pub suppressed: u32,
}

/// A phone that wants no marketing and no broadcasts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OptedOutData {
    /// The phone, in E.164; null of somebody who is known by the channel's id alone.
    #[serde(serialize_with = "text_or_null")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, required))]
    pub phone: Option<Phone>,
    /// The channel's id of the person, where that is what opted out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub user_id: Option<UserId>,
    /// Whose it is, if anybody's.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub contact_id: Option<ContactId>,
    /// Why, if somebody said so.
    pub reason: Option<String>,
    /// What opted it out.
    pub source: OptOutSource,
}

/// A phone that had opted out and wants messages again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OptedInData {
    /// The phone, in E.164; null of somebody who is known by the channel's id alone.
    #[serde(serialize_with = "text_or_null")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, required))]
    pub phone: Option<Phone>,
    /// The channel's id of the person, where that is what had opted out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub user_id: Option<UserId>,
    /// Whose it is, if anybody's.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub contact_id: Option<ContactId>,
}

/// A contact, as it is now; of a deleted one, as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ContactData {
    /// The contact.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub contact_id: ContactId,
    /// What it is called.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub name: ContactName,
    /// Its phone, in E.164.
    #[serde(serialize_with = "text_or_null")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, required))]
    pub phone: Option<Phone>,
    /// The channel's id of the person.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, required))]
    pub user_id: Option<UserId>,
    /// The name that the person has chosen on the channel.
    #[cfg_attr(feature = "schema", schema(required))]
    pub username: Option<Box<str>>,
    /// The phone that it had before this change, if the change is of the phone.
    #[serde(serialize_with = "text_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub previous_phone: Option<Phone>,
    /// The channel's id that it had before this change, if the change is of the id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub previous_user_id: Option<UserId>,
    /// Its e-mail address.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, required))]
    pub email: Option<Email>,
    /// Its tags.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub tags: Tags,
    /// Whatever else is known of it.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub custom_fields: Value,
    /// When it was made.
    #[serde(serialize_with = "as_text")]
    #[cfg_attr(feature = "schema", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// When it was last changed.
    #[serde(serialize_with = "as_text")]
    #[cfg_attr(feature = "schema", schema(value_type = String, format = DateTime))]
    pub updated_at: Timestamp,
}

/// Two contacts that turned out to be one person, and are one from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ContactMergedData {
    /// The contact that stays.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub contact_id: ContactId,
    /// The contact that it took over; its id names the one that stays.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub merged_contact_id: ContactId,
}

/// A conversation, as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ConversationData {
    /// The conversation.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub conversation_id: ConversationId,
    /// With whom.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub contact_id: ContactId,
    /// The contact's phone, in E.164.
    #[serde(serialize_with = "text_or_null")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, required))]
    pub phone: Option<Phone>,
    /// `open`, `pending` or `resolved`.
    pub status: &'static str,
    /// `messaging` or `email`
    pub channel: &'static str,
    /// The agent who sees to it.
    #[cfg_attr(feature = "schema", schema(required))]
    pub assigned_to: Option<String>,
    /// What was written last, its first 200 characters.
    pub last_message: String,
    /// When.
    #[serde(serialize_with = "as_text")]
    #[cfg_attr(feature = "schema", schema(value_type = String, format = DateTime))]
    pub last_message_at: Timestamp,
    /// When it was made.
    #[serde(serialize_with = "as_text")]
    #[cfg_attr(feature = "schema", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
}

/// A file that came in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MediaData {
    /// The file.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub media_id: MediaId,
    /// The message that it came with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub message_id: Option<MessageId>,
    /// Its type.
    #[cfg_attr(feature = "schema", schema(example = "image/jpeg"))]
    pub mime_type: String,
    /// Its name, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// Its length in bytes, once it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The SHA-256 of its content, in hexadecimal, once it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Why its content is not there and will not be: `refused`, `too_large`, `altered`,
    /// `untrusted_host`, `media_full` or `expired`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<str>>,
}

/// A number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NumberData {
    /// The number.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub number_id: NumberId,
}

/// A number of which something is otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NumberChangedData {
    /// The number.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub number_id: NumberId,
    /// What: `pace`, `quality`, `name_status` or `limit`.
    pub field: &'static str,
    /// What it was, a number in digits; null if that was not known.
    #[cfg_attr(feature = "schema", schema(required))]
    pub previous: Option<Box<str>>,
    /// What it is, a number in digits.
    pub value: Box<str>,
}

/// A portfolio of numbers that may write to nobody else for now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LimitReachedData {
    /// The portfolio.
    pub portfolio_id: Box<str>,
    /// How many people it may write to first within 24 hours.
    #[cfg_attr(feature = "schema", schema(required))]
    pub daily_recipients: Option<u32>,
    /// When it may write to the next one.
    #[serde(serialize_with = "text_or_null")]
    #[cfg_attr(feature = "schema", schema(required, value_type = Option<String>, format = DateTime))]
    pub frees_at: Option<Timestamp>,
}

/// A portfolio of numbers that may write to others again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LimitFreedData {
    /// The portfolio.
    pub portfolio_id: Box<str>,
    /// How many people it may write to first within 24 hours; null for as many as one likes.
    #[cfg_attr(feature = "schema", schema(required))]
    pub daily_recipients: Option<u32>,
}

/// A number whose account cannot send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NumberStoppedData {
    /// The number.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub number_id: NumberId,
    /// The channel's own error code, where it gave one.
    #[cfg_attr(feature = "schema", schema(required))]
    pub error_code: Option<u32>,
    /// What the channel says.
    pub reason: Box<str>,
}

/// An error of the channel that concerns more than one message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChannelErrorData {
    /// The number that it happened to.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub number_id: NumberId,
    /// The channel's own error code, where it gave one.
    #[cfg_attr(feature = "schema", schema(required))]
    pub error_code: Option<u32>,
    /// The channel's name for the error, where it gave one.
    #[cfg_attr(feature = "schema", schema(required))]
    pub title: Option<Box<str>>,
    /// The channel's explanation; empty where it gave none.
    pub details: Box<str>,
}

/// Items of callbacks that nothing was taken from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChannelIgnoredData {
    /// The number that they were about.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub number_id: NumberId,
    /// The field of the callbacks: one that the channel documents, or `other`.
    pub field: &'static str,
    /// Why nothing was taken: `unknown_field`, `unknown_type`, `unreadable` or `no_sender`.
    pub reason: &'static str,
    /// How many came since the last such event of the number, field and reason.
    pub count: u64,
}

/// A template whose status has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TemplateStatusData {
    /// Its name.
    pub name: Box<str>,
    /// Its language.
    pub language: Box<str>,
    /// `utility`, `marketing` or `authentication`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub category: TemplateCategory,
    /// Its status now.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub status: TemplateStatus,
    /// Its status before.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub previous_status: TemplateStatus,
    /// The account whose template it is; left out where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_id: Option<Box<str>>,
}

/// A template that the channel has put into another category.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TemplateCategoryData {
    /// Its name.
    pub name: Box<str>,
    /// Its language.
    pub language: Box<str>,
    /// Its category before.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub previous: TemplateCategory,
    /// Its category now, which the price and the opt-out rule of new messages follow.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub category: TemplateCategory,
    /// The account whose template it is; left out where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_id: Option<Box<str>>,
}

/// A template that the channel rates differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TemplateQualityData {
    /// Its name.
    pub name: Box<str>,
    /// Its language.
    pub language: Box<str>,
    /// Its quality before: `green`, `yellow`, `red` or `unknown`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub previous: TemplateQuality,
    /// Its quality now.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub quality: TemplateQuality,
    /// The account whose template it is; left out where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_id: Option<Box<str>>,
}

/// A webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WebhookData {
    /// The webhook.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub webhook_id: WebhookId,
}

/// A webhook that is sent nothing more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WebhookDisabledData {
    /// The webhook.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub webhook_id: WebhookId,
    /// `gone`: its endpoint answered 410. `failing`: nothing arrived for days.
    pub reason: &'static str,
}

/// Writes a phone or a time as its text. Records store both as integers.
pub(super) fn as_text<T: Display, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Writes a phone as its text, and null if it is not known.
pub(super) fn phone_or_null<S: Serializer>(
    phone: &Phone,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    text_or_null(&phone.known(), serializer)
}

/// Writes the text of a value that may be absent. An absent value is null.
pub(super) fn text_or_null<T: Display, S: Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.as_ref().map(ToString::to_string).serialize(serializer)
}

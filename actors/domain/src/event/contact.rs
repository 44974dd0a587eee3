//! Pure: the payloads of the events of contacts and their opt-outs.

use serde::Serialize;
use serde_json::Value;

use super::fields;
use crate::{ContactId, ContactName, Email, OptOutSource, Phone, Tags, Timestamp, UserId};

/// A phone that wants no marketing and no broadcasts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OptedOutData {
    /// The phone, in E.164; null of somebody who is known by the channel's id alone.
    #[serde(serialize_with = "fields::optional_text")]
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
    #[serde(serialize_with = "fields::optional_text")]
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
    #[serde(serialize_with = "fields::optional_text")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, required))]
    pub phone: Option<Phone>,
    /// The channel's id of the person.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, required))]
    pub user_id: Option<UserId>,
    /// The name that the person has chosen on the channel.
    #[cfg_attr(feature = "schema", schema(required))]
    pub username: Option<Box<str>>,
    /// The phone that it had before this change, if the change is of the phone.
    #[serde(serialize_with = "fields::optional_text", skip_serializing_if = "Option::is_none")]
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
    #[serde(serialize_with = "fields::text")]
    #[cfg_attr(feature = "schema", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// When it was last changed.
    #[serde(serialize_with = "fields::text")]
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

//! Pure: the payload of the events of conversations.

use serde::Serialize;

use super::fields;
use crate::{ContactId, ConversationId, Phone, Timestamp};

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
    #[serde(serialize_with = "fields::optional_text")]
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
    #[serde(serialize_with = "fields::text")]
    #[cfg_attr(feature = "schema", schema(value_type = String, format = DateTime))]
    pub last_message_at: Timestamp,
    /// When it was made.
    #[serde(serialize_with = "fields::text")]
    #[cfg_attr(feature = "schema", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
}

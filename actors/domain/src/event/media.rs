//! Pure: the payload of the events of received files.

use serde::Serialize;

use crate::{MediaId, MessageId};

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

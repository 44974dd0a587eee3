//! What a message that came in has beside its text, as its conversation keeps it.

use postrider_domain::MessageId;
use postrider_domain::event::message::ReferralData;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a message has beside its text. This is a part of its record too, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenContent {
    /// Its object in the channel's own form, with our ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<Value>,
    /// Whether something of the object is left out, which was too large.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Which message it answers, and whether it was written to somebody else before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<WrittenContext>,
    /// The advertisement that it was written from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub referral: Option<ReferralData>,
}

/// What a message answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenContext {
    /// The message, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// Whether it was written to somebody else before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forwarded: bool,
}

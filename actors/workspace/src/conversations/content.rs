//! The content of an incoming message beside its text, in the form for its conversation.

use postrider_domain::MessageId;
use postrider_domain::event::message::ReferralData;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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

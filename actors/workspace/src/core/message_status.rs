//! Pure: how far a message has come.

use serde::{Deserialize, Serialize};

/// How far a message has come; each is further than those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageStatus {
    /// Durable, not yet taken by the channel.
    Queued,
    /// It was handed over and no answer came.
    Unknown,
    /// The channel took it.
    Sent,
    /// It is on the recipient's device.
    Delivered,
    /// The recipient has opened it.
    Read,
    /// It was not delivered, and what was paid for it was given back.
    Failed,
}

impl MessageStatus {
    /// The status as a body spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Unknown => "unknown",
            Self::Sent => "sent",
            Self::Delivered => "delivered",
            Self::Read => "read",
            Self::Failed => "failed",
        }
    }

    /// What somebody is answered who waits for what becomes of the message.
    pub(crate) const fn as_answer(self) -> Self {
        match self {
            Self::Sent | Self::Delivered | Self::Read => Self::Sent,
            Self::Failed => Self::Failed,
            // A lost answer is none: it stays to be settled.
            Self::Queued | Self::Unknown => Self::Queued,
        }
    }
}

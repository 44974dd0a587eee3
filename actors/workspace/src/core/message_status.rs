//! Pure: the status of a message.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

/// The status of a message. The order of the variants is that on disk; [`Ord`] orders by progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The channel took it and holds it back: it may send it later, or drop it.
    Held,
}

impl Ord for MessageStatus {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for MessageStatus {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl MessageStatus {
    const fn rank(self) -> u8 {
        match self {
            Self::Queued => 0,
            Self::Unknown => 1,
            Self::Held => 2,
            Self::Sent => 3,
            Self::Delivered => 4,
            Self::Read => 5,
            Self::Failed => 6,
        }
    }

    /// Returns the status as a body spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Unknown => "unknown",
            Self::Held => "held",
            Self::Sent => "sent",
            Self::Delivered => "delivered",
            Self::Read => "read",
            Self::Failed => "failed",
        }
    }

    /// Returns the status that a caller gets who waits for the outcome of the message.
    pub(crate) const fn as_answer(self) -> Self {
        match self {
            Self::Sent | Self::Delivered | Self::Read => Self::Sent,
            Self::Held | Self::Failed => self,
            // A lost answer is none: it stays to be settled.
            Self::Queued | Self::Unknown => Self::Queued,
        }
    }
}

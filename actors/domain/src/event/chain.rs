//! Pure: the steps through which a code may reach its person, and the status of each try.

use serde::{Deserialize, Serialize};

use super::Delivery;

/// A channel by which a code reaches its person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OtpChannel {
    /// The chat-app channel.
    Messaging,
    /// An SMS gateway.
    Sms,
    /// Mail.
    Email,
}

impl OtpChannel {
    /// All channels.
    pub const ALL: [Self; 3] = [Self::Messaging, Self::Sms, Self::Email];

    /// Returns the channel's name: `messaging`, `sms` or `email`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Messaging => "messaging",
            Self::Sms => "sms",
            Self::Email => "email",
        }
    }

    /// Returns the channel of this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == name)
    }
}

/// One step of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainStep {
    /// The channel of the step.
    pub channel: OtpChannel,
    /// The seconds after which the next step starts, unless a delivery is known.
    pub timeout_seconds: u16,
}

impl ChainStep {
    /// The maximum number of steps of a chain.
    pub const MAX: usize = 3;
    /// The shortest time of a step, in seconds.
    pub const SECONDS_MIN: u16 = 10;
    /// The longest time of a step, in seconds.
    pub const SECONDS_MAX: u16 = 300;
}

/// The plan of the steps through which a code is to reach its person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainPlan {
    /// The steps in order; no channel occurs twice.
    pub steps: Vec<ChainStep>,
    /// The address of a step by mail.
    pub email: Option<String>,
    /// Set for a resend over one channel: the steps of the request itself stay.
    pub only: bool,
    /// The price of each message that the request has had so far without a chain.
    pub adopts: Option<u64>,
}

/// The status of one try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TryStatus {
    /// It is claimed and paid. The channel has not answered.
    Queued,
    /// The channel took it.
    Sent,
    /// It arrived.
    Delivered,
    /// It was opened.
    Read,
    /// The channel refused it, or surely did not take it.
    Failed,
    /// It may have been taken: no answer came.
    Unknown,
    /// It was not started.
    Skipped,
}

impl TryStatus {
    /// All statuses.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Sent,
        Self::Delivered,
        Self::Read,
        Self::Failed,
        Self::Unknown,
        Self::Skipped,
    ];

    /// Returns the status's name in rows and events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Sent => "sent",
            Self::Delivered => "delivered",
            Self::Read => "read",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Skipped => "skipped",
        }
    }

    /// Returns whether the code has reached its person.
    #[must_use]
    pub const fn has_arrived(self) -> bool {
        matches!(self, Self::Delivered | Self::Read)
    }

    /// Returns whether the channel may report `later` after this status.
    #[must_use]
    pub const fn may_become(self, later: Self) -> bool {
        match self {
            Self::Queued => !matches!(later, Self::Queued | Self::Skipped),
            Self::Unknown => {
                matches!(later, Self::Sent | Self::Delivered | Self::Read | Self::Failed)
            }
            Self::Sent => matches!(later, Self::Delivered | Self::Read | Self::Failed),
            Self::Delivered => matches!(later, Self::Read),
            Self::Read | Self::Failed | Self::Skipped => false,
        }
    }

    /// Returns the better of two statuses, by how near the code came to its person.
    #[must_use]
    pub fn best(self, other: Self) -> Self {
        let rank = |it| match it {
            Self::Skipped => 0,
            Self::Failed => 1,
            Self::Queued => 2,
            Self::Unknown => 3,
            Self::Sent => 4,
            Self::Delivered => 5,
            Self::Read => 6,
        };
        if rank(other) > rank(self) { other } else { self }
    }

    /// Returns the try's status for the status of a message.
    #[must_use]
    pub const fn of(delivery: Delivery) -> Self {
        match delivery {
            Delivery::Queued => Self::Queued,
            Delivery::Sent => Self::Sent,
            Delivery::Delivered => Self::Delivered,
            Delivery::Read => Self::Read,
            Delivery::Failed => Self::Failed,
            Delivery::Unknown => Self::Unknown,
        }
    }

    /// Returns the request's delivery status for this status.
    #[must_use]
    pub const fn delivery(self) -> Delivery {
        match self {
            Self::Queued => Delivery::Queued,
            Self::Sent => Delivery::Sent,
            Self::Delivered => Delivery::Delivered,
            Self::Read => Delivery::Read,
            Self::Failed | Self::Skipped => Delivery::Failed,
            Self::Unknown => Delivery::Unknown,
        }
    }
}

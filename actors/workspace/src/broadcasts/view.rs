//! Pure: what callers see of a broadcast: its status, its counts and its recipients.

use serde::{Deserialize, Serialize};

use postrider_broadcast::outcomes::{Failed, Mark};
use postrider_broadcast::record::{BroadcastPolicy, BroadcastStatus, Record};
use postrider_broadcast::reports::Report;
use postrider_domain::template::{TemplateCategory, TemplateName};
use postrider_domain::{BroadcastId, MessageId, Phone, SenderNotes, Timestamp};

/// A broadcast.
#[derive(Debug, Clone, PartialEq)]
pub struct Broadcast {
    /// Its id.
    pub id: BroadcastId,
    /// Its name, for people.
    pub name: Box<str>,
    /// The template that it sends.
    pub template: TemplateName,
    /// The template's category when it was made.
    pub category: TemplateCategory,
    /// Credits for each recipient, reserved when it was made.
    pub price: u64,
    /// What becomes of messages whose outcome a crash has swallowed.
    pub policy: BroadcastPolicy,
    /// Where it stands.
    pub status: BroadcastStatus,
    /// Why it was paused or ended, unless somebody asked for it.
    pub reason: Option<Box<str>>,
    /// Its recipients.
    pub total_recipients: u32,
    /// What became of them.
    pub counts: BroadcastCounts,
    /// Answers a second since it began; `None` before.
    pub rate_per_second: Option<f64>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it is or was to begin, unless at once.
    pub schedule_at: Option<Timestamp>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it goes on, while it waits for the budget of its numbers' portfolio.
    pub resumes_at: Option<Timestamp>,
    /// When it was over.
    pub finished_at: Option<Timestamp>,
    /// The broadcast whose failed recipients it sends to again.
    pub retry_of: Option<BroadcastId>,
    /// The one that sends to its failed recipients again.
    pub retried_by: Option<BroadcastId>,
    /// What its sender notes of it.
    pub notes: SenderNotes,
}

macro_rules! statuses {
    ($($(#[$doc:meta])* $variant:ident $field:ident;)*) => {
        /// What became of a recipient.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum RecipientStatus { $($(#[$doc])* $variant,)* }

        /// Recipients by what became of them: each is in one, and they add up to all.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[serde(default)]
        pub struct BroadcastCounts { $($(#[$doc])* pub $field: u32,)* }

        impl RecipientStatus {
            /// Every status.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The status as an answer spells it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($field),)* }
            }
        }

        impl BroadcastCounts {
            pub(crate) const fn of(&mut self, status: RecipientStatus) -> &mut u32 {
                match status { $(RecipientStatus::$variant => &mut self.$field,)* }
            }
        }
    };
}

statuses! {
    /// Not sent yet, or the channel has not answered yet.
    Pending pending;
    /// The channel took it and holds it back: it may send it later, or drop it.
    Held held;
    /// The channel took it.
    Sent sent;
    /// It is on the recipient's device.
    Delivered delivered;
    /// The recipient has opened it.
    Read read;
    /// It was not sent, and never will be.
    Failed failed;
    /// It was handed over and no answer came.
    Unknown unknown;
    /// The recipient has opted out.
    Suppressed suppressed;
    /// The broadcast ended before it was sent.
    Cancelled cancelled;
}

/// One recipient of a broadcast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipientRow {
    /// Who.
    pub to: Phone,
    /// The message to it; `None` for one that gets none.
    pub message_id: Option<MessageId>,
    /// What became of it.
    pub status: RecipientStatus,
    /// Why it failed, if it did.
    pub error: Option<RecipientError>,
}

/// Why a message to a recipient failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipientError {
    /// `channel_refused` or `not_sent_in_time`.
    pub reason: &'static str,
    /// The channel's own error code, where it gave one.
    pub code: Option<u32>,
    /// The channel's explanation; empty where it gave none.
    pub details: Box<str>,
}

impl From<Failed> for RecipientError {
    fn from(failed: Failed) -> Self {
        let reason = if failed.refused { "channel_refused" } else { "not_sent_in_time" };
        Self { reason, code: failed.code, details: failed.details }
    }
}

/// A page of recipients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipientsPage {
    /// The rows of the page.
    pub rows: Vec<RecipientRow>,
    /// Rows of all pages.
    pub total: usize,
}

impl RecipientStatus {
    /// Whether the message is paid for: it is or may be with the recipient.
    pub(crate) const fn is_paid(self) -> bool {
        match self {
            Self::Held | Self::Sent | Self::Delivered | Self::Read | Self::Unknown => true,
            Self::Pending | Self::Failed | Self::Suppressed | Self::Cancelled => false,
        }
    }
}

impl BroadcastCounts {
    /// Recipients whose messages are paid for.
    pub(crate) fn paid(mut self) -> u32 {
        let paid = RecipientStatus::ALL.iter().filter(|status| status.is_paid());
        paid.map(|status| *self.of(*status)).sum()
    }

    /// Recipients that the channel has answered for, or will not.
    pub(crate) fn concluded(&self) -> u32 {
        self.held + self.sent + self.delivered + self.read + self.failed + self.unknown
    }
}

/// What is said of a recipient that is not sent to yet.
pub(crate) const fn unsent(record: &Record) -> RecipientStatus {
    match record.status.is_over() {
        true => RecipientStatus::Cancelled,
        false => RecipientStatus::Pending,
    }
}

/// What became of a recipient, by its outcome and what was reported later.
pub(crate) const fn status_of(
    record: &Record,
    mark: Mark,
    report: Option<Report>,
) -> RecipientStatus {
    match (report, mark) {
        (Some(Report::Failed), _) => RecipientStatus::Failed,
        (Some(Report::Read), _) => RecipientStatus::Read,
        (Some(Report::Delivered), _) => RecipientStatus::Delivered,
        // A report also settles what nobody knew.
        (Some(Report::Sent), _) | (None, Mark::Sent) => RecipientStatus::Sent,
        (None, Mark::Claimed) if record.settled => RecipientStatus::Unknown,
        (None, Mark::Claimed) => RecipientStatus::Pending,
        (None, Mark::Retry) => unsent(record),
        (None, Mark::Held) => RecipientStatus::Held,
        (None, Mark::Failed) => RecipientStatus::Failed,
        (None, Mark::Unknown) => RecipientStatus::Unknown,
        (None, Mark::OptedOut) => RecipientStatus::Suppressed,
    }
}

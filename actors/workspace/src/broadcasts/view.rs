//! Pure: a broadcast for callers: its status, counts and recipients, and the credits for them.

use postrider_broadcast::outcomes::{Failed, Mark, Report};
use postrider_broadcast::record::{BroadcastPolicy, BroadcastStatus, Record};
use postrider_domain::template::{TemplateCategory, TemplateName};
use postrider_domain::{BroadcastId, MessageId, Phone, SenderNotes, Timestamp};
use serde::{Deserialize, Serialize};

use crate::core::credits::balance_after;

/// A broadcast.
#[derive(Debug, Clone, PartialEq)]
pub struct Broadcast {
    /// Its id.
    pub id: BroadcastId,
    /// Its name, for people.
    pub name: Box<str>,
    /// The template that it sends.
    pub template: TemplateName,
    /// The template's category at its creation.
    pub category: TemplateCategory,
    /// The credits for each recipient, reserved at its creation.
    pub price: u64,
    /// The policy for messages whose outcome was lost in a crash.
    pub policy: BroadcastPolicy,
    /// The status.
    pub status: BroadcastStatus,
    /// The reason for its pause or end, unless a caller asked for it.
    pub reason: Option<Box<str>>,
    /// The number of its recipients.
    pub total_recipients: u32,
    /// The counts of its recipients by status.
    pub counts: BroadcastCounts,
    /// The answers a second since its start; `None` before.
    pub rate_per_second: Option<f64>,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The planned time of its start, unless at once.
    pub schedule_at: Option<Timestamp>,
    /// The time of its start.
    pub started_at: Option<Timestamp>,
    /// The time at which it goes on, while it waits for the budget of its numbers' portfolio.
    pub resumes_at: Option<Timestamp>,
    /// The time of its end.
    pub finished_at: Option<Timestamp>,
    /// The broadcast whose failed recipients it sends to again.
    pub retry_of: Option<BroadcastId>,
    /// The broadcast that sends to its failed recipients again.
    pub retried_by: Option<BroadcastId>,
    /// The sender's notes.
    pub notes: SenderNotes,
}

macro_rules! statuses {
    ($($(#[$doc:meta])* $variant:ident $field:ident;)*) => {
        /// The outcome for a recipient.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum RecipientStatus { $($(#[$doc])* $variant,)* }

        /// The counts of recipients by status: each is in one, and they add up to all.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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
    /// The phone of the recipient.
    pub to: Phone,
    /// The message to the recipient; `None` if there is none.
    pub message_id: Option<MessageId>,
    /// The status of the recipient.
    pub status: RecipientStatus,
    /// The reason for the failure, if it failed.
    pub error: Option<RecipientError>,
}

/// The reason why a message to a recipient failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipientError {
    /// `channel_refused` or `not_sent_in_time`.
    pub reason: &'static str,
    /// The channel's own error code, if it gave one.
    pub code: Option<u32>,
    /// The channel's explanation; empty if it gave none.
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
    /// Returns whether the message is paid for: it is or may be with the recipient.
    pub(crate) const fn is_paid(self) -> bool {
        match self {
            Self::Held | Self::Sent | Self::Delivered | Self::Read | Self::Unknown => true,
            Self::Pending | Self::Failed | Self::Suppressed | Self::Cancelled => false,
        }
    }
}

impl BroadcastCounts {
    /// Returns the number of recipients whose messages are paid for.
    pub(crate) fn paid(mut self) -> u32 {
        let paid = RecipientStatus::ALL.iter().filter(|status| status.is_paid());
        paid.map(|status| *self.of(*status)).sum()
    }

    /// Returns the number of recipients that the channel has answered for, or will not.
    pub(crate) fn concluded(&self) -> u32 {
        self.held + self.sent + self.delivered + self.read + self.failed + self.unknown
    }
}

/// Returns the status of a recipient that is not sent to yet.
pub(crate) const fn unsent(record: &Record) -> RecipientStatus {
    match record.status.is_over() {
        true => RecipientStatus::Cancelled,
        false => RecipientStatus::Pending,
    }
}

/// Returns the status of a recipient, by its outcome and the later report.
pub(crate) const fn status_of(
    record: &Record,
    mark: Mark,
    report: Option<Report>,
) -> RecipientStatus {
    match (report, mark) {
        (Some(Report::Failed), _) => RecipientStatus::Failed,
        (Some(Report::Read), _) => RecipientStatus::Read,
        (Some(Report::Delivered), _) => RecipientStatus::Delivered,
        // A report also settles an unknown outcome.
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

/// Returns the credits after a report on one message with this outcome and the earlier `before`.
///
/// While a broadcast is not settled, its credits are reserved, and the settling counts every
/// message once. From then on, a report that changes whether its message is paid for moves the
/// message's price.
pub(super) fn credits_after(
    credits: u64,
    record: &Record,
    mark: Option<Mark>,
    (before, now): (Option<Report>, Report),
) -> u64 {
    let Some(mark) = mark.filter(|_| record.settled) else { return credits };
    let is_paid = |report| status_of(record, mark, report).is_paid();
    balance_after(credits, record.price, (is_paid(before), is_paid(Some(now))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broadcasts::BroadcastCounts;
    use postrider_broadcast::outcomes::Reports;
    use proptest::prelude::*;
    use serde_json::json;

    const MESSAGES: usize = 4;
    const PRICE: u64 = 3;
    const BEGIN: u64 = 1000;

    fn record(settled: bool) -> Record {
        let status = if settled { "completed" } else { "sending" };
        serde_json::from_value(json!({
            "id": "brd_01hf7yat3v041061050r3gg28a", "name": "Spring",
            "template": {"name": "offer", "language": "en"}, "category": "marketing",
            "policy": "at_least_once", "status": status, "reason": null, "total": MESSAGES,
            "sendable": MESSAGES, "price": PRICE, "number": "num_01hf7yat3v041061050r3gg28b",
            "definition": [], "components": [], "personal": false, "created_at": 0,
            "schedule_at": null, "started_at": 0, "finished_at": null, "retry_of": null,
            "settled": settled,
        }))
        .unwrap()
    }

    fn counts(record: &Record, marks: &[Mark], reports: &Reports) -> BroadcastCounts {
        let mut counts = BroadcastCounts::default();
        for (at, mark) in marks.iter().enumerate() {
            *counts.of(status_of(record, *mark, reports.of(at))) += 1;
        }
        counts
    }

    #[derive(Debug, Clone)]
    enum Step {
        /// The message gets this outcome, unless it has a final one.
        Outcome(usize, Mark),
        Report(usize, Report),
        Settle,
    }

    fn step() -> impl Strategy<Value = Step> {
        let place = 0..MESSAGES;
        let marks =
            vec![Mark::Retry, Mark::Sent, Mark::Held, Mark::Failed, Mark::Unknown, Mark::OptedOut];
        let reports = vec![Report::Sent, Report::Delivered, Report::Read, Report::Failed];
        prop_oneof![
            4 => (place.clone(), prop::sample::select(marks)).prop_map(|(at, it)| Step::Outcome(at, it)),
            4 => (place, prop::sample::select(reports)).prop_map(|(at, it)| Step::Report(at, it)),
            1 => Just(Step::Settle),
        ]
    }

    proptest! {
        #[test]
        fn what_is_paid_is_the_price_of_what_was_sent_and_did_not_fail(
            steps in prop::collection::vec(step(), 0..30),
        ) {
            let (mut marks, mut reports) = ([Mark::Claimed; MESSAGES], Reports::default());
            let (mut credits, mut settled) = (BEGIN - PRICE * MESSAGES as u64, false);
            let settle = |credits: &mut u64, marks: &[Mark], reports: &Reports| {
                let unpaid = MESSAGES as u64 - u64::from(counts(&record(true), marks, reports).paid());
                *credits += unpaid * PRICE;
            };
            for step in steps {
                match step {
                    Step::Outcome(at, mark) if !settled && !marks[at].is_final() => marks[at] = mark,
                    Step::Outcome(..) => {}
                    Step::Report(at, report) => {
                        let before = reports.of(at);
                        if reports.take(at, report, None) {
                            let known = (before, report);
                            credits = credits_after(credits, &record(settled), Some(marks[at]), known);
                        }
                    }
                    Step::Settle if settled => {}
                    Step::Settle => {
                        settle(&mut credits, &marks, &reports);
                        settled = true;
                    }
                }
            }
            if !settled {
                settle(&mut credits, &marks, &reports);
            }
            let counts = counts(&record(true), &marks, &reports);
            let sent = counts.held + counts.sent + counts.delivered + counts.read + counts.unknown;
            prop_assert_eq!(BEGIN - credits, PRICE * u64::from(sent));
        }
    }
}

//! Pure: what a number reports to its workspace besides the outcomes of messages.

use std::time::Duration;

use hashbrown::HashSet;

use postrider_channel::Failure;
use postrider_domain::{Phone, Timestamp};

/// Most names that are remembered as reported.
const NAMES_MAX: usize = 10_000;
/// A name is reported again after this time: the workspace deletes names with their contact.
const REPORT_AGAIN_AFTER: Duration = Duration::from_secs(600);

/// What happened to a number. The workspace must record it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NumberNotice {
    /// Its account cannot send: its queue waits.
    Stopped(Failure),
    /// It sends again, after [`Stopped`](Self::Stopped).
    Recovered,
    /// Several recipients in a row were refused with this code, which nobody knows.
    Unrecognized(Failure),
    /// The channel's outcomes have revealed this about recipients.
    Recipients(Vec<Recipient>),
}

impl NumberNotice {
    /// What it is, for the log: it has neither phones nor the provider's words.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Stopped(_) => "stopped",
            Self::Recovered => "recovered",
            Self::Unrecognized(_) => "unrecognized code",
            Self::Recipients(_) => "recipients",
        }
    }
}

/// What an outcome reveals about the recipient of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipient {
    /// The provider knows the recipient by another phone number.
    KnownAs {
        /// The phone that the message was sent to.
        phone: Phone,
        /// The number by which the provider knows whoever has that phone.
        known_as: Phone,
        /// When the message was accepted from the caller.
        at: Timestamp,
    },
    /// The recipient has opted out of marketing.
    StoppedMarketing(Phone),
}

/// Names that were reported lately. The provider repeats them with every message, and a report
/// costs a commit.
#[derive(Debug, Default)]
pub(super) struct ReportedNames {
    names: HashSet<(Phone, Phone)>,
    since: Timestamp,
}

impl ReportedNames {
    /// Whether it must be reported that the provider knows `phone` as `known_as`. The caller must
    /// then do so: the name counts as reported from now on.
    pub(super) fn must_report(&mut self, now: Timestamp, phone: Phone, known_as: Phone) -> bool {
        if now >= self.since.plus(REPORT_AGAIN_AFTER) || self.names.len() >= NAMES_MAX {
            self.names.clear();
            self.since = now;
        }
        self.names.insert((phone, known_as))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phone(number: u32) -> Phone {
        format!("+1555{number:07}").parse().unwrap()
    }

    #[test]
    fn a_name_is_reported_once_per_period() {
        let at = |seconds: u64| Timestamp::from_millis(seconds * 1000);
        let mut reported = ReportedNames::default();
        assert!(reported.must_report(at(1000), phone(1), phone(2)));
        assert!(!reported.must_report(at(1599), phone(1), phone(2)));
        assert!(reported.must_report(at(1599), phone(1), phone(3)));
        assert!(reported.must_report(at(1600), phone(1), phone(2)));
        for number in 0..=u32::try_from(NAMES_MAX).unwrap() {
            reported.must_report(at(1700), phone(number), phone(0));
        }
        assert!(reported.names.len() <= NAMES_MAX);
    }
}

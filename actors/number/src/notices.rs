//! Pure: a number's reports to its workspace besides the outcomes of messages.

use std::time::Duration;

use hashbrown::HashSet;

use postrider_channel::Failure;
use postrider_domain::{PartyId, PartyNames, Phone, Timestamp};

/// The maximum number of names that are remembered as reported.
const NAMES_MAX: usize = 10_000;
/// A name is reported again after this time: the workspace deletes names with their contact.
const REPORT_AGAIN_AFTER: Duration = Duration::from_secs(600);

/// An event of a number. The workspace must record it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NumberNotice {
    /// Its account cannot send: its queue waits.
    Stopped(Failure),
    /// It sends again, after [`Stopped`](Self::Stopped).
    Recovered,
    /// Several recipients in a row were refused with this unknown code.
    Unrecognized(Failure),
    /// The channel's outcomes have revealed this about recipients.
    Recipients(Vec<Recipient>),
}

impl NumberNotice {
    /// Returns the notice's name, for the log: it has neither phones nor the provider's words.
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

/// A fact about the recipient of a message, from its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recipient {
    /// The provider knows the recipient by another phone number or by its own id.
    KnownAs {
        /// The recipient of the message.
        to: PartyId,
        /// The other names by which the provider knows the recipient.
        known_as: PartyNames,
        /// The time at which the message was accepted from the caller.
        at: Timestamp,
    },
    /// The recipient has opted out of marketing.
    StoppedMarketing(Phone),
}

/// Names that were reported lately. The provider repeats them with every message, and a report
/// costs a commit.
#[derive(Debug, Default)]
pub(super) struct ReportedNames {
    names: HashSet<(PartyId, PartyNames)>,
    since: Timestamp,
}

impl ReportedNames {
    /// Returns whether the caller must report that the provider knows `to` as `known_as`. The names
    /// count as reported from now on.
    pub(super) fn must_report(
        &mut self,
        now: Timestamp,
        to: &PartyId,
        known_as: &PartyNames,
    ) -> bool {
        if now >= self.since.plus(REPORT_AGAIN_AFTER) || self.names.len() >= NAMES_MAX {
            self.names.clear();
            self.since = now;
        }
        self.names.insert((to.clone(), known_as.clone()))
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
        let mut must_report = |at: Timestamp, to: u32, known_as: u32| {
            let known_as = PartyNames { phone: Some(phone(known_as)), user_id: None };
            reported.must_report(at, &phone(to).into(), &known_as)
        };
        assert!(must_report(at(1000), 1, 2));
        assert!(!must_report(at(1599), 1, 2));
        assert!(must_report(at(1599), 1, 3));
        assert!(must_report(at(1600), 1, 2));
        for number in 0..=u32::try_from(NAMES_MAX).unwrap() {
            must_report(at(1700), number, 0);
        }
        assert!(reported.names.len() <= NAMES_MAX);
    }
}

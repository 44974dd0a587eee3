//! Pure: what a number has reported to its workspace: outcomes, names and unknown codes.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashSet;
use postrider_channel::outcome::FinalOutcome;
use postrider_channel::{AttemptOutcome, Failure, FailureClass, Origin};
use postrider_domain::{PartyId, PartyNames, Timestamp};

/// The outcomes of one report, by origin.
type ReportedOutcomes = Vec<(Origin, FinalOutcome)>;

/// Reported outcomes that the workspace has not acknowledged, oldest first, by their tickets. A
/// workspace that restarts receives them again.
#[derive(Debug, Default)]
pub(super) struct Unacked {
    reports: VecDeque<(u64, ReportedOutcomes)>,
    tickets: u64,
}

impl Unacked {
    /// Stores reported outcomes until they are acknowledged. Outcomes of broadcasts are left out: a
    /// broadcast recovers its own. Returns the ticket if an acknowledgement is needed.
    pub(super) fn track(&mut self, outcomes: &[(Origin, FinalOutcome)]) -> Option<u64> {
        let is_kept =
            |(origin, _): &&(Origin, FinalOutcome)| !matches!(origin, Origin::Broadcast { .. });
        let kept: ReportedOutcomes = outcomes.iter().filter(is_kept).cloned().collect();
        if kept.is_empty() {
            return None;
        }
        self.tickets += 1;
        self.reports.push_back((self.tickets, kept));
        Some(self.tickets)
    }

    /// Removes the outcomes of this ticket: the workspace has made them durable.
    pub(super) fn acked(&mut self, ticket: u64) {
        if let Some(place) = self.reports.iter().position(|(known, _)| *known == ticket) {
            self.reports.remove(place);
        }
    }

    /// Returns whether every report was acknowledged.
    pub(super) fn is_empty(&self) -> bool {
        self.reports.is_empty()
    }

    /// Returns the origins of the stored outcomes.
    pub(super) fn origins(&self) -> impl Iterator<Item = Origin> {
        self.reports.iter().flat_map(|(_, outcomes)| outcomes).map(|(origin, _)| *origin)
    }

    /// Returns all reports, to be sent again.
    pub(super) fn all(&self) -> Vec<(u64, ReportedOutcomes)> {
        self.reports.iter().cloned().collect()
    }
}

/// The maximum number of names that are remembered as reported.
const NAMES_MAX: usize = 10_000;
/// A name is reported again after this time: the workspace deletes names with their contact.
const REPORT_AGAIN_AFTER: Duration = Duration::from_secs(600);

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

/// The number of different recipients in a row that must get the code.
const REFUSED_IN_A_ROW: usize = 5;

/// The refusals with the same unknown code since the last other answer of the channel.
///
/// One refusal may concern its recipient alone. The same unknown code for several recipients in a
/// row probably concerns the account, so an operator must be notified of it.
#[derive(Debug, Default)]
pub(super) struct Unrecognized {
    code: Option<u32>,
    /// The recipients that were refused with it, while they are too few.
    recipients: Vec<PartyId>,
    /// Set once this row of refusals was reported.
    reported: bool,
}

impl Unrecognized {
    /// Records the outcome of an attempt to send to `to`. Returns whether it must be reported to
    /// the operator now, once for each row of refusals.
    pub(super) fn take(&mut self, to: &PartyId, outcome: &AttemptOutcome) -> bool {
        let failure = match outcome {
            AttemptOutcome::Failed(failure) => failure,
            AttemptOutcome::Sent | AttemptOutcome::SentAs(_) => {
                *self = Self::default();
                return false;
            }
            // These say nothing about the code.
            AttemptOutcome::Throttled { .. }
            | AttemptOutcome::Retry { .. }
            | AttemptOutcome::Unknown => return false,
        };
        let Failure { class: FailureClass::Unrecognized, code, .. } = failure else {
            *self = Self::default();
            return false;
        };
        if *code != self.code {
            *self = Self { code: *code, ..Self::default() };
        }
        if self.reported || self.recipients.contains(to) {
            return false;
        }
        self.recipients.push(to.clone());
        self.reported = self.recipients.len() == REFUSED_IN_A_ROW;
        if self.reported {
            self.recipients = Vec::new();
        }
        self.reported
    }
}

#[cfg(test)]
mod tests {
    use postrider_domain::{BroadcastId, MessageId, Phone};

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

    fn recipient(number: u32) -> PartyId {
        format!("+1555{number:07}").parse().unwrap()
    }

    fn failed(class: FailureClass, code: u32) -> AttemptOutcome {
        AttemptOutcome::Failed(Failure { class, code: Some(code), details: "".into() })
    }

    #[test]
    fn five_recipients_in_a_row_are_reported_once() {
        let unknown = failed(FailureClass::Unrecognized, 139_999);
        let reported = |row: &mut Unrecognized, recipients: std::ops::Range<u32>| {
            recipients.filter(|number| row.take(&recipient(*number), &unknown)).collect::<Vec<_>>()
        };
        let mut row = Unrecognized::default();
        assert!(reported(&mut row, 0..4).is_empty());
        assert!(!row.take(&recipient(3), &unknown), "the same recipient counts once");
        let wait = AttemptOutcome::Retry { after: None };
        assert!(
            !row.take(&recipient(9), &wait) && !row.take(&recipient(9), &AttemptOutcome::Unknown)
        );
        assert_eq!(reported(&mut row, 4..20), [4]);
        for other in [
            AttemptOutcome::Sent,
            failed(FailureClass::Permanent, 131_026),
            failed(FailureClass::Unrecognized, 139_998),
        ] {
            assert!(!row.take(&recipient(0), &other));
            assert!(reported(&mut row, 0..4).is_empty(), "{other:?} ends the row");
        }
        assert_eq!(reported(&mut row, 4..6), [4]);
    }

    #[test]
    fn outcomes_are_kept_until_they_are_acknowledged() {
        let message = |id| (Origin::Message(MessageId::from_bytes([id; 16])), FinalOutcome::Sent);
        let broadcast = BroadcastId::from_bytes([9; 16]);
        let of_broadcast = (Origin::Broadcast { broadcast, index: 0 }, FinalOutcome::Sent);
        let mut unacked = Unacked::default();
        assert_eq!(unacked.track(std::slice::from_ref(&of_broadcast)), None);
        assert_eq!(unacked.track(&[message(1), of_broadcast]), Some(1));
        assert_eq!(unacked.track(&[message(2), message(3)]), Some(2));
        assert_eq!(unacked.origins().count(), 3);
        unacked.acked(2);
        unacked.acked(7);
        assert_eq!(unacked.all(), [(1, vec![message(1)])]);
        unacked.acked(1);
        assert_eq!(unacked.origins().count(), 0);
    }
}

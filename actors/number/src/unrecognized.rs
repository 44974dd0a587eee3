//! Pure: detects an unknown code with which several recipients in a row are refused.
//!
//! One refusal may concern its recipient alone. The same unknown code for several recipients in a
//! row probably concerns the account, so an operator must be notified of it.

use postrider_channel::{AttemptOutcome, Failure, FailureClass};
use postrider_domain::PartyId;

/// The number of different recipients in a row that must get the code.
const RECIPIENTS: usize = 5;

/// The refusals with the same unknown code since the last other answer of the channel.
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
        self.reported = self.recipients.len() == RECIPIENTS;
        if self.reported {
            self.recipients = Vec::new();
        }
        self.reported
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phone(number: u32) -> PartyId {
        format!("+1555{number:07}").parse().unwrap()
    }

    fn failed(class: FailureClass, code: u32) -> AttemptOutcome {
        AttemptOutcome::Failed(Failure { class, code: Some(code), details: "".into() })
    }

    #[test]
    fn five_recipients_in_a_row_are_reported_once() {
        let unknown = failed(FailureClass::Unrecognized, 139_999);
        let reported = |row: &mut Unrecognized, recipients: std::ops::Range<u32>| {
            recipients.filter(|number| row.take(&phone(*number), &unknown)).collect::<Vec<_>>()
        };
        let mut row = Unrecognized::default();
        assert!(reported(&mut row, 0..4).is_empty());
        assert!(!row.take(&phone(3), &unknown), "the same recipient counts once");
        let wait = AttemptOutcome::Retry { after: None };
        assert!(!row.take(&phone(9), &wait) && !row.take(&phone(9), &AttemptOutcome::Unknown));
        assert_eq!(reported(&mut row, 4..20), [4]);
        for other in [
            AttemptOutcome::Sent,
            failed(FailureClass::Permanent, 131_026),
            failed(FailureClass::Unrecognized, 139_998),
        ] {
            assert!(!row.take(&phone(0), &other));
            assert!(reported(&mut row, 0..4).is_empty(), "{other:?} ends the row");
        }
        assert_eq!(reported(&mut row, 4..6), [4]);
    }
}

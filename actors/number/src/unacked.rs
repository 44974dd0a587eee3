//! Pure: reported outcomes that the workspace has not acknowledged.
//!
//! A workspace that restarts receives them again.

use std::collections::VecDeque;

use postrider_channel::Origin;
use postrider_channel::outcome::FinalOutcome;

/// The outcomes of one report, by origin.
type Report = Vec<(Origin, FinalOutcome)>;

/// The reports, oldest first, by their tickets.
#[derive(Debug, Default)]
pub(super) struct Unacked {
    reports: VecDeque<(u64, Report)>,
    tickets: u64,
}

impl Unacked {
    /// Stores reported outcomes until they are acknowledged. Outcomes of broadcasts are left out: a
    /// broadcast recovers its own. Returns the ticket if an acknowledgement is needed.
    pub(super) fn track(&mut self, outcomes: &[(Origin, FinalOutcome)]) -> Option<u64> {
        let is_kept =
            |(origin, _): &&(Origin, FinalOutcome)| !matches!(origin, Origin::Broadcast { .. });
        let kept: Report = outcomes.iter().filter(is_kept).cloned().collect();
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
    pub(super) fn all(&self) -> Vec<(u64, Report)> {
        self.reports.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use postrider_domain::{BroadcastId, MessageId};

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

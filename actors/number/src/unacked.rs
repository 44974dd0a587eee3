//! Outcomes that were given and that the workspace has not durably noted yet: one that is rebuilt gets
//! them again.

use std::collections::VecDeque;

use postrider_channel::Origin;
use postrider_channel::outcome::FinalOutcome;

/// Outcomes of one question, by origin.
type Outcomes = Vec<(Origin, FinalOutcome)>;

/// The answers, oldest first, under the tickets that they were given with. Pure.
#[derive(Debug, Default)]
pub(super) struct Unacked {
    given: VecDeque<(u64, Outcomes)>,
    tickets: u64,
}

impl Unacked {
    /// Keeps answers that are given now; what is a broadcast's own it does for itself. Gives the
    /// ticket, if there is anything to note.
    pub(super) fn keep(&mut self, answers: &[(Origin, FinalOutcome)]) -> Option<u64> {
        let own =
            |(origin, _): &&(Origin, FinalOutcome)| !matches!(origin, Origin::Broadcast { .. });
        let kept: Outcomes = answers.iter().filter(own).cloned().collect();
        if kept.is_empty() {
            return None;
        }
        self.tickets += 1;
        self.given.push_back((self.tickets, kept));
        Some(self.tickets)
    }

    /// The workspace has noted what it was given under this ticket.
    pub(super) fn acked(&mut self, ticket: u64) {
        if let Some(place) = self.given.iter().position(|(given, _)| *given == ticket) {
            self.given.remove(place);
        }
    }

    /// What the answers are for.
    pub(super) fn origins(&self) -> impl Iterator<Item = Origin> {
        self.given.iter().flat_map(|(_, answers)| answers).map(|(origin, _)| *origin)
    }

    /// All of it, to be given again.
    pub(super) fn all(&self) -> Vec<(u64, Outcomes)> {
        self.given.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use postrider_domain::{BroadcastId, MessageId};

    #[test]
    fn answers_are_kept_until_they_are_noted() {
        let message = |id| (Origin::Message(MessageId::from_bytes([id; 16])), FinalOutcome::Sent);
        let broadcast = BroadcastId::from_bytes([9; 16]);
        let of_broadcast = (Origin::Broadcast { broadcast, index: 0 }, FinalOutcome::Sent);
        let mut unnoted = Unacked::default();
        assert_eq!(unnoted.keep(std::slice::from_ref(&of_broadcast)), None);
        assert_eq!(unnoted.keep(&[message(1), of_broadcast]), Some(1));
        assert_eq!(unnoted.keep(&[message(2), message(3)]), Some(2));
        assert_eq!(unnoted.origins().count(), 3);
        unnoted.acked(2);
        unnoted.acked(7);
        assert_eq!(unnoted.all(), [(1, vec![message(1)])]);
        unnoted.acked(1);
        assert_eq!(unnoted.origins().count(), 0);
    }
}

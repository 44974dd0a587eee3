//! Handing a broadcast's messages back unsent: when it is held or over, or the number goes.

use postrider_channel::Origin;
use postrider_domain::BroadcastId;

use super::actor::{NumberActor, State};
use super::queue::Attempt;

/// The place of a message in a broadcast, if it is one's.
pub(super) const fn place_in(attempt: &Attempt) -> Option<(BroadcastId, u32)> {
    match attempt.message.origin {
        Origin::Broadcast { broadcast, index } => Some((broadcast, index)),
        Origin::Otp { .. } | Origin::Message(_) => None,
    }
}

impl NumberActor {
    /// Takes a broadcast's messages that are not with the channel out of the queue.
    pub(super) fn withdraw(&self, broadcast: BroadcastId, state: &mut State) {
        let is_its =
            |attempt: &Attempt| place_in(attempt).is_some_and(|(other, _)| other == broadcast);
        let mut out = state.recipients.take(&is_its);
        out.extend(state.lanes.take_bulk(&is_its));
        let delayed = state.delayed.extract_if(.., |_, attempt| is_its(attempt));
        out.extend(delayed.map(|(_, attempt)| attempt));
        out.sort_unstable_by_key(|attempt| attempt.sequence);
        self.give_back(out, state);
    }

    /// Gives messages of broadcasts back: they surely were not taken. Gives those of nobody's.
    pub(super) fn give_back(&self, attempts: Vec<Attempt>, state: &mut State) -> Vec<Attempt> {
        let (mut others, mut places) = (Vec::new(), Vec::new());
        for attempt in attempts {
            let Some(place) = place_in(&attempt) else {
                others.push(attempt);
                continue;
            };
            places.push(place);
            for released in state.recipients.settled(attempt.message.to, attempt.sequence) {
                state.lanes.put_back(released);
            }
        }
        self.numbers.withdrawn(places);
        others
    }
}

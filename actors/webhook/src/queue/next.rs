//! Pure: the choice of the delivery of an endpoint that starts next.

use postrider_domain::Timestamp;

use super::read_ahead::ReadAhead;
use super::{DeliveryQueue, LOOK_AHEAD, WAITING_MAX};

/// Under constant load every tenth delivery is a replay, so that replays are not starved.
const NEW_IN_A_ROW_MAX: u32 = 9;

/// The delivery that starts next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The waiting one of this sequence.
    Waiting(u64),
    /// The new one at this index of those that were read ahead.
    New(usize),
    /// The replay at this index of those that were read ahead.
    Replay(usize),
}

impl DeliveryQueue {
    /// Returns the number of deliveries that wait, as far as the log was read, or are in flight.
    pub(crate) fn waiting(&self) -> usize {
        self.lanes.waiting() + self.new.fresh.len() + self.in_flight.len()
    }

    /// Returns whether the endpoint keeps failing, and is tried only now and then.
    pub(crate) fn is_left_alone(&self) -> bool {
        self.breaker.open_until().is_some()
    }

    /// Returns the delivery that starts next, and its moment.
    ///
    /// A replay starts when no new delivery may, and after [`NEW_IN_A_ROW_MAX`] new ones.
    pub(super) fn next_up(&mut self, now: Timestamp) -> Option<(Timestamp, Next)> {
        let may_replay = self.replays_in_flight < (self.limiter.limit() / 4).max(1);
        let replay = if may_replay { self.next_of(true, now) } else { None };
        let is_due = |it: &(Timestamp, Next)| it.0 <= now;
        if self.new_in_a_row >= NEW_IN_A_ROW_MAX && replay.as_ref().is_some_and(is_due) {
            return replay;
        }
        let new = self.next_of(false, now);
        if new.as_ref().is_some_and(is_due) {
            return new;
        }
        new.into_iter().chain(replay).min_by_key(|(at, _)| *at)
    }

    /// Returns the next of the replays (`is_replay`), or of the others.
    ///
    /// A retry that is due goes before a first attempt.
    fn next_of(&mut self, is_replay: bool, now: Timestamp) -> Option<(Timestamp, Next)> {
        let waiting = |queue: &Self| {
            let next = queue.lanes.next(is_replay);
            next.map(|(at, first)| (at, Next::Waiting(first)))
        };
        waiting(self).filter(|(at, _)| *at <= now).or_else(|| {
            let fresh = self.next_fresh(is_replay, now).map(|place| {
                let next = if is_replay { Next::Replay(place) } else { Next::New(place) };
                (Timestamp::default(), next)
            });
            // The search may have set deliveries aside.
            fresh.or_else(|| waiting(self))
        })
    }

    /// Returns the index of the first delivery read ahead whose lane is free.
    ///
    /// Earlier ones whose lane waits for a retry are set aside.
    fn next_fresh(&mut self, is_replay: bool, now: Timestamp) -> Option<usize> {
        let mut place = 0;
        while self.may_begin(is_replay) && place < LOOK_AHEAD {
            if is_replay {
                self.leave_out(place, now);
            }
            let lane = self.read_ahead(is_replay).fresh.get(place)?.lane;
            if !self.lanes.in_order() {
                return Some(place);
            }
            if lane.is_none() {
                // It is ordered against everything before and after it.
                return (place == 0 && self.lanes.is_empty()).then_some(0);
            }
            if self.lanes.is_taken(None) {
                return None;
            }
            if !self.lanes.is_taken(lane) {
                return Some(place);
            }
            if self.lanes.has_waiting(lane) {
                self.set_aside(is_replay, place);
            } else {
                place += 1;
            }
        }
        None
    }

    /// Returns whether few enough deliveries wait for another to start.
    ///
    /// Replays use half the capacity, and their number never blocks new deliveries.
    fn may_begin(&self, is_replay: bool) -> bool {
        match is_replay {
            true => self.lanes.waiting() < WAITING_MAX / 2,
            false => self.lanes.waiting_anew() < WAITING_MAX,
        }
    }

    /// Makes a delivery that was read ahead wait for its turn.
    fn set_aside(&mut self, is_replay: bool, place: usize) {
        if let Some(delivery) = self.read_ahead(is_replay).begin(place) {
            self.wait(delivery.first, delivery.waiting(0, Some(Timestamp::default())));
        }
    }

    fn read_ahead(&mut self, is_replay: bool) -> &mut ReadAhead {
        if is_replay { &mut self.replays } else { &mut self.new }
    }
}

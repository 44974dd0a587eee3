//! What goes next.

use postrider_domain::Timestamp;

use super::read_ahead::Stretch;
use super::{DeliveryQueue, LOOK_AHEAD, WAITING_MAX};

/// While new ones wait all the time, one in so many is one that comes again.
const NEW_IN_A_ROW_MAX: u32 = 9;

/// What goes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The one that waits under this sequence.
    Waiting(u64),
    /// The one at this place of the new ones that were not begun.
    New(usize),
    /// The one at this place of those that come again.
    Again(usize),
}

impl DeliveryQueue {
    /// What goes next, and its moment: what somebody asked for again when nothing new may go, and
    /// once in a while.
    pub(super) fn next_up(&mut self, now: Timestamp) -> Option<(Timestamp, Next)> {
        let may_again = self.again_under_way < (self.limiter.limit() / 4).max(1);
        let again = if may_again { self.next_of(true, now) } else { None };
        let is_due = |it: &(Timestamp, Next)| it.0 <= now;
        if self.new_in_a_row >= NEW_IN_A_ROW_MAX && again.as_ref().is_some_and(is_due) {
            return again;
        }
        let new = self.next_of(false, now);
        if new.as_ref().is_some_and(is_due) {
            return new;
        }
        new.into_iter().chain(again).min_by_key(|(at, _)| *at)
    }

    /// The next of those that come again, or of the others. What failed before and is due comes
    /// before what was not begun.
    fn next_of(&mut self, again: bool, now: Timestamp) -> Option<(Timestamp, Next)> {
        let waiting = |line: &Self| {
            let next = line.lanes.next(again);
            next.map(|(at, first)| (at, Next::Waiting(first)))
        };
        waiting(self).filter(|(at, _)| *at <= now).or_else(|| {
            let fresh = self.next_fresh(again, now).map(|place| {
                let next = if again { Next::Again(place) } else { Next::New(place) };
                (Timestamp::default(), next)
            });
            // Something may have been set aside.
            fresh.or_else(|| waiting(self))
        })
    }

    /// The place of the first one not begun whose lane is free. Others whose lane waits for another
    /// try are set aside.
    fn next_fresh(&mut self, again: bool, now: Timestamp) -> Option<usize> {
        let mut place = 0;
        while self.may_begin(again) && place < LOOK_AHEAD {
            if again {
                self.leave_out(place, now);
            }
            let lane = self.stretch(again).fresh.get(place)?.lane;
            if !self.lanes.in_order() {
                return Some(place);
            }
            if lane.is_none() {
                // It comes after everything before it, and before everything after it.
                return (place == 0 && self.lanes.is_empty()).then_some(0);
            }
            if self.lanes.is_taken(None) {
                return None;
            }
            if !self.lanes.is_taken(lane) {
                return Some(place);
            }
            if self.lanes.has_waiting(lane) {
                self.set_aside(again, place);
            } else {
                place += 1;
            }
        }
        None
    }

    /// Whether few enough wait. What comes again leaves room for what is new, and holds none of it
    /// back, however much that is.
    fn may_begin(&self, again: bool) -> bool {
        match again {
            true => self.lanes.waiting() < WAITING_MAX / 2,
            false => self.lanes.waiting_anew() < WAITING_MAX,
        }
    }

    /// Has one that was not begun wait for its turn.
    fn set_aside(&mut self, again: bool, place: usize) {
        if let Some(parcel) = self.stretch(again).begin(place) {
            self.wait(parcel.first, parcel.waiting(0, Some(Timestamp::default())));
        }
    }

    fn stretch(&mut self, again: bool) -> &mut Stretch {
        if again { &mut self.again } else { &mut self.new }
    }
}

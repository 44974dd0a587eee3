//! What goes next.

use crate::domain::Timestamp;

use super::{LOOK_AHEAD, Line, Parcel, WAITING_MAX};

/// What goes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The one that waits under this sequence.
    Waiting(u64),
    /// The one at this place of those that were not begun.
    Fresh(usize),
}

impl Line {
    /// What goes next, and its moment. What failed before and is due comes before what is new.
    pub(super) fn next_up(&mut self, now: Timestamp) -> Option<(Timestamp, Next)> {
        let waiting = |line: &Self| line.lanes.next().map(|(at, first)| (at, Next::Waiting(first)));
        waiting(self).filter(|(at, _)| *at <= now).or_else(|| {
            let fresh = self.next_fresh();
            // Something may have been set aside.
            fresh.map(|place| (Timestamp::default(), Next::Fresh(place))).or_else(|| waiting(self))
        })
    }

    /// The place of the first new one whose lane is free. Others whose lane waits for another try
    /// are set aside.
    fn next_fresh(&mut self) -> Option<usize> {
        if !self.lanes.in_order() {
            let has_room = self.lanes.waiting() < WAITING_MAX;
            return (has_room && !self.fresh.is_empty()).then_some(0);
        }
        let mut place = 0;
        while self.lanes.waiting() < WAITING_MAX && place < LOOK_AHEAD {
            let lane = self.fresh.get(place)?.lane;
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
                self.set_aside(place);
            } else {
                place += 1;
            }
        }
        None
    }

    /// Has one that was not begun wait for its turn.
    fn set_aside(&mut self, place: usize) {
        if let Some(parcel) = self.fresh.remove(place) {
            self.begun = self.begun.max(parcel.last);
            self.wait(parcel.first, parcel.waiting(0, Some(Timestamp::default())));
        }
    }

    /// Takes one back as if it had not been begun, at its place.
    pub(super) fn put_back(&mut self, parcel: Parcel) {
        // Behind that everything is read again.
        if parcel.first <= self.scanned {
            let place = self.fresh.partition_point(|it| it.first < parcel.first);
            self.fresh.insert(place, parcel);
        }
    }
}

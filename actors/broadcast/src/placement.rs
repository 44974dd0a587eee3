//! Pure: the choice of the number through which each of a broadcast's messages leaves.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use postrider_domain::NumberId;

use crate::record::WINDOW;

/// A number of a broadcast, and its room for messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// The number.
    pub(crate) number: NumberId,
    /// The number of messages that it sends in a second.
    pub(crate) pace: u32,
    /// Set if it is connected and its circuit breaker is closed.
    pub(crate) is_up: bool,
    /// Set if others take over its recipients: it was removed, or has been down for too long.
    pub(crate) is_given_up: bool,
    /// Set if the budget of its portfolio is used up.
    pub(crate) is_full: bool,
}

/// The numbers of the messages in flight. It is empty for a broadcast of one number.
#[derive(Debug, Default)]
pub(crate) struct Placed {
    numbers: HashMap<u32, NumberId>,
    counts: BTreeMap<NumberId, u32>,
}

impl Placed {
    /// Returns the number of a recipient's message.
    pub(crate) fn number(&self, index: u32) -> Option<NumberId> {
        self.numbers.get(&index).copied()
    }

    /// Returns how many messages are with a number.
    pub(crate) fn with(&self, number: NumberId) -> u32 {
        self.counts.get(&number).copied().unwrap_or_default()
    }

    /// Returns the numbers that have messages.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = NumberId> {
        self.counts.iter().filter(|(_, count)| **count > 0).map(|(number, _)| *number)
    }

    /// Returns how many messages wait for numbers that are down, at most a window for each number.
    /// So many others may be claimed beside them. More would leave too many outcomes unknown after
    /// a crash.
    pub(crate) fn stuck(&self, down: impl Iterator<Item = NumberId>) -> u32 {
        down.map(|number| self.with(number).min(WINDOW)).sum()
    }

    /// Returns the recipients whose messages are with a number.
    pub(crate) fn of(&self, number: NumberId) -> Vec<u32> {
        let all = self.numbers.iter().filter(|(_, with)| **with == number);
        all.map(|(index, _)| *index).collect()
    }

    /// Removes a message that is no longer in flight.
    pub(crate) fn settle(&mut self, index: u32) {
        if let Some(number) = self.numbers.remove(&index) {
            self.count(number, |count| count.saturating_sub(1));
        }
    }

    fn count(&mut self, number: NumberId, change: impl Fn(u32) -> u32) {
        let count = self.counts.entry(number).or_default();
        *count = change(*count);
    }

    /// Places a message with the number that was last used with its recipient. If others take over
    /// from that number, the message goes to the number with the most room.
    pub(crate) fn place(
        &mut self,
        index: u32,
        last: Option<NumberId>,
        rooms: &[Room],
    ) -> Option<NumberId> {
        let own = rooms.iter().find(|room| Some(room.number) == last && !room.is_given_up);
        // The seconds that the number needs for its messages; a tie goes to the first.
        let load =
            |room: &Room| (self.with(room.number) as f64 + 1.0) / f64::from(room.pace.max(1));
        let with_room = |is_good: fn(&Room) -> bool| {
            let rooms = rooms.iter().filter(|room| is_good(room));
            rooms.min_by(|one, other| load(one).total_cmp(&load(other)))
        };
        let found = own
            .or_else(|| with_room(|room| room.is_up && !room.is_full))
            .or_else(|| with_room(|room| room.is_up))
            .or_else(|| with_room(|_| true));
        let number = found?.number;
        self.put(index, number);
        Some(number)
    }

    /// Places a message with this number.
    pub(crate) fn put(&mut self, index: u32, number: NumberId) {
        self.settle(index);
        self.numbers.insert(index, number);
        self.count(number, |count| count + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NumberId = NumberId::from_bytes([1; 16]);
    const B: NumberId = NumberId::from_bytes([2; 16]);
    const C: NumberId = NumberId::from_bytes([3; 16]);

    fn room(number: NumberId, pace: u32) -> Room {
        Room { number, pace, is_up: true, is_given_up: false, is_full: false }
    }

    #[test]
    fn who_has_no_number_goes_where_room_is() {
        let rooms = [room(A, 80), room(B, 80), room(C, 20)];
        let mut placed = Placed::default();
        for index in 0..180 {
            placed.place(index, None, &rooms).unwrap();
        }
        assert_eq!([A, B, C].map(|number| placed.with(number)), [80, 80, 20]);
        placed.of(B).into_iter().for_each(|index| placed.settle(index));
        (180..200).for_each(|index| assert_eq!(placed.place(index, None, &rooms), Some(B)));
    }

    #[test]
    fn who_has_a_number_waits_for_it_until_others_take_over() {
        let down = Room { is_up: false, ..room(A, 80) };
        let mut placed = Placed::default();
        let rooms = |a| [a, room(B, 80)];
        for index in 0..100 {
            assert_eq!(placed.place(index, Some(A), &rooms(down)), Some(A));
        }
        assert_eq!(placed.place(100, None, &rooms(down)), Some(B));
        let given_up = Room { is_given_up: true, ..down };
        assert_eq!(placed.place(0, Some(A), &rooms(given_up)), Some(B));
        assert_eq!((placed.with(A), placed.with(B)), (99, 2));
        assert_eq!(placed.place(101, Some(C), &rooms(given_up)), Some(B), "it is not one of them");
    }

    #[test]
    fn who_has_no_number_goes_where_the_budget_has_room() {
        let full = Room { is_full: true, ..room(A, 80) };
        let mut placed = Placed::default();
        for index in 0..100 {
            assert_eq!(placed.place(index, None, &[full, room(B, 1)]), Some(B));
        }
        assert_eq!(placed.place(100, Some(A), &[full, room(B, 1)]), Some(A), "it waits for A");
    }

    #[test]
    fn claims_end_while_nearly_everybody_waits_for_a_number_that_is_down() {
        let rooms = [Room { is_up: false, ..room(A, 80) }, room(B, 80)];
        let mut placed = Placed::default();
        let mut claimed = 0;
        // The messages in flight beside the waiting ones are fewer than one claim.
        while claimed - placed.stuck([A].into_iter()) <= 80 {
            (claimed..claimed + 80).for_each(|index| {
                assert_eq!(placed.place(index, Some(A), &rooms), Some(A));
            });
            claimed += 80;
            assert!(claimed < 100_000, "the whole audience is claimed");
        }
        assert_eq!(claimed, 640);
        // The waiting messages do not count against the others while they are few.
        assert_eq!(placed.stuck([A, B].into_iter()), WINDOW);
        placed.of(A).into_iter().skip(10).for_each(|index| placed.settle(index));
        assert_eq!(placed.stuck([A].into_iter()), 10);
    }

    #[test]
    fn nobody_is_left_without_a_number() {
        let given_up = Room { is_up: false, is_given_up: true, ..room(A, 1) };
        let mut placed = Placed::default();
        assert_eq!(placed.place(0, None, &[given_up]), Some(A));
        assert_eq!(placed.place(1, None, &[]), None);
    }
}

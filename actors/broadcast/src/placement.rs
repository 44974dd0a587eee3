//! Pure: the numbers of a broadcast's messages, and the room in their budgets.
//!
//! Recipients without room wait for it.

use std::collections::{BTreeMap, VecDeque};

use hashbrown::HashMap;
use postrider_domain::NumberId;

use crate::record::WINDOW;

/// A number of a broadcast, and its room for messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NumberRoom {
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
pub(crate) struct Placements {
    numbers: HashMap<u32, NumberId>,
    counts: BTreeMap<NumberId, u32>,
}

impl Placements {
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
        rooms: &[NumberRoom],
    ) -> Option<NumberId> {
        let own = rooms.iter().find(|room| Some(room.number) == last && !room.is_given_up);
        // The seconds that the number needs for its messages; a tie goes to the first.
        let load =
            |room: &NumberRoom| (self.with(room.number) as f64 + 1.0) / f64::from(room.pace.max(1));
        let with_room = |is_good: fn(&NumberRoom) -> bool| {
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

/// Numbers that share a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedBudget {
    /// The numbers.
    pub numbers: Vec<NumberId>,
    /// The number of recipients who do not count already and still fit; `None` for no limit.
    pub left: Option<u32>,
}

/// The room for recipients of a broadcast, by the budgets of its numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Budget {
    /// Set if recipients are counted at all.
    pub is_counted: bool,
    /// The budgets of the connected numbers.
    pub shared: Vec<SharedBudget>,
}

impl Budget {
    /// Returns the budget without the numbers that others take over from.
    pub(crate) fn without(mut self, given_up: impl Fn(NumberId) -> bool) -> Self {
        for shared in &mut self.shared {
            shared.numbers.retain(|number| !given_up(*number));
        }
        self.shared.retain(|shared| !shared.numbers.is_empty());
        self
    }

    /// Returns whether no number has a limit.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.shared.iter().all(|it| it.left.is_none())
    }

    /// Returns whether all budgets are used up.
    pub(crate) fn is_full(&self) -> bool {
        self.shared.iter().all(|it| it.left == Some(0))
    }

    /// Returns whether the budget of a number is used up.
    pub(crate) fn is_full_of(&self, number: NumberId) -> bool {
        self.shared.iter().any(|it| it.left == Some(0) && it.numbers.contains(&number))
    }

    /// Takes a place in a number's budget, or in any. Returns whether there was one. If others take
    /// over from the number, any of their budgets is used.
    fn take(&mut self, number: Option<NumberId>) -> bool {
        let own = number
            .and_then(|own| self.shared.iter().position(|shared| shared.numbers.contains(&own)));
        let free = || self.shared.iter().position(|shared| shared.left != Some(0));
        let Some(at) = own.or_else(free) else { return false };
        let Some(left) = &mut self.shared[at].left else { return true };
        let is_left = *left > 0;
        *left = left.saturating_sub(1);
        is_left
    }
}

/// Recipients that were claimed without room in a budget, and wait for it.
#[derive(Debug, Default)]
pub(crate) struct DeferredRecipients {
    /// The recipients by their number, oldest first.
    waiting: BTreeMap<Option<NumberId>, VecDeque<u32>>,
    count: u32,
}

impl DeferredRecipients {
    /// Adds a recipient that waits for room with its number, or with any.
    pub(crate) fn add(&mut self, index: u32, number: Option<NumberId>) {
        self.waiting.entry(number).or_default().push_back(index);
        self.count += 1;
    }

    /// Returns the number of recipients that wait.
    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    /// Removes and returns recipients that may have room now.
    pub(crate) fn take_ready(&mut self, mut budget: Budget, most: u32) -> Vec<u32> {
        let mut found = Vec::new();
        for (number, waiting) in &mut self.waiting {
            while found.len() < most as usize && !waiting.is_empty() && budget.take(*number) {
                found.extend(waiting.pop_front());
            }
        }
        self.count -= u32::try_from(found.len()).unwrap_or(self.count);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NumberId = NumberId::from_bytes([1; 16]);
    const B: NumberId = NumberId::from_bytes([2; 16]);
    const C: NumberId = NumberId::from_bytes([3; 16]);

    fn room(number: NumberId, pace: u32) -> NumberRoom {
        NumberRoom { number, pace, is_up: true, is_given_up: false, is_full: false }
    }

    #[test]
    fn who_has_no_number_goes_where_room_is() {
        let rooms = [room(A, 80), room(B, 80), room(C, 20)];
        let mut placed = Placements::default();
        for index in 0..180 {
            placed.place(index, None, &rooms).unwrap();
        }
        assert_eq!([A, B, C].map(|number| placed.with(number)), [80, 80, 20]);
        placed.of(B).into_iter().for_each(|index| placed.settle(index));
        (180..200).for_each(|index| assert_eq!(placed.place(index, None, &rooms), Some(B)));
    }

    #[test]
    fn who_has_a_number_waits_for_it_until_others_take_over() {
        let down = NumberRoom { is_up: false, ..room(A, 80) };
        let mut placed = Placements::default();
        let rooms = |a| [a, room(B, 80)];
        for index in 0..100 {
            assert_eq!(placed.place(index, Some(A), &rooms(down)), Some(A));
        }
        assert_eq!(placed.place(100, None, &rooms(down)), Some(B));
        let given_up = NumberRoom { is_given_up: true, ..down };
        assert_eq!(placed.place(0, Some(A), &rooms(given_up)), Some(B));
        assert_eq!((placed.with(A), placed.with(B)), (99, 2));
        assert_eq!(placed.place(101, Some(C), &rooms(given_up)), Some(B), "it is not one of them");
    }

    #[test]
    fn who_has_no_number_goes_where_the_budget_has_room() {
        let full = NumberRoom { is_full: true, ..room(A, 80) };
        let mut placed = Placements::default();
        for index in 0..100 {
            assert_eq!(placed.place(index, None, &[full, room(B, 1)]), Some(B));
        }
        assert_eq!(placed.place(100, Some(A), &[full, room(B, 1)]), Some(A), "it waits for A");
    }

    #[test]
    fn claims_end_while_nearly_everybody_waits_for_a_number_that_is_down() {
        let rooms = [NumberRoom { is_up: false, ..room(A, 80) }, room(B, 80)];
        let mut placed = Placements::default();
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
        let given_up = NumberRoom { is_up: false, is_given_up: true, ..room(A, 1) };
        let mut placed = Placements::default();
        assert_eq!(placed.place(0, None, &[given_up]), Some(A));
        assert_eq!(placed.place(1, None, &[]), None);
    }

    #[test]
    fn those_who_wait_come_back_as_far_as_their_numbers_have_room() {
        let budget = |a, b| Budget {
            is_counted: true,
            shared: vec![
                SharedBudget { numbers: vec![A], left: a },
                SharedBudget { numbers: vec![B], left: b },
            ],
        };
        let mut deferred = DeferredRecipients::default();
        for (index, number) in [(1, Some(A)), (2, Some(B)), (3, None), (4, Some(B)), (5, Some(C))] {
            deferred.add(index, number);
        }
        let full = budget(Some(0), Some(0));
        assert!(full.is_full() && full.is_full_of(A) && !full.is_unlimited());
        assert_eq!(deferred.take_ready(full, 9), [0_u32; 0]);
        let half = budget(Some(0), Some(2));
        assert!(!half.is_full() && half.is_full_of(A) && !half.is_full_of(B));
        assert_eq!(deferred.take_ready(half, 9), [3, 2]);
        assert_eq!(deferred.count(), 3);
        // The number of the last was removed: it may go through the others.
        assert_eq!(deferred.take_ready(budget(Some(0), None), 9), [4, 5]);
        assert_eq!(deferred.take_ready(budget(Some(1), Some(0)), 9), [1]);
        assert_eq!(deferred.count(), 0);
        assert!(budget(None, None).is_unlimited());
    }

    #[test]
    fn who_belongs_to_a_number_that_is_given_up_waits_for_room_with_the_others() {
        let budget = |b| {
            let shared = [(vec![A, C], None), (vec![B], b)];
            let shared = shared.map(|(numbers, left)| SharedBudget { numbers, left }).to_vec();
            Budget { is_counted: true, shared }.without(|number| number == A || number == C)
        };
        let mut deferred = DeferredRecipients::default();
        deferred.add(1, Some(A));
        deferred.add(2, None);
        assert!(budget(Some(0)).is_full() && !budget(Some(0)).is_unlimited());
        assert_eq!(deferred.take_ready(budget(Some(0)), 9), [0_u32; 0]);
        assert_eq!(deferred.take_ready(budget(Some(2)), 9), [2, 1]);
    }

    #[test]
    fn no_more_come_back_than_one_claim_takes() {
        let mut deferred = DeferredRecipients::default();
        (0..9).for_each(|index| deferred.add(index, None));
        let one = SharedBudget { numbers: vec![A], left: None };
        let budget = Budget { is_counted: true, shared: vec![one] };
        assert_eq!(deferred.take_ready(budget, 4), [0, 1, 2, 3]);
        assert_eq!(deferred.count(), 5);
    }
}

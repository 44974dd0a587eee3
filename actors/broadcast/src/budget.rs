//! Pure: the room in the numbers' budgets, and the recipients that wait for room.

use std::collections::{BTreeMap, VecDeque};

use postrider_domain::NumberId;

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

/// Recipients that were claimed without room in a budget.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    /// The recipients by their number, oldest first.
    waiting: BTreeMap<Option<NumberId>, VecDeque<u32>>,
    count: u32,
}

impl Aside {
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
    pub(crate) fn call_back(&mut self, mut budget: Budget, most: u32) -> Vec<u32> {
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

    #[test]
    fn those_who_wait_come_back_as_far_as_their_numbers_have_room() {
        let budget = |a, b| Budget {
            is_counted: true,
            shared: vec![
                SharedBudget { numbers: vec![A], left: a },
                SharedBudget { numbers: vec![B], left: b },
            ],
        };
        let mut aside = Aside::default();
        for (index, number) in [(1, Some(A)), (2, Some(B)), (3, None), (4, Some(B)), (5, Some(C))] {
            aside.add(index, number);
        }
        let full = budget(Some(0), Some(0));
        assert!(full.is_full() && full.is_full_of(A) && !full.is_unlimited());
        assert_eq!(aside.call_back(full, 9), [0_u32; 0]);
        let half = budget(Some(0), Some(2));
        assert!(!half.is_full() && half.is_full_of(A) && !half.is_full_of(B));
        assert_eq!(aside.call_back(half, 9), [3, 2]);
        assert_eq!(aside.count(), 3);
        // The number of the last was removed: it may go through the others.
        assert_eq!(aside.call_back(budget(Some(0), None), 9), [4, 5]);
        assert_eq!(aside.call_back(budget(Some(1), Some(0)), 9), [1]);
        assert_eq!(aside.count(), 0);
        assert!(budget(None, None).is_unlimited());
    }

    #[test]
    fn who_belongs_to_a_number_that_is_given_up_waits_for_room_with_the_others() {
        let budget = |b| {
            let shared = [(vec![A, C], None), (vec![B], b)];
            let shared = shared.map(|(numbers, left)| SharedBudget { numbers, left }).to_vec();
            Budget { is_counted: true, shared }.without(|number| number == A || number == C)
        };
        let mut aside = Aside::default();
        aside.add(1, Some(A));
        aside.add(2, None);
        assert!(budget(Some(0)).is_full() && !budget(Some(0)).is_unlimited());
        assert_eq!(aside.call_back(budget(Some(0)), 9), [0_u32; 0]);
        assert_eq!(aside.call_back(budget(Some(2)), 9), [2, 1]);
    }

    #[test]
    fn no_more_come_back_than_one_claim_takes() {
        let mut aside = Aside::default();
        (0..9).for_each(|index| aside.add(index, None));
        let one = SharedBudget { numbers: vec![A], left: None };
        let budget = Budget { is_counted: true, shared: vec![one] };
        assert_eq!(aside.call_back(budget, 4), [0, 1, 2, 3]);
        assert_eq!(aside.count(), 5);
    }
}

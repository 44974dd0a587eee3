//! Pure: the choice of the next scan, in turn by owner, within bounds on running and waiting ones.

use std::collections::VecDeque;
use std::hash::Hash;

use hashbrown::HashMap;

/// The bounds of a [`ScanQueue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanBounds {
    /// The maximum number of running scans; at least one runs.
    pub running_max: usize,
    /// The maximum number of waiting scans.
    pub waiting_max: usize,
    /// The maximum number of waiting scans of one owner, so that no owner fills the queue alone.
    pub waiting_per_owner_max: usize,
}

/// The waiting scans `J`, by owner `K`, and the number of running scans of each owner.
///
/// Owners take turns, one scan at a time. While another owner that runs fewer scans waits, an owner
/// gets no more than half of the places. A place that no owner below its half wants is used all the
/// same, because an idle core helps nobody.
#[derive(Debug)]
pub struct ScanQueue<K, J> {
    bounds: ScanBounds,
    /// Half of the places, at least one.
    share: usize,
    running: usize,
    waiting: usize,
    owners: HashMap<K, ScanOwner<J>>,
    /// The waiting owners, in the order of their turns; each is in it once.
    turns: VecDeque<K>,
}

#[derive(Debug)]
struct ScanOwner<J> {
    running: usize,
    waiting: VecDeque<J>,
}

impl<K: Clone + Eq + Hash, J> ScanQueue<K, J> {
    /// Creates an empty queue with these bounds.
    #[must_use]
    pub fn new(bounds: ScanBounds) -> Self {
        let bounds = ScanBounds { running_max: bounds.running_max.max(1), ..bounds };
        Self {
            bounds,
            share: (bounds.running_max / 2).max(1),
            running: 0,
            waiting: 0,
            owners: HashMap::new(),
            turns: VecDeque::new(),
        }
    }

    /// Queues a scan.
    ///
    /// # Errors
    /// Returns the scan if the maximum number waits, of all owners or of this one.
    pub fn push(&mut self, owner: &K, scan: J) -> Result<(), J> {
        let of_owner = self.owners.get(owner).map_or(0, |owner| owner.waiting.len());
        // A scan that can start at once does not wait, so it needs no place in the queue.
        let starts = self.waiting == 0 && self.running < self.bounds.running_max;
        let is_full = self.waiting >= self.bounds.waiting_max
            || of_owner >= self.bounds.waiting_per_owner_max;
        if is_full && !starts {
            return Err(scan);
        }
        if of_owner == 0 {
            self.turns.push_back(owner.clone());
        }
        let new = || ScanOwner { running: 0, waiting: VecDeque::new() };
        self.owners.entry(owner.clone()).or_insert_with(new).waiting.push_back(scan);
        self.waiting += 1;
        Ok(())
    }

    /// Takes the scan that starts now, if one waits and there is a place.
    ///
    /// It runs until [`finish`](Self::finish) is called with its owner.
    pub fn start(&mut self) -> Option<(K, J)> {
        if self.running >= self.bounds.running_max {
            return None;
        }
        let below = self.turns.iter().position(|owner| self.running_of(owner) < self.share);
        let owner = self.turns.remove(below.unwrap_or_default())?;
        let entry = self.owners.get_mut(&owner)?;
        let scan = entry.waiting.pop_front()?;
        entry.running += 1;
        self.running += 1;
        self.waiting -= 1;
        if !entry.waiting.is_empty() {
            self.turns.push_back(owner.clone());
        }
        Some((owner, scan))
    }

    /// Frees the place of a scan that [`start`](Self::start) returned.
    pub fn finish(&mut self, owner: &K) {
        let Some(entry) = self.owners.get_mut(owner) else { return };
        entry.running = entry.running.saturating_sub(1);
        self.running = self.running.saturating_sub(1);
        if entry.running == 0 && entry.waiting.is_empty() {
            self.owners.remove(owner);
        }
    }

    /// Removes every waiting scan, so that none of them starts.
    pub fn clear(&mut self) -> Vec<J> {
        self.turns.clear();
        self.waiting = 0;
        let scans = self.owners.values_mut().flat_map(|owner| owner.waiting.drain(..)).collect();
        self.owners.retain(|_, owner| owner.running > 0);
        scans
    }

    /// Returns the number of running scans.
    #[must_use]
    pub const fn running(&self) -> usize {
        self.running
    }

    /// Returns the number of waiting scans.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    fn running_of(&self, owner: &K) -> usize {
        self.owners.get(owner).map_or(0, |owner| owner.running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn queue(running_max: usize, waiting_max: usize, own: usize) -> ScanQueue<char, u32> {
        let bounds = ScanBounds { running_max, waiting_max, waiting_per_owner_max: own };
        ScanQueue::new(bounds)
    }

    /// Starts all scans that may start, and returns their owners.
    fn started(queue: &mut ScanQueue<char, u32>) -> String {
        std::iter::from_fn(|| queue.start()).map(|(owner, _)| owner).collect()
    }

    #[test]
    fn owners_take_turns_whatever_each_has_queued() {
        let mut queue = queue(1, 100, 50);
        (0..50).for_each(|scan| queue.push(&'a', scan).unwrap());
        (0..3).for_each(|scan| queue.push(&'b', scan).unwrap());
        queue.push(&'c', 0).unwrap();
        let order: String = (0..8)
            .map(|_| {
                let (owner, _) = queue.start().unwrap();
                assert!(queue.start().is_none(), "one place");
                queue.finish(&owner);
                owner
            })
            .collect();
        assert_eq!(order, "abcababa");
    }

    #[test]
    fn an_owner_has_all_places_alone_and_half_of_them_beside_another() {
        for (places, alone, beside) in
            [(1, "a", "a"), (2, "aa", "ab"), (3, "aaa", "aba"), (4, "aaaa", "abab")]
        {
            let mut one = queue(places, 100, 50);
            (0..9).for_each(|scan| one.push(&'a', scan).unwrap());
            assert_eq!(started(&mut one), alone);
            let mut two = queue(places, 100, 50);
            (0..9).for_each(|scan| two.push(&'a', scan).unwrap());
            (0..9).for_each(|scan| two.push(&'b', scan).unwrap());
            assert_eq!(started(&mut two), beside);
        }
        // An owner that comes later has the next place.
        let mut late = queue(4, 100, 50);
        (0..9).for_each(|scan| late.push(&'a', scan).unwrap());
        assert_eq!(started(&mut late), "aaaa");
        (0..9).for_each(|scan| late.push(&'b', scan).unwrap());
        for (ended, next) in [('a', "b"), ('a', "b"), ('b', "b"), ('a', "a")] {
            late.finish(&ended);
            assert_eq!(started(&mut late), next, "each has half of them from then on");
        }
    }

    #[test]
    fn beyond_its_bounds_nothing_is_queued() {
        let mut queue = queue(1, 3, 2);
        queue.push(&'a', 0).unwrap();
        assert_eq!(started(&mut queue), "a");
        for scan in [1, 2] {
            queue.push(&'a', scan).unwrap();
        }
        assert_eq!(queue.push(&'a', 3), Err(3), "its own bound");
        queue.push(&'b', 4).unwrap();
        assert_eq!(queue.push(&'c', 5), Err(5), "that of all");
        assert_eq!((queue.running(), queue.waiting()), (1, 3));
        assert_eq!(queue.clear().len(), 3);
        queue.finish(&'a');
        assert_eq!((queue.running(), queue.waiting()), (0, 0));
        assert!(queue.start().is_none() && queue.owners.is_empty());
    }

    proptest! {
        /// Checks any history of pushes and ends.
        ///
        /// The bounds hold, no place is idle while a scan waits, and nothing is lost. An owner
        /// without a running scan waits for at most one scan of each other owner.
        #[test]
        fn no_history_breaks_a_bound_or_starves_an_owner(
            places in 1_usize..6,
            steps in prop::collection::vec((0_u8..3, 0_usize..4), 1..200),
        ) {
            let mut queue = queue(places, 12, 5);
            let (mut running, mut queued) = (Vec::new(), [0_usize; 4]);
            // The number of others' scans that started while an owner without a running scan
            // waited.
            let mut passed = [0_usize; 4];
            for (step, of) in steps {
                let owner = ['a', 'b', 'c', 'd'][of];
                if step < 2 {
                    queued[of] += usize::from(queue.push(&owner, 0).is_ok());
                } else if !running.is_empty() {
                    let ended: char = running.remove(of % running.len());
                    queue.finish(&ended);
                }
                while let Some((owner, _)) = queue.start() {
                    let at = "abcd".find(owner).unwrap();
                    running.push(owner);
                    queued[at] -= 1;
                    for (other, name) in "abcd".chars().enumerate() {
                        let waits = queued[other] > 0 && !running.contains(&name);
                        passed[other] = if waits { passed[other] + 1 } else { 0 };
                        prop_assert!(passed[other] <= 3);
                    }
                }
                prop_assert_eq!(queue.running(), running.len());
                prop_assert_eq!(queue.waiting(), queued.iter().sum::<usize>());
                prop_assert!(running.len() <= places && queue.waiting() <= 12);
                prop_assert!(queued.iter().all(|own| *own <= 5));
                prop_assert!(running.len() == places || queue.waiting() == 0, "an idle place");
            }
        }
    }
}

//! Pure: the order in which endpoints get request slots, within a fair share of all slots.

use std::collections::VecDeque;
use std::hash::Hash;

use hashbrown::HashMap;

/// Request slots, of which no endpoint holds more than a quarter and no workspace more than half.
///
/// Waiting endpoints get their turns round-robin, one slot at a time.
#[derive(Debug)]
pub(super) struct FairShare<E, W> {
    free: usize,
    per_endpoint: usize,
    per_workspace: usize,
    endpoints: HashMap<E, usize>,
    workspaces: HashMap<W, usize>,
    /// The queue for a slot; each endpoint is in it once.
    waiting: VecDeque<(E, W)>,
}

impl<E: Copy + Eq + Hash, W: Clone + Eq + Hash> FairShare<E, W> {
    pub(super) fn new(total: usize) -> Self {
        Self {
            free: total.max(1),
            per_endpoint: (total / 4).max(1),
            per_workspace: (total / 2).max(1),
            endpoints: HashMap::new(),
            workspaces: HashMap::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Takes a slot, or queues the endpoint for one. An endpoint that holds its whole share is not
    /// queued: it asks again when it has given a slot back.
    pub(super) fn take(&mut self, endpoint: E, workspace: &W) -> bool {
        if self.held(endpoint) >= self.per_endpoint {
            return false;
        }
        let others_first = self.waiting.iter().any(|(e, w)| *e != endpoint && self.fits(*e, w));
        if self.fits(endpoint, workspace) && !others_first {
            self.leave(endpoint);
            self.grant(endpoint, workspace);
            return true;
        }
        if !self.waiting.iter().any(|(waits, _)| *waits == endpoint) {
            self.waiting.push_back((endpoint, workspace.clone()));
        }
        false
    }

    /// Gives a slot back. Returns the endpoint that holds it from now on, if one waited.
    pub(super) fn give_back(&mut self, endpoint: E, workspace: &W) -> Option<(E, W)> {
        self.free += 1;
        release(&mut self.endpoints, &endpoint);
        release(&mut self.workspaces, workspace);
        let next = self.waiting.iter().position(|(e, w)| self.fits(*e, w))?;
        let (endpoint, workspace) = self.waiting.remove(next)?;
        self.grant(endpoint, &workspace);
        Some((endpoint, workspace))
    }

    /// Takes the endpoint out of the queue.
    pub(super) fn leave(&mut self, endpoint: E) {
        self.waiting.retain(|(waits, _)| *waits != endpoint);
    }

    /// Returns the number of slots in use by all endpoints.
    pub(super) fn in_use(&self) -> usize {
        self.endpoints.values().sum()
    }

    fn held(&self, endpoint: E) -> usize {
        self.endpoints.get(&endpoint).copied().unwrap_or_default()
    }

    fn fits(&self, endpoint: E, workspace: &W) -> bool {
        let of_workspace = self.workspaces.get(workspace).copied().unwrap_or_default();
        self.free > 0
            && self.held(endpoint) < self.per_endpoint
            && of_workspace < self.per_workspace
    }

    fn grant(&mut self, endpoint: E, workspace: &W) {
        self.free -= 1;
        *self.endpoints.entry(endpoint).or_default() += 1;
        *self.workspaces.entry(workspace.clone()).or_default() += 1;
    }
}

fn release<K: Eq + Hash>(held: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = held.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            held.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_all(
        slots: &mut FairShare<u32, &'static str>,
        endpoint: u32,
        of: &'static str,
    ) -> usize {
        (0..1000).take_while(|_| slots.take(endpoint, &of)).count()
    }

    #[test]
    fn no_endpoint_holds_more_than_a_quarter_and_no_workspace_more_than_half() {
        let mut slots = FairShare::new(16);
        assert_eq!(take_all(&mut slots, 1, "a"), 4);
        assert_eq!(take_all(&mut slots, 2, "a"), 4);
        assert_eq!(take_all(&mut slots, 3, "a"), 0, "its workspace has half");
        assert_eq!(take_all(&mut slots, 4, "b"), 4);
        assert_eq!(take_all(&mut slots, 5, "c"), 4);
        assert_eq!(take_all(&mut slots, 6, "d"), 0, "all are taken");
        assert_eq!(slots.in_use(), 16);
        // A slot of workspace `a` can go to its third endpoint, which waits longest.
        assert_eq!(slots.give_back(1, &"a"), Some((3, "a")));
        assert_eq!(slots.give_back(4, &"b"), Some((6, "d")));
        assert_eq!(slots.give_back(5, &"c"), None, "nobody waits");
        assert!(slots.take(4, &"b"));
    }

    #[test]
    fn places_go_round() {
        let mut slots = FairShare::new(4);
        assert!(slots.take(1, &"a") && slots.take(2, &"b") && slots.take(3, &"c"));
        assert!(slots.take(4, &"d"));
        for (endpoint, of) in [(5, "e"), (6, "f"), (7, "g")] {
            assert!(!slots.take(endpoint, &of) && !slots.take(endpoint, &of));
        }
        let mut held = (1, "a");
        let mut order = Vec::new();
        for _ in 0..6 {
            let next = slots.give_back(held.0, &held.1).unwrap();
            // An endpoint that gave a slot back asks at once for another.
            assert!(!slots.take(held.0, &held.1));
            order.push(next.0);
            held = next;
        }
        assert_eq!(order, [5, 6, 7, 1, 5, 6]);
    }

    #[test]
    fn who_left_gets_nothing_and_blocks_nobody() {
        let mut slots = FairShare::new(1);
        assert!(slots.take(1, &"a"));
        assert!(!slots.take(2, &"b") && !slots.take(3, &"c"));
        slots.leave(2);
        assert_eq!(slots.give_back(1, &"a"), Some((3, "c")));
        assert_eq!(slots.give_back(3, &"c"), None);
        assert_eq!(slots.in_use(), 0);
    }
}

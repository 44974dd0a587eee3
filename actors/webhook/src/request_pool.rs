//! The pool of requests in flight, which all endpoints share, and its counters.
//!
//! The slots may be those of several engines, each of which has a pool of its own over them.
//! Endpoints get slots in turn, within a fair share of all slots.

use std::collections::VecDeque;
use std::fmt;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use postrider_domain::{WebhookId, WorkspaceId};

/// Hands an endpoint the permit for which it waited; an endpoint that has stopped drops it.
type GrantPermit = Box<dyn Fn(WebhookId, RequestPermit) + Send + Sync>;

/// An endpoint, and the number of the pool from which it takes its slots.
///
/// When an engine is restarted, the one before may still have requests of the same endpoint under
/// way.
type Taker = (u64, WebhookId);

/// The request slots of all endpoints, of one engine or of several.
pub struct RequestSlots(Mutex<SlotState>);

struct SlotState {
    share: FairShare<Taker, WorkspaceId>,
    /// The pools by number, each of which hands out slots to its waiting endpoints.
    pools: HashMap<u64, Weak<RequestPool>>,
    last_pool: u64,
}

impl fmt::Debug for RequestSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestSlots({} in use)", self.0.lock().share.in_use())
    }
}

impl RequestSlots {
    /// Creates so many slots.
    #[must_use]
    pub fn new(total: usize) -> Self {
        let share = FairShare::new(total);
        Self(Mutex::new(SlotState { share, pools: HashMap::new(), last_pool: 0 }))
    }

    /// Gives a slot back. Returns its next holder, if one of a running engine waited.
    fn give_back(
        &self,
        taker: Taker,
        workspace: &WorkspaceId,
    ) -> Option<(Arc<RequestPool>, WebhookId, WorkspaceId)> {
        let mut slots = self.0.lock();
        let mut next = slots.share.give_back(taker, workspace);
        while let Some((taker, workspace)) = next {
            if let Some(pool) = slots.pools.get(&taker.0).and_then(Weak::upgrade) {
                return Some((pool, taker.1, workspace));
            }
            next = slots.share.give_back(taker, &workspace);
        }
        None
    }
}

/// The access of an engine to request slots.
///
/// A slot is taken by a [`RequestPermit`], and freed when that is dropped.
pub(super) struct RequestPool {
    slots: Arc<RequestSlots>,
    number: u64,
    grant: GrantPermit,
    in_flight: AtomicUsize,
    delivered: AtomicU64,
    refused: AtomicU64,
    unanswered: AtomicU64,
    latency_us: AtomicU64,
}

/// Counters of deliveries, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestFigures {
    /// Requests in flight now.
    pub in_flight: usize,
    /// Attempts that were answered with success.
    pub delivered: u64,
    /// Attempts that were answered otherwise.
    pub refused: u64,
    /// Attempts that were not answered.
    pub unanswered: u64,
    /// The microseconds that all of them took together.
    pub latency_us: u64,
}

/// The counted outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptResult {
    Delivered,
    Refused,
    Unanswered,
}

impl RequestPool {
    /// Creates a pool over these slots.
    ///
    /// `grant` must not take a lock that is held while a permit is dropped: dropping one calls it.
    pub(super) fn new(
        slots: Arc<RequestSlots>,
        grant: impl Fn(WebhookId, RequestPermit) + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new_cyclic(|pool| {
            let number = {
                let mut slots = slots.0.lock();
                slots.last_pool += 1;
                let number = slots.last_pool;
                slots.pools.insert(number, Weak::clone(pool));
                number
            };
            Self {
                slots,
                number,
                grant: Box::new(grant),
                in_flight: AtomicUsize::new(0),
                delivered: AtomicU64::new(0),
                refused: AtomicU64::new(0),
                unanswered: AtomicU64::new(0),
                latency_us: AtomicU64::new(0),
            }
        })
    }

    pub(super) fn count(&self, how: AttemptResult, latency: Duration) {
        let counter = match how {
            AttemptResult::Delivered => &self.delivered,
            AttemptResult::Refused => &self.refused,
            AttemptResult::Unanswered => &self.unanswered,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let took_us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.latency_us.fetch_add(took_us, Ordering::Relaxed);
    }

    pub(super) fn figures(&self) -> RequestFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RequestFigures {
            in_flight: self.in_flight.load(Ordering::Relaxed),
            delivered: read(&self.delivered),
            refused: read(&self.refused),
            unanswered: read(&self.unanswered),
            latency_us: read(&self.latency_us),
        }
    }

    /// Returns a permit, if a slot is free and it is this endpoint's turn.
    ///
    /// Otherwise one is granted to it later.
    pub(super) fn permit(
        self: &Arc<Self>,
        endpoint: WebhookId,
        workspace: &WorkspaceId,
    ) -> Option<RequestPermit> {
        let taken = self.slots.0.lock().share.take((self.number, endpoint), workspace);
        taken.then(|| RequestPermit::new(Arc::clone(self), endpoint, workspace.clone()))
    }

    /// Takes the endpoint out of the queue for a slot.
    pub(super) fn leave(&self, endpoint: WebhookId) {
        self.slots.0.lock().share.leave((self.number, endpoint));
    }
}

impl Drop for RequestPool {
    fn drop(&mut self) {
        self.slots.0.lock().pools.remove(&self.number);
    }
}

/// The right to one request in flight. Dropping it frees the slot and grants it to the next
/// endpoint.
pub struct RequestPermit {
    pool: Arc<RequestPool>,
    endpoint: WebhookId,
    workspace: WorkspaceId,
}

impl fmt::Debug for RequestPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestPermit({})", self.endpoint)
    }
}

impl RequestPermit {
    fn new(pool: Arc<RequestPool>, endpoint: WebhookId, workspace: WorkspaceId) -> Self {
        pool.in_flight.fetch_add(1, Ordering::Relaxed);
        Self { pool, endpoint, workspace }
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        let Self { pool, endpoint, workspace } = self;
        pool.in_flight.fetch_sub(1, Ordering::Relaxed);
        let next = pool.slots.give_back((pool.number, *endpoint), workspace);
        let Some((pool, endpoint, workspace)) = next else { return };
        let permit = Self::new(Arc::clone(&pool), endpoint, workspace);
        // An endpoint that has stopped drops the permit, which passes it on.
        (pool.grant)(endpoint, permit);
    }
}

/// Request slots, of which no endpoint holds more than a quarter and no workspace more than half.
///
/// Waiting endpoints get their turns round-robin, one slot at a time.
#[derive(Debug)]
struct FairShare<E, W> {
    free: usize,
    per_endpoint: usize,
    per_workspace: usize,
    endpoints: HashMap<E, usize>,
    workspaces: HashMap<W, usize>,
    /// The queue for a slot; each endpoint is in it once.
    waiting: VecDeque<(E, W)>,
}

impl<E: Copy + Eq + Hash, W: Clone + Eq + Hash> FairShare<E, W> {
    fn new(total: usize) -> Self {
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
    fn take(&mut self, endpoint: E, workspace: &W) -> bool {
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
    fn give_back(&mut self, endpoint: E, workspace: &W) -> Option<(E, W)> {
        self.free += 1;
        release(&mut self.endpoints, &endpoint);
        release(&mut self.workspaces, workspace);
        let next = self.waiting.iter().position(|(e, w)| self.fits(*e, w))?;
        let (endpoint, workspace) = self.waiting.remove(next)?;
        self.grant(endpoint, &workspace);
        Some((endpoint, workspace))
    }

    /// Takes the endpoint out of the queue.
    fn leave(&mut self, endpoint: E) {
        self.waiting.retain(|(waits, _)| *waits != endpoint);
    }

    /// Returns the number of slots in use by all endpoints.
    fn in_use(&self) -> usize {
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
    use postrider_domain::Timestamp;

    use super::*;

    type Granted = Arc<Mutex<Vec<RequestPermit>>>;

    fn engine(slots: &Arc<RequestSlots>) -> (Arc<RequestPool>, Granted) {
        let granted = Granted::default();
        let into = Arc::clone(&granted);
        (RequestPool::new(Arc::clone(slots), move |_, permit| into.lock().push(permit)), granted)
    }

    #[test]
    fn a_slot_goes_to_who_waits_for_it_in_another_engine_unless_that_has_ended() {
        let slots = Arc::new(RequestSlots::new(1));
        let workspace = "acme".parse::<WorkspaceId>().unwrap();
        let [(first, _), (second, waits), (third, last)] = [(); 3].map(|()| engine(&slots));
        // A restarted engine has the same endpoints as the one before.
        let endpoint = WebhookId::from_parts(Timestamp::from_millis(1), 1);
        let held = first.permit(endpoint, &workspace).unwrap();
        assert!(second.permit(endpoint, &workspace).is_none());
        assert!(third.permit(endpoint, &workspace).is_none());
        assert_eq!([&first, &second].map(|it| it.figures().in_flight), [1, 0]);
        drop((second, waits));
        drop(held);
        assert_eq!(last.lock().len(), 1, "the one between has ended");
        assert_eq!([&first, &third].map(|it| it.figures().in_flight), [0, 1]);
        let granted = last.lock().pop();
        drop(granted);
        assert!(first.permit(endpoint, &workspace).is_some());
    }

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

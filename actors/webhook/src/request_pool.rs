//! The pool of requests in flight, which all endpoints share, and its counters.
//!
//! The slots may be those of several engines, each of which has a pool of its own over them.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;

use postrider_domain::{WebhookId, WorkspaceId};

use crate::fair_share::FairShare;

/// Hands an endpoint the permit for which it waited; an endpoint that has stopped drops it.
type Grant = Box<dyn Fn(WebhookId, Permit) + Send + Sync>;

/// An endpoint, and the number of the pool from which it takes its slots.
///
/// When an engine is restarted, the one before may still have requests of the same endpoint under
/// way.
type Taker = (u64, WebhookId);

/// The request slots of all endpoints, of one engine or of several.
pub struct RequestSlots(Mutex<Slots>);

struct Slots {
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
        Self(Mutex::new(Slots { share, pools: HashMap::new(), last_pool: 0 }))
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
/// A slot is taken by a [`Permit`], and freed when that is dropped.
pub(super) struct RequestPool {
    slots: Arc<RequestSlots>,
    number: u64,
    grant: Grant,
    in_flight: AtomicUsize,
    delivered: AtomicU64,
    refused: AtomicU64,
    unanswered: AtomicU64,
    latency_us: AtomicU64,
}

/// Counters of deliveries, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
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
pub(super) enum Counted {
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
        grant: impl Fn(WebhookId, Permit) + Send + Sync + 'static,
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

    pub(super) fn count(&self, how: Counted, latency: Duration) {
        let counter = match how {
            Counted::Delivered => &self.delivered,
            Counted::Refused => &self.refused,
            Counted::Unanswered => &self.unanswered,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let took_us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.latency_us.fetch_add(took_us, Ordering::Relaxed);
    }

    pub(super) fn figures(&self) -> Figures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Figures {
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
    ) -> Option<Permit> {
        let taken = self.slots.0.lock().share.take((self.number, endpoint), workspace);
        taken.then(|| Permit::new(Arc::clone(self), endpoint, workspace.clone()))
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
pub struct Permit {
    pool: Arc<RequestPool>,
    endpoint: WebhookId,
    workspace: WorkspaceId,
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit({})", self.endpoint)
    }
}

impl Permit {
    fn new(pool: Arc<RequestPool>, endpoint: WebhookId, workspace: WorkspaceId) -> Self {
        pool.in_flight.fetch_add(1, Ordering::Relaxed);
        Self { pool, endpoint, workspace }
    }
}

impl Drop for Permit {
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

#[cfg(test)]
mod tests {
    use postrider_domain::Timestamp;

    use super::*;

    type Granted = Arc<Mutex<Vec<Permit>>>;

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
}

//! The pool of requests in flight, which all endpoints share, and its counters.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use postrider_domain::{WebhookId, WorkspaceId};

use crate::fair_share::FairShare;

/// Hands an endpoint the permit that it waited for; an endpoint that has stopped drops it.
type Grant = Box<dyn Fn(WebhookId, Permit) + Send + Sync>;

/// The request slots of all endpoints. One is taken by a [`Permit`], and freed when it is dropped.
pub(super) struct RequestPool {
    slots: Mutex<FairShare<WebhookId, WorkspaceId>>,
    grant: Grant,
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
    /// Microseconds that all of them took together.
    pub latency_us: u64,
}

/// How an attempt is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    Delivered,
    Refused,
    Unanswered,
}

impl RequestPool {
    /// A pool of `total` slots. `grant` must not take a lock that is held while a permit is
    /// dropped: dropping one calls it.
    pub(super) fn new(
        total: usize,
        grant: impl Fn(WebhookId, Permit) + Send + Sync + 'static,
    ) -> Self {
        Self {
            slots: Mutex::new(FairShare::new(total)),
            grant: Box::new(grant),
            delivered: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            unanswered: AtomicU64::new(0),
            latency_us: AtomicU64::new(0),
        }
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
            in_flight: self.slots.lock().in_use(),
            delivered: read(&self.delivered),
            refused: read(&self.refused),
            unanswered: read(&self.unanswered),
            latency_us: read(&self.latency_us),
        }
    }

    /// A permit, if a slot is free and it is this endpoint's turn; otherwise one is granted to it
    /// later.
    pub(super) fn permit(
        self: &Arc<Self>,
        endpoint: WebhookId,
        workspace: &WorkspaceId,
    ) -> Option<Permit> {
        let taken = self.slots.lock().take(endpoint, workspace);
        let pool = Arc::clone(self);
        taken.then(|| Permit { pool, endpoint, workspace: workspace.clone() })
    }

    /// Takes the endpoint out of the queue for a slot.
    pub(super) fn leave(&self, endpoint: WebhookId) {
        self.slots.lock().leave(endpoint);
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

impl Drop for Permit {
    fn drop(&mut self) {
        let next = self.pool.slots.lock().give_back(self.endpoint, &self.workspace);
        let Some((endpoint, workspace)) = next else { return };
        let permit = Self { pool: Arc::clone(&self.pool), endpoint, workspace };
        // An endpoint that has stopped drops the permit, which passes it on.
        (self.pool.grant)(endpoint, permit);
    }
}

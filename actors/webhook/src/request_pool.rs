//! The places for requests that all endpoints share, and what is counted of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use postrider_domain::{WebhookId, WorkspaceId};

use super::fair_share::Slots;
use super::{EndpointMessage, Endpoints};

/// The places.
pub(super) struct Pool {
    slots: Mutex<Slots<WebhookId, WorkspaceId>>,
    /// The way to an endpoint whose turn it is.
    endpoints: Arc<Endpoints>,
    delivered: AtomicU64,
    refused: AtomicU64,
    unanswered: AtomicU64,
    latency_us: AtomicU64,
}

/// What is counted of deliveries, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Requests under way.
    pub in_flight: usize,
    /// Tries that were answered with success.
    pub delivered: u64,
    /// Tries that were answered otherwise.
    pub refused: u64,
    /// Tries that were not answered.
    pub unanswered: u64,
    /// Microseconds that all of them took.
    pub latency_us: u64,
}

/// How a try ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    Delivered,
    Refused,
    Unanswered,
}

impl Pool {
    pub(super) fn new(total: usize, endpoints: Arc<Endpoints>) -> Self {
        Self {
            slots: Mutex::new(Slots::new(total)),
            endpoints,
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

    /// A place, if one is free and it is this endpoint's turn; otherwise its actor is sent one
    /// when it is.
    pub(super) fn permit(
        self: &Arc<Self>,
        endpoint: WebhookId,
        workspace: &WorkspaceId,
    ) -> Option<Permit> {
        let taken = self.slots.lock().take(endpoint, workspace);
        let pool = Arc::clone(self);
        taken.then(|| Permit { pool, endpoint, workspace: workspace.clone() })
    }

    /// The endpoint waits for no place any more.
    pub(super) fn leave(&self, endpoint: WebhookId) {
        self.slots.lock().leave(endpoint);
    }
}

/// The right to have one request under way.
pub struct Permit {
    pool: Arc<Pool>,
    endpoint: WebhookId,
    workspace: WorkspaceId,
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Permit({})", self.endpoint)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let next = self.pool.slots.lock().give_back(self.endpoint, &self.workspace);
        let Some((endpoint, workspace)) = next else { return };
        let permit = Self { pool: Arc::clone(&self.pool), endpoint, workspace };
        // If it is gone, dropping the permit passes it on.
        if let Some(actor) = self.pool.endpoints.live(&endpoint) {
            drop(actor.cast(EndpointMessage::Permit(permit)));
        }
    }
}

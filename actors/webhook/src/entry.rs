//! An endpoint's directory entry: it lasts while its actor starts and stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;

use postrider_domain::{Timestamp, WebhookId, WorkspaceId};
use postrider_runtime::directory::Slot;

use crate::endpoint::Endpoint;
use crate::health::Published;
use crate::message::EndpointMessage;

/// One endpoint's slot in the directory: the place of its actor, and its [`EndpointEntry`].
pub type EndpointSlot = Slot<EndpointMessage, EndpointEntry>;

/// The directory's data of an endpoint besides the place of its actor.
#[derive(Debug)]
pub struct EndpointEntry {
    pub(crate) id: WebhookId,
    pub(crate) workspace: WorkspaceId,
    /// The endpoint as it was stored last.
    pub(crate) endpoint: ArcSwap<Endpoint>,
    /// Set if the log has grown, and the actor has not looked since.
    pub(crate) woken: AtomicBool,
    /// Messages of the directory that the actor has not handled yet.
    calls: Arc<AtomicUsize>,
    /// The start of the oldest due delivery's due time, in milliseconds since the epoch.
    ///
    /// `u64::MAX` if there is none.
    pub(crate) due_since_ms: AtomicU64,
    /// The number of deliveries that wait or are under way.
    pub(crate) waiting: AtomicUsize,
    /// Set if the circuit breaker is open, because the endpoint keeps failing.
    pub(crate) breaker_open: AtomicBool,
}

impl EndpointEntry {
    pub(crate) fn new(workspace: WorkspaceId, endpoint: Endpoint) -> Self {
        Self {
            id: endpoint.id,
            workspace,
            endpoint: ArcSwap::from_pointee(endpoint),
            woken: AtomicBool::new(false),
            calls: Arc::default(),
            due_since_ms: AtomicU64::new(u64::MAX),
            waiting: AtomicUsize::new(0),
            breaker_open: AtomicBool::new(false),
        }
    }

    /// Announces a message of the directory to the actor. It must be made before the message is
    /// cast, and travel with it: until it is dropped the actor does not passivate itself.
    pub(crate) fn call(&self) -> Call {
        self.calls.fetch_add(1, Ordering::AcqRel);
        Call(Arc::clone(&self.calls))
    }

    /// Returns the figures that its actor has published.
    pub(crate) fn published(&self) -> Published {
        let due_since = self.due_since_ms.load(Ordering::Relaxed);
        Published {
            waiting: self.waiting.load(Ordering::Relaxed),
            due_since: (due_since < u64::MAX).then(|| Timestamp::from_millis(due_since)),
            breaker_open: self.breaker_open.load(Ordering::Relaxed),
        }
    }

    /// Returns whether the actor may passivate itself.
    ///
    /// It may if the log has not grown since it looked, and its mailbox has no message of the
    /// directory.
    pub(crate) fn may_rest(&self) -> bool {
        !self.woken.load(Ordering::Acquire) && self.calls.load(Ordering::Acquire) == 0
    }
}

/// A message of the directory on its way to an endpoint's actor.
#[derive(Debug)]
pub struct Call(Arc<AtomicUsize>);

impl Drop for Call {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

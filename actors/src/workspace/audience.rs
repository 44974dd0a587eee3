//! Who is told when a workspace's event log has grown.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio::sync::Notify;

use crate::webhook::{EndpointSlot, Webhooks};

/// Those who follow the log of one workspace. Telling nobody costs next to nothing.
#[derive(Default)]
pub(crate) struct Audience {
    /// `None` when there are none.
    endpoints: ArcSwapOption<Vec<Arc<EndpointSlot>>>,
    /// Streams of events.
    streams: Notify,
}

impl Audience {
    /// The endpoints that follow.
    pub(crate) fn endpoints(&self) -> Vec<Arc<EndpointSlot>> {
        self.endpoints.load_full().map_or_else(Vec::new, |endpoints| endpoints.to_vec())
    }

    pub(crate) fn set_endpoints(&self, endpoints: Vec<Arc<EndpointSlot>>) {
        self.endpoints.store((!endpoints.is_empty()).then(|| Arc::new(endpoints)));
    }

    /// Entries that were not there before are durable.
    pub(crate) fn log_has_grown(&self, webhooks: &Webhooks) {
        if let Some(endpoints) = &*self.endpoints.load() {
            endpoints.iter().for_each(|endpoint| webhooks.wake(endpoint));
        }
        self.streams.notify_waiters();
    }

    /// Resolves when the log has grown after the first poll.
    pub(crate) fn growth(&self) -> tokio::sync::futures::Notified<'_> {
        self.streams.notified()
    }
}

impl std::fmt::Debug for Audience {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Audience")
    }
}

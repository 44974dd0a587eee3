//! The subscribers that are notified when a workspace's event log has grown.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio::sync::watch;

use crate::directory::Webhooks;
use crate::entry::EndpointSlot;

/// The maximum of open event streams of one workspace.
const STREAMS_MAX: usize = 100;

/// The subscribers to the log of one workspace. Notifying none costs two loads.
#[derive(Default)]
pub struct LogSubscribers {
    /// The endpoints; `None` if the workspace has none.
    endpoints: ArcSwapOption<Vec<Arc<EndpointSlot>>>,
    /// Wakes open event streams.
    streams: watch::Sender<()>,
}

impl LogSubscribers {
    /// Returns the workspace's endpoints.
    pub fn endpoints(&self) -> Vec<Arc<EndpointSlot>> {
        self.endpoints.load_full().map_or_else(Vec::new, |endpoints| endpoints.to_vec())
    }

    /// Replaces the endpoints. Only [`Webhooks::follow`] may call it.
    pub fn set_endpoints(&self, endpoints: Vec<Arc<EndpointSlot>>) {
        self.endpoints.store((!endpoints.is_empty()).then(|| Arc::new(endpoints)));
    }

    /// Notifies every subscriber. The new entries must be durable.
    pub fn log_has_grown(&self, webhooks: &Webhooks) {
        if let Some(endpoints) = &*self.endpoints.load() {
            endpoints.iter().for_each(|endpoint| webhooks.wake(endpoint));
        }
        if self.streams.receiver_count() > 0 {
            self.streams.send_replace(());
        }
    }

    /// Subscribes an event stream; `None` if there are too many already.
    pub fn stream(&self) -> Option<watch::Receiver<()>> {
        (self.streams.receiver_count() < STREAMS_MAX).then(|| self.streams.subscribe())
    }
}

impl std::fmt::Debug for LogSubscribers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LogSubscribers")
    }
}

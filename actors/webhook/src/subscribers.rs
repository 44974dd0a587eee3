//! Those who are notified when a workspace's event log has grown.

use std::sync::Arc;

use arc_swap::ArcSwapOption;

use tokio::sync::watch;

use crate::{EndpointSlot, Webhooks};

/// Streams of one workspace's events at a time.
const STREAMS_MAX: usize = 100;

/// Those who follow the log of one workspace. Telling nobody costs next to nothing.
#[derive(Default)]
pub struct LogSubscribers {
    /// `None` when there are none.
    endpoints: ArcSwapOption<Vec<Arc<EndpointSlot>>>,
    /// Streams of events.
    streams: watch::Sender<()>,
}

impl LogSubscribers {
    /// The endpoints that follow.
    pub fn endpoints(&self) -> Vec<Arc<EndpointSlot>> {
        self.endpoints.load_full().map_or_else(Vec::new, |endpoints| endpoints.to_vec())
    }

    pub fn set_endpoints(&self, endpoints: Vec<Arc<EndpointSlot>>) {
        self.endpoints.store((!endpoints.is_empty()).then(|| Arc::new(endpoints)));
    }

    /// Entries that were not there before are durable.
    pub fn log_has_grown(&self, webhooks: &Webhooks) {
        if let Some(endpoints) = &*self.endpoints.load() {
            endpoints.iter().for_each(|endpoint| webhooks.wake(endpoint));
        }
        if self.streams.receiver_count() > 0 {
            self.streams.send_replace(());
        }
    }

    /// What tells a stream that the log has grown; `None` when there are as many as may be.
    pub fn stream(&self) -> Option<watch::Receiver<()>> {
        (self.streams.receiver_count() < STREAMS_MAX).then(|| self.streams.subscribe())
    }
}

impl std::fmt::Debug for LogSubscribers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LogSubscribers")
    }
}

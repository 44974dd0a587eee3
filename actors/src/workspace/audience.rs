//! Who is told when a workspace's event log has grown.

use std::sync::Arc;

use arc_swap::ArcSwapOption;

use tokio::sync::watch;

use crate::webhook::{EndpointSlot, Webhooks};
use postrider_store::GroupNumber;

/// Streams of one workspace's events at a time.
const STREAMS_MAX: usize = 100;

/// Those who follow the log of one workspace. Telling nobody costs next to nothing.
#[derive(Default)]
pub(crate) struct Audience {
    /// `None` when there are none.
    endpoints: ArcSwapOption<Vec<Arc<EndpointSlot>>>,
    /// Streams of events.
    streams: watch::Sender<()>,
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
        if self.streams.receiver_count() > 0 {
            self.streams.send_replace(());
        }
    }

    /// What tells a stream that the log has grown; `None` when there are as many as may be.
    pub(super) fn stream(&self) -> Option<watch::Receiver<()>> {
        (self.streams.receiver_count() < STREAMS_MAX).then(|| self.streams.subscribe())
    }
}

/// The groups with entries of the log that nobody was told of: the first and the last.
#[derive(Debug, Default)]
pub(super) struct Untold(Option<(GroupNumber, GroupNumber)>);

impl Untold {
    /// Notes that entries were put into `group`.
    pub(super) fn submitted(&mut self, group: GroupNumber) {
        self.0 = Some((self.0.map_or(group, |(first, _)| first), group));
    }

    /// Whether `group` made some of them durable, which are told now.
    pub(super) fn committed(&mut self, group: GroupNumber) -> bool {
        let Some((_, last)) = self.0.filter(|(first, _)| *first <= group) else { return false };
        self.0 = (last > group).then_some((group + 1, last));
        true
    }
}

impl std::fmt::Debug for Audience {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Audience")
    }
}

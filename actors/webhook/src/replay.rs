//! Delivering events again.

use std::sync::Arc;

use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{EventId, Timestamp};
use postrider_store::StoreError;

use super::actor::{EndpointActor, Loaded};
use super::delivery::Batch;
use super::log_reader;

/// What is delivered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// Every event from this moment on.
    Since(Timestamp),
    /// One event.
    Event(EventId),
    /// What failed and was given up, or waits for another try.
    Failed,
}

/// Why nothing is delivered again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// There is no such webhook.
    #[error("no such webhook")]
    NotFound,
    /// The log has no such event.
    #[error("no such event")]
    NoSuchEvent,
    /// Not now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl ReplayError {
    pub(super) fn restarting() -> Self {
        Unavailable::because(UnavailableReason::Restarting).into()
    }
}

impl EndpointActor {
    /// Queues what is delivered again; says how much that is.
    pub(super) async fn replay(
        &self,
        what: Replay,
        state: &mut Loaded,
    ) -> Result<u64, ReplayError> {
        let (hub, slot) = (Arc::clone(&self.hub), Arc::clone(&self.slot));
        let endpoint = slot.endpoint.load_full();
        let keyed = endpoint.settings.ordered && !endpoint.settings.batch;
        let storage = || Unavailable::because(UnavailableReason::Storage);
        let unreadable = |error: StoreError| {
            tracing::error!(%error, "an event log cannot be read");
            storage()
        };
        let now = self.hub.clock.now();
        match what {
            Replay::Since(since) => {
                let count = move || {
                    log_reader::count_since(hub.store.as_ref(), &slot.workspace, &endpoint, since)
                };
                let counted = tokio::task::spawn_blocking(count).await.map_err(|_| storage())?;
                let (before, count) = counted.map_err(unreadable)?;
                state.line.replay(before);
                Ok(count)
            }
            Replay::Event(id) => {
                let find = move || log_reader::find(hub.store.as_ref(), &slot.workspace, id);
                let found = tokio::task::spawn_blocking(find).await.map_err(|_| storage())?;
                let (sequence, lane) =
                    found.map_err(unreadable)?.ok_or(ReplayError::NoSuchEvent)?;
                let batch = endpoint.settings.batch.then(|| Batch::of([sequence]));
                state.line.deliver_again(sequence, keyed.then_some(lane), batch, now);
                Ok(1)
            }
            Replay::Failed => Ok(state.line.retry_failed(now)),
        }
    }
}

//! Replays: an endpoint's actor queues events for delivery again.

use std::sync::Arc;

use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_store::StoreError;

use super::EndpointActor;
use crate::delivery::Batch;
use crate::log_reader;
use crate::queue::DeliveryQueue;
use crate::replay::{Replay, ReplayError};

/// Adds the events to deliver again to the actor's queue. Returns the number of deliveries.
pub(super) async fn queue(
    actor: &EndpointActor,
    what: Replay,
    queue: &mut DeliveryQueue,
) -> Result<u64, ReplayError> {
    let (services, slot) = (Arc::clone(&actor.services), Arc::clone(&actor.slot));
    let endpoint = slot.endpoint.load_full();
    let keyed = endpoint.settings.ordered && !endpoint.settings.batch;
    let storage = || Unavailable::because(UnavailableReason::Storage);
    let unreadable = |error: StoreError| {
        tracing::error!(%error, "an event log cannot be read");
        storage()
    };
    let now = actor.services.clock.now();
    match what {
        Replay::Since(since) => {
            let count = move || {
                log_reader::count_since(services.store.as_ref(), &slot.workspace, &endpoint, since)
            };
            let counted = tokio::task::spawn_blocking(count).await.map_err(|_| storage())?;
            let (before, count) = counted.map_err(unreadable)?;
            queue.replay(before);
            Ok(count)
        }
        Replay::Event(id) => {
            let find = move || log_reader::find(services.store.as_ref(), &slot.workspace, id);
            let found = tokio::task::spawn_blocking(find).await.map_err(|_| storage())?;
            let (sequence, lane) = found.map_err(unreadable)?.ok_or(ReplayError::NoSuchEvent)?;
            let batch = endpoint.settings.batch.then(|| Batch::of([sequence]));
            queue.replay_one(sequence, keyed.then_some(lane), batch, now);
            Ok(1)
        }
        Replay::Failed => Ok(queue.retry_failed(now)),
    }
}

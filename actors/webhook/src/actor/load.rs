//! The reads of an endpoint's actor: its records at the start, and the log as it grows.

use std::sync::Arc;

use ractor::{ActorProcessingErr, ActorRef};

use postrider_runtime::supervise::Damaged;
use postrider_store::StoreError;

use super::{EndpointActor, EndpointState, READ_AHEAD};
use crate::log_reader::{self, Part, ReadPart};
use crate::message::EndpointMessage;
use crate::queue::DeliveryQueue;
use crate::records;

impl EndpointActor {
    /// Reads the durable state of the endpoint's deliveries.
    pub(super) async fn load(&self) -> Result<EndpointState, ActorProcessingErr> {
        // A predecessor's pending writes must be settled before the state is read.
        self.services.writer.barrier().await?;
        let (services, slot) = (Arc::clone(&self.services), Arc::clone(&self.slot));
        let read = move || records::load(services.store.as_ref(), &slot.workspace, slot.id);
        let stored = tokio::task::spawn_blocking(read).await?.map_err(|error| match error {
            StoreError::Damaged(what) => ActorProcessingErr::from(Damaged(what)),
            error => error.into(),
        })?;
        let now = self.services.clock.now();
        let mut queue = DeliveryQueue::new(&stored.cursor, stored.waiting, now);
        queue.set_rules(self.slot.endpoint.load().queue_rules());
        Ok(EndpointState::new(queue, stored.attempts, stored.cursor))
    }

    /// Starts a read of the log, if the queue has capacity for more.
    ///
    /// New events and replays take turns.
    pub(super) fn read_on(&self, myself: &ActorRef<EndpointMessage>, state: &mut EndpointState) {
        if state.reading {
            return;
        }
        let new = state.queue.wants_more(READ_AHEAD).filter(|_| state.grown);
        let new = new.map(|after| Part { after, until: u64::MAX, is_replay: false });
        let replay = state.queue.wants_replay();
        let replay = replay.map(|(after, until)| Part { after, until, is_replay: true });
        let part = if state.replay_was_read { new.or(replay) } else { replay.or(new) };
        let Some(part) = part else { return };
        if !part.is_replay {
            state.grown = false;
        }
        (state.reading, state.replay_was_read) = (true, part.is_replay);
        let (services, slot) = (Arc::clone(&self.services), Arc::clone(&self.slot));
        let myself = myself.clone();
        let endpoint = slot.endpoint.load_full();
        drop(tokio::task::spawn_blocking(move || {
            let store = services.store.as_ref();
            let read = log_reader::read(store, &slot.workspace, &endpoint, part);
            // An actor that has stopped reads again when it runs again.
            drop(myself.cast(EndpointMessage::LogRead(read)));
        }));
    }

    /// Adds the deliveries that were read to the queue.
    pub(super) fn queue_read(&self, read: ReadPart, state: &mut EndpointState) {
        let ReadPart { part, deliveries, scanned, more, forgotten } = read;
        if part.is_replay {
            state.queue.feed_replays(part.after, deliveries, scanned);
            return;
        }
        state.grown |= more;
        let is_taken = state.queue.feed(part.after, deliveries, scanned);
        if let Some(forgotten) = forgotten.filter(|_| is_taken) {
            self.record_forgotten(forgotten, 0, state);
        }
    }
}

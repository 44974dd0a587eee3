//! What an endpoint's actor has written, and reads when it starts.

use std::sync::Arc;

use ractor::{ActorProcessingErr, ActorRef};
use tokio::task::JoinSet;

use postrider_domain::Timestamp;
use postrider_runtime::supervise::Damaged;
use postrider_runtime::timer::Timer;
use postrider_store::view::codec::encode;
use postrider_store::{Change, StoreError, Table};

use super::actor::{EndpointActor, EndpointMessage, Loaded};
use super::attempt::Tried;
use super::delivery::Attempt;
use super::migrate;
use super::queue::DeliveryQueue;
use super::records::{self, DeliveryAttempt};

/// What stands in place of a type, and as the error, where the log forgot what was to be delivered.
const FORGOTTEN: &str = "forgotten";

impl EndpointActor {
    /// Reads what is durable of the endpoint's deliveries.
    pub(super) async fn load(&self) -> Result<Loaded, ActorProcessingErr> {
        // What a predecessor has put into the writer's queue must be settled before it is read.
        self.hub.writer.barrier().await?;
        let (hub, slot) = (Arc::clone(&self.hub), Arc::clone(&self.slot));
        let read = move || {
            let (store, workspace) = (hub.store.as_ref(), &slot.workspace);
            let mut stored = records::load(store, workspace, slot.id)?;
            migrate::complete(store, workspace, &slot.endpoint.load(), &mut stored)?;
            Ok(stored)
        };
        let stored = tokio::task::spawn_blocking(read).await?.map_err(|error| match error {
            StoreError::Damaged(what) => ActorProcessingErr::from(Damaged(what)),
            error => error.into(),
        })?;
        let mut line = DeliveryQueue::new(&stored.cursor, stored.waiting, self.hub.clock.now());
        line.set_rules(self.slot.endpoint.load().line_rules());
        Ok(Loaded {
            line,
            tries: stored.tries,
            new_tries: Vec::new(),
            tries_being_written: 0,
            held: Vec::new(),
            held_under_way: Vec::new(),
            tasks: JoinSet::new(),
            grown: true,
            reading: false,
            read_again: false,
            dirty: false,
            writing: false,
            written: stored.cursor,
            replies: Vec::new(),
            replies_under_way: Vec::new(),
            timer: Timer::default(),
            busy: 0,
            idling: false,
            drained: None,
            retired: false,
        })
    }

    /// Remembers and warns that the log forgot these events before they were delivered, after so many
    /// tries.
    pub(super) fn note_forgotten(&self, forgotten: (u64, u64), tries: u32, state: &mut Loaded) {
        let (first, last) = forgotten;
        let webhook = self.slot.id;
        tracing::warn!(%webhook, first, last, "events were forgotten before they were delivered");
        state.dirty = true;
        state.new_tries.push(DeliveryAttempt {
            event_id: None,
            batch_event_ids: Vec::new(),
            forgotten: Some(forgotten),
            kind: FORGOTTEN.to_owned(),
            attempt: tries,
            status: None,
            error: Some(FORGOTTEN.to_owned()),
            latency_ms: 0,
            response: None,
            at: self.hub.clock.now(),
            next_retry_at: None,
        });
    }

    /// Has everything written that came to an end. While that is under way the next part collects.
    pub(super) fn write(&self, myself: &ActorRef<EndpointMessage>, state: &mut Loaded) {
        if !state.dirty || state.writing {
            return;
        }
        (state.dirty, state.writing) = (false, true);
        let (workspace, id) = (&self.slot.workspace, self.slot.id);
        state.written = state.line.cursor();
        let cursor = encode(&state.written);
        let mut changes =
            vec![Change::put(Table::Webhooks, records::cursor_key(workspace, id), cursor)];
        for (first, waiting) in state.line.take_changed() {
            let key = records::waiting_key(workspace, id, first);
            changes.push(match waiting {
                Some(waiting) => Change::put(Table::Webhooks, key, encode(&waiting)),
                None => Change::delete(Table::Webhooks, key),
            });
        }
        let kept = self.hub.options.deliveries;
        state.tries.add(workspace, id, &state.new_tries, kept, &mut changes);
        state.tries_being_written = state.new_tries.len();
        state.new_tries.clear();
        state.replies_under_way.append(&mut state.replies);
        state.held_under_way.append(&mut state.held);
        let (myself, writer) = (myself.clone(), self.hub.writer.clone());
        drop(tokio::spawn(async move {
            let written = writer.commit(changes).await;
            // An actor that is gone reads what is durable when it is back.
            drop(myself.cast(EndpointMessage::Flushed(written)));
        }));
    }
}

/// What is remembered of a try.
pub(super) fn row(
    attempt: &Attempt,
    tried: Tried,
    now: Timestamp,
    next: Option<Timestamp>,
) -> DeliveryAttempt {
    DeliveryAttempt {
        event_id: Some(tried.id),
        batch_event_ids: tried.batch_ids,
        forgotten: None,
        kind: tried.kind.to_owned(),
        attempt: attempt.failures + 1,
        status: tried.status,
        error: tried.error.map(str::to_owned),
        latency_ms: u64::try_from(tried.latency.as_millis()).unwrap_or(u64::MAX),
        response: tried.response,
        at: now,
        next_retry_at: next,
    }
}

//! The reads and writes of an endpoint's actor.
//!
//! It reads its records at the start, the log as it grows, and what a replay delivers again. It
//! makes one write at a time, each with everything that ended meanwhile.

use std::sync::Arc;

use postrider_domain::Timestamp;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_runtime::supervise::Damaged;
use postrider_store::view::codec::encode;
use postrider_store::{Change, StoreError, Table};
use ractor::{ActorProcessingErr, ActorRef};

use super::{EndpointActor, EndpointState, READ_AHEAD};
use crate::attempt::PostedAttempt;
use crate::delivery::{EventBatch, StartedAttempt};
use crate::exchanges::ExchangeKey;
use crate::log_reader::{LogPart, ReadPart};
use crate::message::{EndpointMessage, Replay, ReplayError};
use crate::queue::DeliveryQueue;
use crate::records::DeliveryAttempt;
use crate::{log_reader, records};

/// The event type and the error of events that the log no longer had.
const FORGOTTEN: &str = "forgotten";

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
        let new = new.map(|after| LogPart { after, until: u64::MAX, is_replay: false });
        let replay = state.queue.wants_replay();
        let replay = replay.map(|(after, until)| LogPart { after, until, is_replay: true });
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

    /// Adds the events to deliver again to the actor's queue. Returns the number of deliveries.
    pub(super) async fn queue_replay(
        &self,
        what: Replay,
        queue: &mut DeliveryQueue,
    ) -> Result<u64, ReplayError> {
        let (services, slot) = (Arc::clone(&self.services), Arc::clone(&self.slot));
        let endpoint = slot.endpoint.load_full();
        let keyed = endpoint.settings.ordered && !endpoint.settings.batch;
        let storage = || Unavailable::because(UnavailableReason::Storage);
        let unreadable = |error: StoreError| {
            tracing::error!(%error, "an event log cannot be read");
            storage()
        };
        let now = self.services.clock.now();
        match what {
            Replay::Since(since) => {
                let count = move || {
                    log_reader::count_since(
                        services.store.as_ref(),
                        &slot.workspace,
                        &endpoint,
                        since,
                    )
                };
                let counted = tokio::task::spawn_blocking(count).await.map_err(|_| storage())?;
                let (before, count) = counted.map_err(unreadable)?;
                queue.replay(before);
                Ok(count)
            }
            Replay::Event(id) => {
                let find = move || log_reader::find(services.store.as_ref(), &slot.workspace, id);
                let found = tokio::task::spawn_blocking(find).await.map_err(|_| storage())?;
                let (sequence, lane) =
                    found.map_err(unreadable)?.ok_or(ReplayError::NoSuchEvent)?;
                let batch = endpoint.settings.batch.then(|| EventBatch::of([sequence]));
                queue.replay_one(sequence, keyed.then_some(lane), batch, now);
                Ok(1)
            }
            Replay::Failed => Ok(queue.retry_failed(now)),
        }
    }

    /// Records and warns that the log was trimmed past these events before they were delivered.
    ///
    /// They are the first and the last sequence; `attempts` of their delivery have failed.
    pub(super) fn record_forgotten(
        &self,
        forgotten: (u64, u64),
        attempts: u32,
        state: &mut EndpointState,
    ) {
        let (first, last) = forgotten;
        let webhook = self.slot.id;
        tracing::warn!(%webhook, first, last, "events were forgotten before they were delivered");
        state.dirty = true;
        state.new_attempts.push(DeliveryAttempt {
            event_id: None,
            batch_event_ids: Vec::new(),
            forgotten: Some(forgotten),
            kind: FORGOTTEN.to_owned(),
            attempt: attempts,
            status: None,
            error: Some(FORGOTTEN.to_owned()),
            latency_ms: 0,
            response: None,
            at: self.services.clock.now(),
            next_retry_at: None,
        });
    }

    /// Starts a write of everything that has changed. While one is in progress the changes collect
    /// for the next.
    pub(super) fn write(&self, myself: &ActorRef<EndpointMessage>, state: &mut EndpointState) {
        if !state.dirty || state.writing {
            return;
        }
        (state.dirty, state.writing) = (false, true);
        let (workspace, id) = (&self.slot.workspace, self.slot.id);
        state.written = state.queue.cursor();
        let cursor = state.written.encode();
        let mut changes =
            vec![Change::put(Table::Webhooks, records::cursor_key(workspace, id), cursor)];
        for (first, waiting) in state.queue.take_changed() {
            let key = records::waiting_key(workspace, id, first);
            changes.push(match waiting {
                Some(waiting) => Change::put(Table::Webhooks, key, encode(&waiting)),
                None => Change::delete(Table::Webhooks, key),
            });
        }
        let kept = self.services.options.deliveries;
        state.attempts.add(workspace, id, &state.new_attempts, kept, &mut changes);
        state.attempts_in_write = state.new_attempts.len();
        state.new_attempts.clear();
        state.replies_in_write.append(&mut state.replies);
        state.unposted_in_write.append(&mut state.unposted);
        let (myself, writer) = (myself.clone(), self.services.writer.clone());
        drop(tokio::spawn(async move {
            // Ended deliveries must be written: a refusal would repeat them.
            let written = writer.commit_own(changes).await;
            // An actor that has stopped reads the durable state when it runs again.
            drop(myself.cast(EndpointMessage::Flushed(written)));
        }));
    }

    /// Returns the record of an attempt; `next` is the moment of the retry, if there is one.
    ///
    /// The part that is only remembered goes to the exchanges.
    pub(super) fn record(
        &self,
        attempt: &StartedAttempt,
        tried: PostedAttempt,
        now: Timestamp,
        next: Option<Timestamp>,
    ) -> DeliveryAttempt {
        let webhook = self.slot.id;
        let number = attempt.failures + 1;
        let key = ExchangeKey { webhook, event: tried.id, attempt: number, at: now };
        self.services.exchanges.keep(key, tried.exchange);
        DeliveryAttempt {
            event_id: Some(tried.id),
            batch_event_ids: tried.batch_ids,
            forgotten: None,
            kind: tried.kind.to_owned(),
            attempt: number,
            status: tried.status,
            error: tried.error.map(str::to_owned),
            latency_ms: u64::try_from(tried.latency.as_millis()).unwrap_or(u64::MAX),
            response: tried.response,
            at: now,
            next_retry_at: next,
        }
    }
}

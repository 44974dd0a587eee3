//! The writes of an endpoint's actor: one at a time, each with everything that ended meanwhile.

use ractor::ActorRef;

use postrider_domain::Timestamp;
use postrider_store::view::codec::encode;
use postrider_store::{Change, Table};

use super::{EndpointActor, EndpointState};
use crate::attempt::Tried;
use crate::delivery::Attempt;
use crate::exchanges::ExchangeKey;
use crate::message::EndpointMessage;
use crate::records::{self, DeliveryAttempt};

/// The event type and the error of events that the log no longer had.
const FORGOTTEN: &str = "forgotten";

impl EndpointActor {
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
        let cursor = encode(&state.written);
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
        attempt: &Attempt,
        tried: Tried,
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

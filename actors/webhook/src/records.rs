//! Pure: the records of a workspace's endpoints in [`Table::Webhooks`], and their keys.
//!
//! `workspace ‖ 0 ‖ e` holds the endpoints, all in one record: there are at most ten. The state of
//! deliveries is stored for each endpoint, and its actor alone writes it. It is below
//! `workspace ‖ 0 ‖ s ‖ endpoint`: `c` is the cursor in the log. `w ‖ sequence` is a delivery that
//! waits for a retry or was given up. `d ‖ number` has the attempts that were written together.
//!
//! A busy endpoint writes its cursor and its attempts all the time. Both have a version byte and
//! postcard's format, which is shorter than JSON. The other records are JSON.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::{ControlFlow, Deref};
use std::str::FromStr;

use postrider_domain::{EventId, Timestamp, WebhookId, WorkspaceId};
use postrider_store::view::codec::decode;
use postrider_store::{Change, Direction, StoreError, Table, View};
use serde::{Deserialize, Serialize};

use crate::DeliveriesKept;
use crate::delivery::{Delivery, EventBatch};
use crate::endpoint::Endpoint;
use crate::queue::OrderingKey;

/// The maximum of records that one commit deletes.
const DELETE_MAX: usize = 1_000;

/// An endpoint's cursor in the log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// Every event up to this sequence was started.
    pub after: u64,
    /// Deliveries up to there that were in flight and have no record of their own.
    pub open: Vec<OpenDelivery>,
    /// When the first of the failures in a row happened; `None` after a success.
    pub failing_since: Option<Timestamp>,
    /// The replay in progress: the sequences after which and up to which events are delivered
    /// again.
    pub replay: Option<(u64, u64)>,
}

impl Cursor {
    /// Returns its record.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode_binary(self)
    }
}

/// A delivery that was in flight when the cursor was written. It is repeated after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenDelivery {
    /// Sequence of its first event.
    pub first: u64,
    /// Sequence of its last event.
    pub last: u64,
    /// The number of attempts that failed before.
    pub failures: u32,
    /// The contact that the event is about, if the endpoint is ordered.
    pub lane: Option<OrderingKey>,
    /// The events of a batch; `None` of a single event.
    pub batch: Option<EventBatch>,
    /// Set if it is a replay.
    pub is_replay: bool,
}

/// A delivery that failed, or waits behind one that did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingDelivery {
    /// Sequence of its last event.
    pub last: u64,
    /// The number of attempts that failed.
    pub failures: u32,
    /// The time of its retry; `None` if it was given up.
    pub at: Option<Timestamp>,
    /// The contact that the event is about, if the endpoint is ordered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<OrderingKey>,
    /// The events of a batch; `None` of a single event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<EventBatch>,
    /// Set if it is a replay.
    #[serde(rename = "again", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_replay: bool,
}

impl WaitingDelivery {
    /// Returns the delivery that waits, whose first event is `first`.
    pub(super) fn delivery(self, first: u64) -> Delivery {
        let Self { last, lane, batch, is_replay, .. } = self;
        Delivery { first, last, events: None, lane, batch, is_replay }
    }
}

/// One attempt at a delivery, as its endpoint's owner sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryAttempt {
    /// The `webhook-id` header: the event's id, or the batch's; `None` for forgotten events.
    pub event_id: Option<EventId>,
    /// The events of a batch, a hundred at the most; none for a single event.
    pub batch_event_ids: Vec<EventId>,
    /// Sequences of the first and the last event that the log no longer had when they were to be
    /// delivered. The row then is no attempt.
    pub forgotten: Option<(u64, u64)>,
    /// The event's type, `batch` or `forgotten`.
    pub kind: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The HTTP status; `None` if there was no answer.
    pub status: Option<u16>,
    /// The error: `timeout`, `connection_failed`, `blocked_address`, …
    pub error: Option<String>,
    /// The time from request to answer, in milliseconds.
    pub latency_ms: u64,
    /// The beginning of the answer's body, at most 1,024 bytes of it.
    pub response: Option<String>,
    /// The time of its end.
    pub at: Timestamp,
    /// The time of the retry, if there is one.
    pub next_retry_at: Option<Timestamp>,
}

/// The place of an attempt: the number of its record, and its position in that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptId {
    record: u64,
    place: usize,
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dlv_{}_{}", self.record, self.place)
    }
}

impl FromStr for AttemptId {
    type Err = NoSuchAttempt;

    fn from_str(text: &str) -> Result<Self, NoSuchAttempt> {
        let (record, place) =
            text.strip_prefix("dlv_").and_then(|text| text.split_once('_')).ok_or(NoSuchAttempt)?;
        let id = Self {
            record: record.parse().map_err(|_| NoSuchAttempt)?,
            place: place.parse().map_err(|_| NoSuchAttempt)?,
        };
        // A number can be written in several ways; an id has one.
        if id.to_string() == text { Ok(id) } else { Err(NoSuchAttempt) }
    }
}

/// A text that names no attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no such delivery")]
pub struct NoSuchAttempt;

/// A stored attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptAttempt {
    /// Its id, among those of its endpoint.
    pub id: AttemptId,
    /// The attempt.
    pub attempt: DeliveryAttempt,
}

#[cfg(test)]
impl KeptAttempt {
    pub(crate) const fn at_place(record: u64, attempt: DeliveryAttempt) -> Self {
        Self { id: AttemptId { record, place: 0 }, attempt }
    }
}

impl Deref for KeptAttempt {
    type Target = DeliveryAttempt;

    fn deref(&self) -> &DeliveryAttempt {
        &self.attempt
    }
}

/// The first byte of a binary record.
const VERSION: u8 = 1;

fn encode_binary<T: Serialize>(record: &T) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    postrider_domain::event::encode(record, &mut bytes);
    bytes
}

fn decode_binary<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, StoreError> {
    let record = bytes.strip_prefix(&[VERSION]).map(postcard::take_from_bytes);
    match record {
        Some(Ok((record, []))) => Ok(record),
        _ => Err(StoreError::Damaged("a record of a webhook cannot be read".into())),
    }
}

/// Returns the record of attempts that are written together.
pub(super) fn encode_attempts(attempts: &[DeliveryAttempt]) -> Vec<u8> {
    encode_binary(&attempts)
}

/// Decodes the output of [`encode_attempts`].
pub(super) fn decode_attempts(bytes: &[u8]) -> Result<Vec<DeliveryAttempt>, StoreError> {
    decode_binary(bytes)
}

/// The key of a workspace's endpoints.
pub fn endpoints_key(workspace: &WorkspaceId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0, b'e']].concat()
}

fn states_prefix(workspace: &WorkspaceId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0, b's']].concat()
}

fn state_key(workspace: &WorkspaceId, id: WebhookId, kind: &[u8], number: &[u8]) -> Vec<u8> {
    [&states_prefix(workspace), id.as_bytes().as_slice(), kind, number].concat()
}

/// The key of an endpoint's cursor.
pub fn cursor_key(workspace: &WorkspaceId, id: WebhookId) -> Vec<u8> {
    state_key(workspace, id, b"c", &[])
}

/// The key of the waiting delivery whose first event is `first`.
pub fn waiting_key(workspace: &WorkspaceId, id: WebhookId, first: u64) -> Vec<u8> {
    state_key(workspace, id, b"w", &first.to_be_bytes())
}

pub(super) fn tries_key(workspace: &WorkspaceId, id: WebhookId, number: u64) -> Vec<u8> {
    state_key(workspace, id, b"d", &number.to_be_bytes())
}

/// Returns a workspace's endpoints, oldest first.
///
/// # Errors
/// The store fails, or the record is damaged.
pub fn endpoints(store: &dyn View, workspace: &WorkspaceId) -> Result<Vec<Endpoint>, StoreError> {
    let value = store.get(Table::Webhooks, &endpoints_key(workspace))?;
    value.map_or(Ok(Vec::new()), |json| decode(&json))
}

/// The stored state of one endpoint's deliveries.
#[derive(Debug, Default)]
pub(super) struct StoredDeliveries {
    pub(super) cursor: Cursor,
    pub(super) waiting: BTreeMap<u64, WaitingDelivery>,
    pub(super) attempts: AttemptLog,
}

/// The stored records of attempts. Each record holds the attempts of one write.
#[derive(Debug, Default)]
pub(super) struct AttemptLog {
    /// Number, count of attempts and moment of the newest of each record, oldest first.
    chunks: VecDeque<(u64, usize, Timestamp)>,
    total: usize,
    next: u64,
}

impl AttemptLog {
    /// Adds the changes that store these attempts, and delete records that are too many or too old.
    pub(super) fn add(
        &mut self,
        workspace: &WorkspaceId,
        id: WebhookId,
        attempts: &[DeliveryAttempt],
        kept: DeliveriesKept,
        changes: &mut Vec<Change>,
    ) {
        let Some(newest) = attempts.last().map(|newest| newest.at) else { return };
        let key = tries_key(workspace, id, self.next);
        changes.push(Change::put(Table::Webhooks, key, encode_attempts(attempts)));
        self.add_record(self.next, attempts.len(), newest);
        let too_old = |at: Timestamp| at.plus(kept.kept_for) < newest;
        while let Some((number, count, _)) = self
            .chunks
            .pop_front_if(|(_, count, at)| self.total - *count >= kept.kept_max || too_old(*at))
        {
            self.total -= count;
            changes.push(Change::delete(Table::Webhooks, tries_key(workspace, id, number)));
        }
    }

    fn add_record(&mut self, number: u64, count: usize, newest: Timestamp) {
        self.chunks.push_back((number, count, newest));
        self.total += count;
        self.next = number + 1;
    }
}

/// Reads the stored state of one endpoint's deliveries.
pub(super) fn load(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: WebhookId,
) -> Result<StoredDeliveries, StoreError> {
    let mut stored = StoredDeliveries::default();
    let mut outcome = Ok(());
    let prefix = state_key(workspace, id, &[], &[]);
    store.scan(Table::Webhooks, &prefix, None, Direction::Forward, &mut |key, value| {
        outcome = take_record(&mut stored, &key[prefix.len()..], value);
        if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    outcome.map(|()| stored)
}

fn take_record(stored: &mut StoredDeliveries, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
    let damaged = || StoreError::Damaged("a record of a webhook has no such key".into());
    let (kind, number) = key.split_first().ok_or_else(damaged)?;
    let number = number.try_into().map(u64::from_be_bytes);
    match (kind, number) {
        (b'c', _) => stored.cursor = decode_binary(value)?,
        (b'w', Ok(first)) => drop(stored.waiting.insert(first, decode(value)?)),
        (b'd', Ok(number)) => {
            let attempts = decode_attempts(value)?;
            let newest = attempts.last().map_or_else(Timestamp::default, |newest| newest.at);
            stored.attempts.add_record(number, attempts.len(), newest);
        }
        _ => return Err(damaged()),
    }
    Ok(())
}

/// Returns the attempts of an endpoint, newest first.
///
/// # Errors
/// The store fails, or a record is damaged.
pub fn deliveries(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: WebhookId,
    kept: DeliveriesKept,
    now: Timestamp,
) -> Result<Vec<KeptAttempt>, StoreError> {
    let mut all: Vec<KeptAttempt> = Vec::new();
    let mut outcome = Ok(());
    let prefix = state_key(workspace, id, b"d", &[]);
    store.scan(Table::Webhooks, &prefix, None, Direction::Backward, &mut |key, value| {
        // A key without a number is reported as damage when the endpoint's actor starts.
        let record = key[prefix.len()..].try_into().map_or(0, u64::from_be_bytes);
        match decode_attempts(value) {
            Ok(attempts) => {
                let kept = attempts.into_iter().enumerate().rev();
                all.extend(kept.map(|(place, attempt)| KeptAttempt {
                    id: AttemptId { record, place },
                    attempt,
                }));
            }
            Err(error) => outcome = Err(error),
        }
        let enough = all.len() >= kept.kept_max || outcome.is_err();
        if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    outcome?;
    all.truncate(kept.kept_max);
    all.retain(|delivery| delivery.at.plus(kept.kept_for) >= now);
    Ok(all)
}

/// Returns one attempt of an endpoint; `None` if it is not stored, or no longer.
///
/// # Errors
/// The store fails, or the record is damaged.
pub fn delivery(
    store: &dyn View,
    workspace: &WorkspaceId,
    (webhook, id): (WebhookId, AttemptId),
    kept: DeliveriesKept,
    now: Timestamp,
) -> Result<Option<KeptAttempt>, StoreError> {
    let key = tries_key(workspace, webhook, id.record);
    let Some(value) = store.get(Table::Webhooks, &key)? else { return Ok(None) };
    let found = decode_attempts(&value)?.into_iter().nth(id.place);
    let found = found.filter(|attempt| attempt.at.plus(kept.kept_for) >= now);
    Ok(found.map(|attempt| KeptAttempt { id, attempt }))
}

/// Returns the endpoints with stored state of deliveries.
pub(super) fn stored_ids(
    store: &dyn View,
    workspace: &WorkspaceId,
) -> Result<Vec<WebhookId>, StoreError> {
    let prefix = states_prefix(workspace);
    let mut ids: Vec<WebhookId> = Vec::new();
    loop {
        // Skips the rest of the records of the endpoint that was found last.
        let from = ids.last().map(|id| state_key(workspace, *id, &[0xff], &[]));
        let mut found = None;
        let from = from.as_deref();
        store.scan(Table::Webhooks, &prefix, from, Direction::Forward, &mut |key, _| {
            found = key[prefix.len()..].first_chunk().map(|id| WebhookId::from_bytes(*id));
            ControlFlow::Break(())
        })?;
        match found {
            Some(id) => ids.push(id),
            None => return Ok(ids),
        }
    }
}

/// Returns changes that delete the stored state of an endpoint's deliveries, in parts.
///
/// There are none when nothing is left.
pub(super) fn deletions(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: WebhookId,
) -> Result<Vec<Change>, StoreError> {
    let mut changes = Vec::new();
    let prefix = state_key(workspace, id, &[], &[]);
    store.scan(Table::Webhooks, &prefix, None, Direction::Forward, &mut |key, _| {
        changes.push(Change::delete(Table::Webhooks, key));
        if changes.len() < DELETE_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(changes)
}

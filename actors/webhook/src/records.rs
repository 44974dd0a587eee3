//! What the store keeps of a workspace's endpoints, in [`Table::Webhooks`].
//!
//! `workspace ‖ 0 ‖ e` holds the endpoints, all in one record: there are at most ten. What follows
//! a delivery is kept for each endpoint, and written by its actor alone: below
//! `workspace ‖ 0 ‖ s ‖ endpoint` stand `c`, where it is in the log; `w ‖ sequence`, a delivery that
//! waits for another try or was given up; and `d ‖ number`, some tries that were written together.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use postrider_domain::{EventId, Timestamp, WebhookId, WorkspaceId};
use postrider_store::view::codec::{decode, encode};
use postrider_store::{Change, Direction, StoreError, Table, View};

use super::DeliveriesKept;
use super::delivery::{Batch, DisabledReason, Parcel};
use super::endpoint::Endpoint;
use super::ordering::OrderingKey;

/// Records that one commit deletes at the most.
const DELETE_MAX: usize = 1_000;

/// Where an endpoint is in the log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// What is up to here was begun.
    pub after: u64,
    /// What of that had not come to an end, and has no record of its own.
    #[serde(default)]
    pub open: Vec<Open>,
    /// Since when nothing but failures.
    #[serde(default)]
    pub failing_since: Option<Timestamp>,
    /// After which sequence, and up to which, the log is delivered again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<(u64, u64)>,
}

/// A delivery that was under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    pub first: u64,
    pub last: u64,
    pub failures: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<OrderingKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

/// A delivery that failed, or waits for one that did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Sequence of its last event.
    pub last: u64,
    /// How often it failed.
    pub failures: u32,
    /// When it is tried again; `None`: it was given up.
    pub at: Option<Timestamp>,
    /// Whom it is about, if order was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<OrderingKey>,
    /// Which events these are, if they are delivered as an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

impl Waiting {
    /// What waits, from the event of sequence `first` on.
    pub(super) fn parcel(self, first: u64) -> Parcel {
        let Self { last, lane, batch, again, .. } = self;
        Parcel { first, last, events: None, lane, batch, again }
    }
}

/// One try of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryAttempt {
    /// What `webhook-id` said: the event's id, or the batch's; `None` for what was forgotten.
    pub event_id: Option<EventId>,
    /// The events of a batch, a hundred at the most; none for a single event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub batch_event_ids: Vec<EventId>,
    /// Sequences of the first and the last of the events that the log forgot before they were
    /// delivered. Then this is no try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgotten: Option<(u64, u64)>,
    /// The event's type, `batch` or `forgotten`.
    pub kind: String,
    /// Which try this was, from 1.
    pub attempt: u32,
    /// The HTTP status; `None` when there was no answer.
    pub status: Option<u16>,
    /// What went wrong: `timeout`, `connection_failed`, `blocked_address`, …
    pub error: Option<String>,
    /// How long it took, in milliseconds.
    pub latency_ms: u64,
    /// The beginning of the answer's body.
    pub response: Option<String>,
    /// When it ended.
    pub at: Timestamp,
    /// When the next try comes, if one does.
    pub next_retry_at: Option<Timestamp>,
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

/// The key of an endpoint's place in the log.
pub fn cursor_key(workspace: &WorkspaceId, id: WebhookId) -> Vec<u8> {
    state_key(workspace, id, b"c", &[])
}

pub fn waiting_key(workspace: &WorkspaceId, id: WebhookId, first: u64) -> Vec<u8> {
    state_key(workspace, id, b"w", &first.to_be_bytes())
}

pub(super) fn tries_key(workspace: &WorkspaceId, id: WebhookId, number: u64) -> Vec<u8> {
    state_key(workspace, id, b"d", &number.to_be_bytes())
}

/// A workspace's endpoints, oldest first.
pub fn endpoints(store: &dyn View, workspace: &WorkspaceId) -> Result<Vec<Endpoint>, StoreError> {
    let value = store.get(Table::Webhooks, &endpoints_key(workspace))?;
    value.map_or(Ok(Vec::new()), |json| decode(&json))
}

/// What is kept of one endpoint's deliveries.
#[derive(Debug, Default)]
pub(super) struct Stored {
    pub(super) cursor: Cursor,
    pub(super) waiting: BTreeMap<u64, Waiting>,
    pub(super) tries: Tries,
}

/// The records of tries that there are.
#[derive(Debug, Default)]
pub(super) struct Tries {
    /// Number, tries and moment of the newest of each, oldest first.
    chunks: VecDeque<(u64, usize, Timestamp)>,
    total: usize,
    next: u64,
}

impl Tries {
    /// The changes that add these tries and delete those that are too many or too old.
    pub(super) fn add(
        &mut self,
        workspace: &WorkspaceId,
        id: WebhookId,
        tries: &[DeliveryAttempt],
        kept: DeliveriesKept,
        changes: &mut Vec<Change>,
    ) {
        let Some(newest) = tries.last().map(|newest| newest.at) else { return };
        let key = tries_key(workspace, id, self.next);
        changes.push(Change::put(Table::Webhooks, key, encode(&tries)));
        self.note(self.next, tries.len(), newest);
        let too_old = |at: Timestamp| at.plus(kept.kept_for) < newest;
        while let Some((number, count, _)) = self
            .chunks
            .pop_front_if(|(_, count, at)| self.total - *count >= kept.kept_max || too_old(*at))
        {
            self.total -= count;
            changes.push(Change::delete(Table::Webhooks, tries_key(workspace, id, number)));
        }
    }

    fn note(&mut self, number: u64, count: usize, newest: Timestamp) {
        self.chunks.push_back((number, count, newest));
        self.total += count;
        self.next = number + 1;
    }
}

/// Reads what is kept of one endpoint's deliveries.
pub(super) fn load(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: WebhookId,
) -> Result<Stored, StoreError> {
    let mut stored = Stored::default();
    let mut outcome = Ok(());
    let prefix = state_key(workspace, id, &[], &[]);
    store.scan(Table::Webhooks, &prefix, None, Direction::Forward, &mut |key, value| {
        outcome = take(&mut stored, &key[prefix.len()..], value);
        if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    outcome.map(|()| stored)
}

fn take(stored: &mut Stored, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
    let damaged = || StoreError::Damaged("a record of a webhook has no such key".into());
    let (kind, number) = key.split_first().ok_or_else(damaged)?;
    let number = number.try_into().map(u64::from_be_bytes);
    match (kind, number) {
        (b'c', _) => stored.cursor = decode(value)?,
        (b'w', Ok(first)) => drop(stored.waiting.insert(first, decode(value)?)),
        (b'd', Ok(number)) => {
            let tries: Vec<DeliveryAttempt> = decode(value)?;
            let newest = tries.last().map_or_else(Timestamp::default, |newest| newest.at);
            stored.tries.note(number, tries.len(), newest);
        }
        _ => return Err(damaged()),
    }
    Ok(())
}

/// The tries of an endpoint, newest first.
pub fn deliveries(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: WebhookId,
    kept: DeliveriesKept,
    now: Timestamp,
) -> Result<Vec<DeliveryAttempt>, StoreError> {
    let mut all: Vec<DeliveryAttempt> = Vec::new();
    let mut outcome = Ok(());
    let prefix = state_key(workspace, id, b"d", &[]);
    store.scan(Table::Webhooks, &prefix, None, Direction::Backward, &mut |_, value| {
        match decode::<Vec<DeliveryAttempt>>(value) {
            Ok(tries) => all.extend(tries.into_iter().rev()),
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

/// The endpoints that something is kept of.
pub(super) fn stored_ids(
    store: &dyn View,
    workspace: &WorkspaceId,
) -> Result<Vec<WebhookId>, StoreError> {
    let prefix = states_prefix(workspace);
    let mut ids: Vec<WebhookId> = Vec::new();
    loop {
        // On to the first record behind those of the endpoint that was found last.
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

/// Some of the changes that delete everything that is kept of an endpoint's deliveries; none when
/// there is nothing left.
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

/// The `data` of the event that tells of an endpoint that was disabled.
pub fn disabled_data(id: WebhookId, reason: DisabledReason) -> String {
    let data = serde_json::json!({"webhook_id": id.to_string(), "reason": reason.as_str()});
    data.to_string()
}

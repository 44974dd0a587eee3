//! Pure: reads the events for an endpoint from a workspace's event log.

use std::sync::Arc;

use postrider_domain::{EventId, Timestamp, WorkspaceId};
use postrider_store::view::event_log;
use postrider_store::{EventEntry, StoreError, View};

use crate::delivery::{Delivery, EventBatch};
use crate::endpoint::Endpoint;
use crate::queue::OrderingKey;

/// The maximum of events that one read returns.
const EVENTS_MAX: usize = 500;
/// The maximum of events that one read examines.
const EXAMINED_MAX: u64 = 20_000;
/// The maximum of events of a batch.
const BATCH_MAX: usize = 100;
/// The bytes of its events' data with which a batch ends.
const BATCH_BYTES_MAX: usize = 256 * 1024;

/// The result of one read.
#[derive(Debug)]
pub struct ReadPart {
    /// The requested part.
    pub(super) part: LogPart,
    pub(super) deliveries: Vec<Delivery>,
    /// The last sequence that was examined.
    pub(super) scanned: u64,
    /// Set if the log may have more.
    pub(super) more: bool,
    /// Sequences of the first and the last new event that the log no longer has.
    pub(super) forgotten: Option<(u64, u64)>,
}

/// A part of the log to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogPart {
    /// The sequence after which it starts.
    pub(super) after: u64,
    /// The sequence with which it ends.
    pub(super) until: u64,
    /// Set if it is for a replay.
    pub(super) is_replay: bool,
}

/// Reads a part of the log and groups its events into deliveries.
///
/// # Errors
/// The log cannot be read.
pub(super) fn read(
    store: &dyn View,
    workspace: &WorkspaceId,
    endpoint: &Endpoint,
    part: LogPart,
) -> Result<ReadPart, StoreError> {
    let LogPart { after, until, is_replay } = part;
    let mut events: Vec<EventEntry> = Vec::new();
    let (mut scanned, mut more) = (after, false);
    let mut forgotten = None;
    event_log::read(store, workspace, after, &mut |sequence, entry| {
        if sequence > until {
            return false;
        }
        if !is_replay && scanned == after && sequence > after + 1 {
            forgotten = Some((after + 1, sequence - 1));
        }
        scanned = sequence;
        if endpoint.takes(&entry.event) {
            events.push(EventEntry::of(workspace, sequence, entry));
        }
        more = events.len() >= EVENTS_MAX || sequence - after >= EXAMINED_MAX;
        !more
    })?;
    if is_replay && !more {
        // No event is left up to there, even if the log was trimmed.
        scanned = until;
    }
    let size = if endpoint.settings.batch { BATCH_MAX } else { 1 };
    let mut deliveries = Vec::with_capacity(events.len().div_ceil(size));
    let mut events = events.into_iter().peekable();
    while events.peek().is_some() {
        let (mut part, mut bytes) = (Vec::new(), 0);
        while part.len() < size && bytes < BATCH_BYTES_MAX {
            let Some(event) = events.next() else { break };
            bytes += event.event.data_len();
            part.push(event);
        }
        let events: Arc<[EventEntry]> = part.into();
        if let (Some(first), Some(last)) = (events.first(), events.last()) {
            let keyed = endpoint.settings.ordered && !endpoint.settings.batch;
            let lane = keyed.then(|| OrderingKey::of(&first.event));
            let (first, last) = (first.sequence, last.sequence);
            let sequences = || events.iter().map(|event| event.sequence);
            let batch = endpoint.settings.batch.then(|| EventBatch::of(sequences()));
            deliveries.push(Delivery { first, last, events: Some(events), lane, batch, is_replay });
        }
    }
    Ok(ReadPart { part, deliveries, scanned, more, forgotten })
}

/// Reads the events of a delivery again; none are left if the log was trimmed past them.
///
/// They are the same events, whatever types the endpoint takes by now.
pub(super) fn reread(
    store: &dyn View,
    workspace: &WorkspaceId,
    delivery: &Delivery,
) -> Result<Arc<[EventEntry]>, StoreError> {
    let Delivery { first, last, ref batch, .. } = *delivery;
    let mut events: Vec<EventEntry> = Vec::new();
    event_log::read(store, workspace, first - 1, &mut |sequence, entry| {
        let is_one = batch.as_ref().map_or(sequence == first, |batch| batch.has(sequence));
        if sequence <= last && is_one {
            events.push(EventEntry::of(workspace, sequence, entry));
        }
        sequence < last
    })?;
    Ok(events.into())
}

/// Returns the sequence before the first event at or after `since`, and the number of later events.
///
/// Only events that the endpoint takes count. Counting stops after many events: the rest counts in
/// full for an endpoint that takes every type, and not at all for another.
pub(super) fn count_since(
    store: &dyn View,
    workspace: &WorkspaceId,
    endpoint: &Endpoint,
    since: Timestamp,
) -> Result<(u64, u64), StoreError> {
    let before = event_log::before(store, workspace, since)?;
    let (mut count, mut examined, mut seen) = (0, 0, before);
    event_log::read(store, workspace, before, &mut |sequence, entry| {
        count += u64::from(endpoint.takes(&entry.event));
        (examined, seen) = (examined + 1, sequence);
        examined < EXAMINED_MAX
    })?;
    if endpoint.settings.events.is_empty() {
        count += event_log::last_sequence(store, workspace)?.saturating_sub(seen);
    }
    Ok((before, count))
}

/// Returns the sequence and the ordering key of the event with this id, if the log has it.
pub(super) fn find(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: EventId,
) -> Result<Option<(u64, OrderingKey)>, StoreError> {
    let mut found = None;
    let sequence = postrider_domain::LogEntry::sequence_of(id);
    if sequence == 0 {
        return Ok(None);
    }
    event_log::read(store, workspace, sequence - 1, &mut |at, entry| {
        let is_it = at == sequence && entry.id(workspace, sequence) == id;
        found = is_it.then(|| (sequence, OrderingKey::of(&entry.event)));
        false
    })?;
    Ok(found)
}

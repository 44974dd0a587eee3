//! Reading a workspace's event log for an endpoint.

use postrider_store::View;
use std::sync::Arc;

use postrider_domain::{EventId, Timestamp, WorkspaceId};
use postrider_store::EventEntry;
use postrider_store::StoreError;
use postrider_store::view::event_log as log;

use super::delivery::{Batch, Parcel};
use super::endpoint::Endpoint;
use super::ordering::OrderingKey;

/// Events that one reading gives at the most.
const EVENTS_MAX: usize = 500;
/// Events that one reading looks at, at the most.
const LOOKED_AT_MAX: u64 = 20_000;
/// Most events of a batch.
const BATCH_MAX: usize = 100;
/// Bytes of their data, at about which a batch ends.
const BATCH_BYTES_MAX: usize = 256 * 1024;

/// What one reading gave.
#[derive(Debug)]
pub struct Fed {
    /// What was asked for.
    pub(super) part: Part,
    pub(super) parcels: Vec<Parcel>,
    /// The last sequence that was looked at.
    pub(super) scanned: u64,
    /// Whether the log may have more.
    pub(super) more: bool,
    /// From which event to which the log has forgotten what is new to the endpoint.
    pub(super) forgotten: Option<(u64, u64)>,
}

/// What is read of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// What comes after this,
    pub(super) after: u64,
    /// up to this.
    pub(super) until: u64,
    /// Whether somebody asked for it again.
    pub(super) again: bool,
}

/// Reads on.
pub(super) fn read(
    store: &dyn View,
    workspace: &WorkspaceId,
    endpoint: &Endpoint,
    part: Part,
) -> Result<Fed, StoreError> {
    let Part { after, until, again } = part;
    let mut events: Vec<EventEntry> = Vec::new();
    let (mut scanned, mut more) = (after, false);
    let mut forgotten = None;
    log::read(store, workspace, after, &mut |sequence, entry| {
        if sequence > until {
            return false;
        }
        if !again && scanned == after && sequence > after + 1 {
            forgotten = Some((after + 1, sequence - 1));
        }
        scanned = sequence;
        if endpoint.takes(&entry.event) {
            events.push(EventEntry::of(workspace, sequence, entry));
        }
        more = events.len() >= EVENTS_MAX || sequence - after >= LOOKED_AT_MAX;
        !more
    })?;
    if again && !more {
        // Nothing is left up to there, whatever was cut off.
        scanned = until;
    }
    let size = if endpoint.settings.batch { BATCH_MAX } else { 1 };
    let mut parcels = Vec::with_capacity(events.len().div_ceil(size));
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
            let batch = endpoint.settings.batch.then(|| Batch::of(sequences()));
            parcels.push(Parcel { first, last, events: Some(events), lane, batch, again });
        }
    }
    Ok(Fed { part, parcels, scanned, more, forgotten })
}

/// Reads the events of a parcel again; none are left when the log has been cut off behind them.
/// They are what they were, whatever types the endpoint takes by now.
pub(super) fn read_again(
    store: &dyn View,
    workspace: &WorkspaceId,
    parcel: &Parcel,
) -> Result<Arc<[EventEntry]>, StoreError> {
    let Parcel { first, last, ref batch, .. } = *parcel;
    let mut events: Vec<EventEntry> = Vec::new();
    log::read(store, workspace, first - 1, &mut |sequence, entry| {
        let is_one = batch.as_ref().map_or(sequence == first, |batch| batch.has(sequence));
        if sequence <= last && is_one {
            events.push(EventEntry::of(workspace, sequence, entry));
        }
        sequence < last
    })?;
    Ok(events.into())
}

/// The place in the log before the first event at or after `since`, and how many events from there
/// on the endpoint takes. After many it stops counting: an endpoint that takes every type gets all
/// of the rest, of another the rest is left out.
pub(super) fn count_since(
    store: &dyn View,
    workspace: &WorkspaceId,
    endpoint: &Endpoint,
    since: Timestamp,
) -> Result<(u64, u64), StoreError> {
    let before = log::before(store, workspace, since)?;
    let (mut count, mut looked_at, mut seen) = (0, 0, before);
    log::read(store, workspace, before, &mut |sequence, entry| {
        count += u64::from(endpoint.takes(&entry.event));
        (looked_at, seen) = (looked_at + 1, sequence);
        looked_at < LOOKED_AT_MAX
    })?;
    if endpoint.settings.events.is_empty() {
        count += log::last_sequence(store, workspace)?.saturating_sub(seen);
    }
    Ok((before, count))
}

/// The sequence of the event of this id and whom it is about, if the log has it.
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
    log::read(store, workspace, sequence - 1, &mut |at, entry| {
        let is_it = at == sequence && entry.id(workspace, sequence) == id;
        found = is_it.then(|| (sequence, OrderingKey::of(&entry.event)));
        false
    })?;
    Ok(found)
}

//! Reading a workspace's event log.

use std::ops::ControlFlow;

use crate::domain::{EventId, LogEntry, WorkspaceId};
use crate::store::events::{event_log_prefix, scan_event_log};
use crate::store::{Direction, Store, StoreError, Table};

/// Visits the entries after sequence `after`, oldest first, until `visit` says no.
pub(crate) fn read(
    store: &dyn Store,
    workspace: &WorkspaceId,
    after: u64,
    visit: &mut dyn FnMut(u64, LogEntry) -> bool,
) -> Result<(), StoreError> {
    let mut damage = None;
    scan_event_log(store, workspace, after.saturating_add(1), &mut |chunk| {
        for (sequence, entry) in (chunk.first..).zip(LogEntry::decode_all(&chunk.entries)) {
            match entry {
                Ok(_) if sequence <= after => {}
                Ok(entry) => {
                    if !visit(sequence, entry) {
                        return ControlFlow::Break(());
                    }
                }
                Err(error) => {
                    damage = Some(StoreError::Damaged(format!("log entry {sequence}: {error}")));
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    damage.map_or(Ok(()), Err)
}

/// The sequence of the event of this id, if the log has it, or had it before it was cut off there.
pub(crate) fn sequence_of(
    store: &dyn Store,
    workspace: &WorkspaceId,
    id: EventId,
) -> Result<Option<u64>, StoreError> {
    let sequence = LogEntry::sequence_of(id);
    let mut known = None;
    if sequence > 0 {
        read(store, workspace, sequence - 1, &mut |at, entry| {
            let is_it = at != sequence || entry.id(workspace, at) == id;
            known = is_it.then_some(sequence);
            false
        })?;
    }
    Ok(known)
}

/// The sequence of the newest entry; 0 when there is none.
pub(crate) fn last_sequence(store: &dyn Store, workspace: &WorkspaceId) -> Result<u64, StoreError> {
    let prefix = event_log_prefix(workspace);
    let mut newest = Ok(0);
    store.scan(Table::Events, &prefix, None, Direction::Backward, &mut |key, value| {
        let first = key.strip_prefix(prefix.as_slice()).and_then(|key| key.try_into().ok());
        let count = value.first_chunk().map(|count| u32::from_be_bytes(*count));
        newest = match (first.map(u64::from_be_bytes), count) {
            (Some(first), Some(count)) => Ok(first + u64::from(count) - 1),
            _ => Err(StoreError::Damaged(format!("the event log of workspace {workspace}"))),
        };
        ControlFlow::Break(())
    })?;
    newest
}

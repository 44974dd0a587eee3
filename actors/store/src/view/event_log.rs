//! Pure: reads a workspace's event log.

use std::ops::ControlFlow;

use super::log_chunk::{Head, LogChunk, event_log_prefix, scan_event_log, scan_event_log_back};
use super::{Direction, Table, View};
use crate::error::StoreError;
use postrider_domain::{EventId, LogEntry, PublicEvent, Timestamp, WorkspaceId};

/// One entry of a workspace's event log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventEntry {
    /// The entry's id. It is derived from the entry, and the same at every read.
    pub id: EventId,
    /// The entry's sequence in the workspace's log: 1 for the first, without gaps.
    pub sequence: u64,
    /// The time of the event.
    pub at: Timestamp,
    /// The event.
    pub event: PublicEvent,
}

impl EventEntry {
    /// Returns the entry at `sequence` of a workspace's log.
    #[must_use]
    pub fn of(workspace: &WorkspaceId, sequence: u64, entry: LogEntry) -> Self {
        let id = entry.id(workspace, sequence);
        Self { id, sequence, at: entry.at, event: entry.event }
    }
}

/// Visits the entries after sequence `after`, oldest first, until `visit` returns false.
///
/// # Errors
/// Those of [`scan_event_log`]; [`StoreError::Damaged`] if an entry cannot be decoded.
pub fn read(
    store: &dyn View,
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

/// Visits the entries before sequence `before`, newest first, until `visit` returns false.
///
/// # Errors
/// Those of [`read`].
pub fn read_back(
    store: &dyn View,
    workspace: &WorkspaceId,
    before: u64,
    visit: &mut dyn FnMut(u64, LogEntry) -> bool,
) -> Result<(), StoreError> {
    let mut damage = None;
    scan_event_log_back(store, workspace, before.saturating_sub(1), &mut |chunk| {
        // A chunk is read from its start, and is small.
        let mut entries = Vec::new();
        for (sequence, entry) in (chunk.first..before).zip(LogEntry::decode_all(&chunk.entries)) {
            match entry {
                Ok(entry) => entries.push((sequence, entry)),
                Err(error) => {
                    damage = Some(StoreError::Damaged(format!("log entry {sequence}: {error}")));
                    return ControlFlow::Break(());
                }
            }
        }
        for (sequence, entry) in entries.into_iter().rev() {
            if !visit(sequence, entry) {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    damage.map_or(Ok(()), Err)
}

/// Returns the first sequence that the log still has; the highest number if it has none.
fn first_sequence(store: &dyn View, workspace: &WorkspaceId) -> Result<u64, StoreError> {
    let mut first = u64::MAX;
    scan_event_log(store, workspace, 0, &mut |chunk| {
        first = chunk.first;
        ControlFlow::Break(())
    })?;
    Ok(first)
}

/// Visits the entries of these sequences, until `visit` returns false.
///
/// The sequences must be in order, forwards or backwards, each once. Missing entries are skipped.
///
/// # Errors
/// Those of [`read`].
pub fn read_some(
    store: &dyn View,
    workspace: &WorkspaceId,
    mut sequences: &[u64],
    visit: &mut dyn FnMut(u64, LogEntry) -> bool,
) -> Result<(), StoreError> {
    let is_backward = sequences.first() > sequences.last();
    let mut begin = None;
    while let Some(&next) = sequences.first() {
        let mut found = None;
        scan_event_log(store, workspace, next, &mut |chunk| {
            found = Some(chunk);
            ControlFlow::Break(())
        })?;
        // For a missing sequence, the chunk is the next one, or there is none.
        let has = |chunk: &LogChunk, it: u64| {
            (chunk.first..chunk.first + u64::from(chunk.count)).contains(&it)
        };
        let Some(chunk) = found.filter(|chunk| has(chunk, next)) else {
            sequences = &sequences[1..];
            if begin.is_none() {
                // Many may have been deleted with the begin of the log.
                let first = first_sequence(store, workspace)?;
                begin = Some(first);
                sequences = match is_backward {
                    true => &sequences[..sequences.partition_point(|it| *it >= first)],
                    false => &sequences[sequences.partition_point(|it| *it < first)..],
                };
            }
            continue;
        };
        let here = sequences.iter().take_while(|it| has(&chunk, **it)).count();
        let (own, others) = sequences.split_at(here);
        sequences = others;
        let mut wanted = own.to_vec();
        wanted.sort_unstable();
        // A chunk is read from its start, and is small.
        let (mut entries, mut wanted) = (Vec::new(), wanted.into_iter().peekable());
        for (sequence, entry) in (chunk.first..).zip(LogEntry::decode_all(&chunk.entries)) {
            let damaged = |error| StoreError::Damaged(format!("log entry {sequence}: {error}"));
            let entry = entry.map_err(damaged)?;
            if wanted.next_if_eq(&sequence).is_some() {
                entries.push((sequence, entry));
            }
            if wanted.peek().is_none() {
                break;
            }
        }
        if is_backward {
            entries.reverse();
        }
        for (sequence, entry) in entries {
            if !visit(sequence, entry) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Returns the sequence of the last entry before the moment `since`, or 0 if there is none.
///
/// It is a binary search, because entries are ordered by time.
///
/// # Errors
/// Those of [`read`].
pub fn before(
    store: &dyn View,
    workspace: &WorkspaceId,
    since: Timestamp,
) -> Result<u64, StoreError> {
    // Entries up to `before` are before that moment. Entries from `from` on are not.
    let (mut before, mut from) = (0, last_sequence(store, workspace)? + 1);
    while from - before > 1 {
        let middle = before + (from - before) / 2;
        let mut found = None;
        read(store, workspace, middle - 1, &mut |sequence, entry| {
            found = Some((sequence, entry.at));
            false
        })?;
        match found {
            // Trimming may have removed the middle, so the entry found may come after it.
            Some((sequence, at)) if at < since => before = sequence,
            _ => from = middle,
        }
    }
    Ok(before)
}

/// Returns the sequence of the event with this id, if the log holds or held it before its trim.
///
/// # Errors
/// Those of [`read`].
pub fn sequence_of(
    store: &dyn View,
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

/// The end of an event log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct End {
    /// The sequence of the newest entry, or 0 if there is none.
    pub last: u64,
    /// Bytes of all entries that were ever appended.
    pub bytes: u64,
}

/// Returns the sequence of the newest entry, or 0 if there is none.
///
/// # Errors
/// Those of [`end`].
pub fn last_sequence(store: &dyn View, workspace: &WorkspaceId) -> Result<u64, StoreError> {
    Ok(end(store, workspace)?.last)
}

/// Returns the end of a workspace's event log.
///
/// # Errors
/// Those of [`View::scan`]; [`StoreError::Damaged`] if the last chunk cannot be decoded.
pub fn end(store: &dyn View, workspace: &WorkspaceId) -> Result<End, StoreError> {
    let prefix = event_log_prefix(workspace);
    let mut newest = Ok(End::default());
    store.scan(Table::Events, &prefix, None, Direction::Backward, &mut |key, value| {
        let first = key.strip_prefix(prefix.as_slice()).and_then(|key| key.try_into().ok());
        newest = match (first.map(u64::from_be_bytes), Head::decode(value)) {
            (Some(first), Some((head, entries))) => Ok(End {
                last: first + u64::from(head.count) - 1,
                bytes: head.before + entries.len() as u64,
            }),
            _ => Err(StoreError::Damaged(format!("the event log of workspace {workspace}"))),
        };
        ControlFlow::Break(())
    })?;
    newest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::log_chunk::event_log_key;
    use crate::{Change, Group, MemoryStore, Store};
    use postrider_domain::{EventKind, PublicEvent};

    #[test]
    fn the_place_of_a_moment_is_found() {
        let store = MemoryStore::new();
        let workspace: WorkspaceId = "acme".parse().unwrap();
        assert_eq!(before(&store, &workspace, Timestamp::from_millis(5)).unwrap(), 0);
        // The start is cut off; there are three entries of each moment, in chunks of four.
        let moment = |sequence: u64| Timestamp::from_millis(sequence / 3 * 10);
        for first in (9_u64..49).step_by(4) {
            let mut value = 4_u32.to_be_bytes().to_vec();
            value.extend_from_slice(&[0; 8]);
            for sequence in first..first + 4 {
                let event = PublicEvent::Other { kind: EventKind::WebhookTest, data: "{}".into() };
                LogEntry { at: moment(sequence), event }.encode_into(&mut value);
            }
            let key = event_log_key(&workspace, first);
            store.commit(Group::new(None, &[Change::put(Table::Events, key, value)])).unwrap();
        }
        for millis in 0..200 {
            let since = Timestamp::from_millis(millis);
            let expected = (9..49).filter(|sequence| moment(*sequence) < since).max().unwrap_or(0);
            assert_eq!(before(&store, &workspace, since).unwrap(), expected, "{millis}");
        }
        // Backwards the same entries are read, from any place.
        for from in [0, 8, 9, 10, 13, 14, 30, 48, 49, 90, u64::MAX] {
            let mut seen = Vec::new();
            read_back(&store, &workspace, from, &mut |sequence, entry| {
                assert_eq!(entry.at, moment(sequence));
                seen.push(sequence);
                true
            })
            .unwrap();
            let expected: Vec<_> = (9..49).filter(|sequence| *sequence < from).rev().collect();
            assert_eq!(seen, expected, "{from}");
        }
        // Some of them are read, and missing ones are skipped.
        for sequences in [vec![], vec![3, 9, 10, 12, 40, 41, 48, 49, 77], vec![49, 48, 13, 11, 8]] {
            for most in 1..10 {
                let mut seen = Vec::new();
                read_some(&store, &workspace, &sequences, &mut |sequence, entry| {
                    assert_eq!(entry.at, moment(sequence));
                    seen.push(sequence);
                    seen.len() < most
                })
                .unwrap();
                let there = sequences.iter().copied().filter(|it| (9..49).contains(it));
                assert_eq!(seen, there.take(most).collect::<Vec<_>>());
            }
        }
    }
}

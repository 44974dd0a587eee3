//! The sweep of broadcasts past their retention time, part by part.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::sweep::{Look, NEVER, RecordKeys, SLICE_MAX, SweepCursor, after};
use postrider_broadcast::record::{self, Record};
use postrider_domain::{BroadcastId, WorkspaceId};
use postrider_store::view::codec;
use postrider_store::{StoreError, Table};

/// The interval of the search for them.
const ROUND: Duration = Duration::from_secs(3600);
/// The tables with a broadcast's parts, under keys with the same prefix.
const PARTS: [Table; 5] = [
    Table::BroadcastAudience,
    Table::BroadcastPhones,
    Table::BroadcastOutcomes,
    Table::BroadcastReports,
    Table::BroadcastNames,
];

/// Reads some parts of the oldest broadcast past its retention time.
///
/// Its record goes last, so that no part is left without one.
pub(crate) fn long_over(
    look: &Look<'_>,
    cursor: &mut SweepCursor,
) -> Result<RecordKeys, StoreError> {
    let Some((key, id)) = first_over(look, cursor)? else {
        cursor.rest_until(look.now.plus(ROUND));
        return Ok(Vec::new());
    };
    if cursor.from != key {
        cursor.from.clone_from(&key);
        cursor.within.clear();
    }
    let is_midway = !cursor.within.is_empty();
    let mut keys = parts(look, id, &mut cursor.within)?;
    if keys.is_empty() && is_midway {
        keys = parts(look, id, &mut cursor.within)?;
    }
    if !keys.is_empty() {
        return Ok(keys);
    }
    cursor.pass(&key);
    let counts = record::counts_key(look.workspace, id);
    Ok(vec![(Table::Broadcasts, key), (Table::Broadcasts, counts)])
}

/// Reads some of the recipients of the first broadcast that was cancelled before any message was
/// sent.
///
/// Its mark goes last.
pub(crate) fn dropped(look: &Look<'_>, cursor: &mut SweepCursor) -> Result<RecordKeys, StoreError> {
    let prefix = record::dropped_prefix(look.workspace);
    let from = cursor.from.clone();
    let mut mark = None;
    look.scan(Table::Broadcasts, &prefix, &from, &mut |key, _| {
        mark = Some(key.to_vec());
        ControlFlow::Break(())
    })?;
    let id = mark.as_deref().and_then(<[u8]>::last_chunk).map(|id| BroadcastId::from_bytes(*id));
    let (Some(key), Some(id)) = (mark, id) else {
        // A mark that is written later sorts before this, and is found then.
        cursor.pass(&[&*prefix, &[0xff; 9]].concat());
        cursor.rest_until(NEVER);
        return Ok(Vec::new());
    };
    if cursor.from != key {
        cursor.from.clone_from(&key);
        cursor.within.clear();
    }
    let mut keys = parts(look, id, &mut cursor.within)?;
    if cursor.within.is_empty() {
        cursor.pass(&key);
        keys.push((Table::Broadcasts, key));
    }
    Ok(keys)
}

/// Returns the key prefix of the marks of broadcasts whose recipients are to be deleted.
pub(crate) fn marks(workspace: &WorkspaceId) -> Vec<u8> {
    record::dropped_prefix(workspace)
}

/// Returns the first broadcast from the cursor on that is to be deleted, and its record's key.
fn first_over(
    look: &Look<'_>,
    cursor: &mut SweepCursor,
) -> Result<Option<(Vec<u8>, BroadcastId)>, StoreError> {
    let prefix = record::records_prefix(look.workspace);
    let from = cursor.from.clone();
    let mut found = None;
    look.scan(Table::Broadcasts, &prefix, &from, &mut |key, value| {
        let id = key[prefix.len()..].try_into().map(BroadcastId::from_bytes);
        let is_young = |id: BroadcastId| id.timestamp().plus(look.kept.broadcasts) > look.now;
        if id.is_ok_and(is_young) {
            return ControlFlow::Break(());
        }
        // A broadcast whose record cannot be read stays; its readers get the error.
        let record = codec::decode::<Record>(value).ok().filter(|record| record.settled);
        let finished = record.as_ref().and_then(|record| record.finished_at);
        match record {
            Some(record)
                if finished.is_some_and(|at| at.plus(look.kept.broadcasts) <= look.now) =>
            {
                found = Some((key.to_vec(), record.id));
                ControlFlow::Break(())
            }
            _ => {
                cursor.pass_over(key);
                ControlFlow::Continue(())
            }
        }
    })?;
    Ok(found)
}

/// Returns some of a broadcast's parts from `within` on, which holds a table's place and a key.
///
/// It is cleared with the last ones. No part is left only if a pass from the first table finds
/// nothing: a report may have come after an earlier pass.
fn parts(look: &Look<'_>, id: BroadcastId, within: &mut Vec<u8>) -> Result<RecordKeys, StoreError> {
    let prefix = record::parts_prefix(look.workspace, id);
    let mut keys = Vec::new();
    let (first, from) = match within.split_first() {
        Some((table, from)) => (usize::from(*table), from.to_vec()),
        None => (0, Vec::new()),
    };
    within.clear();
    for (place, table) in PARTS.into_iter().enumerate().skip(first) {
        let from = if place == first { from.as_slice() } else { &[] };
        look.scan(table, &prefix, from, &mut |key, _| {
            if keys.len() == SLICE_MAX {
                return ControlFlow::Break(());
            }
            keys.push((table, key.to_vec()));
            ControlFlow::Continue(())
        })?;
        if keys.len() == SLICE_MAX {
            let last = keys.last().map(|(_, key)| after(key)).unwrap_or_default();
            *within = [&[place as u8], last.as_slice()].concat();
            break;
        }
    }
    Ok(keys)
}

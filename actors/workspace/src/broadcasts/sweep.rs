//! Which broadcasts were over long ago, part by part.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::sweep::{Look, NEVER, RecordKeys, SLICE_MAX, SweepCursor, after};
use postrider_broadcast::record::{self, Record};
use postrider_domain::{BroadcastId, WorkspaceId};
use postrider_store::view::codec;
use postrider_store::{StoreError, Table};

/// How often it is looked for them.
const ROUND: Duration = Duration::from_secs(3600);
/// Where a broadcast's parts are, under keys that begin the same.
const PARTS: [Table; 5] = [
    Table::BroadcastAudience,
    Table::BroadcastPhones,
    Table::BroadcastOutcomes,
    Table::BroadcastReports,
    Table::BroadcastNames,
];

/// Reads some of what is kept of the oldest broadcast that was over for longer than it is kept. Its
/// record goes last, so that no part is left without one.
pub(crate) fn long_over(
    look: &Look<'_>,
    cursor: &mut SweepCursor,
) -> Result<RecordKeys, StoreError> {
    let Some((key, id)) = over(look, cursor)? else {
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

/// Reads some of the recipients of the first broadcast that was cancelled before anything of it was
/// sent. Its mark goes last.
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
        // Whichever is written later is before this, and is come to then.
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

/// What the keys of the marks begin with of broadcasts whose recipients are to be deleted.
pub(crate) fn marks(workspace: &WorkspaceId) -> Vec<u8> {
    record::dropped_prefix(workspace)
}

/// The first broadcast from the cursor on that goes, and the key of its record.
fn over(
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
        // One whose record cannot be read stays as it is; its readers get the error.
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

/// Some of a broadcast's parts from `within` on, which is the place of a table and a key. It is
/// cleared with the last ones. None is left when what then begins at the first table finds nothing:
/// a report may have come behind the pass before it.
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

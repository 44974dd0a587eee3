//! Counts what each workspace has in the view, within the commits that change it.
//!
//! [`Table::Meta`] holds a record for each workspace under `usage/ ‖ workspace`: a version byte,
//! then the bytes of its records' keys and values and the number of its broadcasts, both as u64 in
//! big endian. The writer adds the changed counts to each group, so they are as durable as what
//! they count. It reads how large a replaced or deleted record was, which its memtable or a bloom
//! filter mostly answers. The journal and these records themselves are not counted.

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use hashbrown::HashMap;
use postrider_domain::WorkspaceId;

use crate::{Change, Direction, StoreError, Table, View};

/// The prefix of the keys of the counts.
const PREFIX: &[u8] = b"usage/";
const VERSION: u8 = 1;
/// The byte after `workspace ‖ 0` in the key of a broadcast's record in [`Table::Broadcasts`].
const BROADCAST: u8 = b'b';

/// The amount of a workspace's data in the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// The bytes of the keys and values of its records and of its event log.
    pub bytes: u64,
    /// The number of its broadcasts, whatever their status.
    pub broadcasts: u64,
}

/// A change of the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct UsageDelta {
    bytes: i64,
    broadcasts: i64,
}

impl Usage {
    /// Returns the counts of the workspace in the committed view. It costs one look-up.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when the counts cannot be decoded, and the errors of [`View::get`].
    pub fn of(view: &dyn View, workspace: &WorkspaceId) -> Result<Self, StoreError> {
        read_counts(view, &Self::key(workspace))
    }

    /// Counts the workspace's data by reading all of it. Only checks use it, because it takes long.
    ///
    /// # Errors
    /// Those of [`View::scan`].
    pub fn scan(view: &dyn View, workspace: &WorkspaceId) -> Result<Self, StoreError> {
        let prefix = [workspace.as_str().as_bytes(), &[0]].concat();
        let mut found = UsageDelta::default();
        for table in Table::ALL.iter().copied().filter(|table| table.is_of_workspaces()) {
            view.scan(table, &prefix, None, Direction::Forward, &mut |key, value| {
                found.add(1, table, key, prefix.len(), value.len() as u64);
                ControlFlow::Continue(())
            })?;
        }
        Ok(found.applied_to(Self::default()))
    }

    /// Returns the key in [`Table::Meta`] of a workspace's counts.
    #[must_use]
    pub fn key(workspace: &WorkspaceId) -> Vec<u8> {
        key(workspace.as_str().as_bytes())
    }

    fn encode(self) -> Vec<u8> {
        let mut value = vec![VERSION];
        value.extend_from_slice(&self.bytes.to_be_bytes());
        value.extend_from_slice(&self.broadcasts.to_be_bytes());
        value
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let (&VERSION, rest) = value.split_first()? else { return None };
        let (bytes, broadcasts) = rest.split_first_chunk()?;
        let broadcasts = broadcasts.try_into().ok()?;
        Some(Self { bytes: u64::from_be_bytes(*bytes), broadcasts: u64::from_be_bytes(broadcasts) })
    }
}

impl UsageDelta {
    /// Returns the counts after this change.
    fn applied_to(self, before: Usage) -> Usage {
        Usage {
            bytes: before.bytes.saturating_add_signed(self.bytes),
            broadcasts: before.broadcasts.saturating_add_signed(self.broadcasts),
        }
    }

    /// Adds a record, or subtracts it with a negative `sign`.
    fn add(&mut self, sign: i64, table: Table, key: &[u8], own_from: usize, value_bytes: u64) {
        let bytes = value_bytes.saturating_add(key.len() as u64);
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.bytes = self.bytes.saturating_add(sign.saturating_mul(bytes));
        if table == Table::Broadcasts && key.get(own_from) == Some(&BROADCAST) {
            self.broadcasts = self.broadcasts.saturating_add(sign);
        }
    }
}

fn key(workspace: &[u8]) -> Vec<u8> {
    [PREFIX, workspace].concat()
}

fn read_counts(view: &dyn View, key: &[u8]) -> Result<Usage, StoreError> {
    let Some(value) = view.get(Table::Meta, key)? else { return Ok(Usage::default()) };
    Usage::decode(&value).ok_or_else(|| {
        StoreError::Damaged(format!("the counts {} cannot be read", key.escape_ascii()))
    })
}

/// A record's key and its new value; `None` deletes the record.
type CountsRecord = (Vec<u8>, Option<Vec<u8>>);

/// Returns the new counts of the workspaces whose records these uncommitted changes alter.
///
/// The counts are records of [`Table::Meta`]. No two of the changes may name the same record.
///
/// # Errors
/// Those of [`View::get`]. Counts that cannot be decoded start again at 0, with a log line.
pub(crate) fn changed_counts(
    view: &dyn View,
    changes: &[Change],
) -> Result<Vec<CountsRecord>, StoreError> {
    let mut deltas = HashMap::<&[u8], UsageDelta>::new();
    for Change { table, key, value } in changes {
        if !table.is_of_workspaces() {
            continue;
        }
        let Some(end) = key.iter().position(|byte| *byte == 0) else { continue };
        let delta = deltas.entry(&key[..end]).or_default();
        if let Some(value) = value {
            delta.add(1, *table, key, end + 1, value.len() as u64);
        }
        let is_new = value.is_some() && table.is_written_once();
        if is_new {
            debug_assert_eq!(view.value_bytes(*table, key)?, None, "{table:?} {key:?}");
        } else if let Some(bytes) = view.value_bytes(*table, key)? {
            delta.add(-1, *table, key, end + 1, bytes);
        }
    }
    let mut counts = Vec::with_capacity(deltas.len());
    for (workspace, delta) in deltas {
        let key = key(workspace);
        let before = match read_counts(view, &key) {
            Err(StoreError::Damaged(why)) => {
                tracing::error!(why, "a workspace's bytes are counted anew from none");
                Usage::default()
            }
            before => before?,
        };
        let after = delta.applied_to(before);
        // A workspace without data has no record.
        let value = (after != Usage::default()).then(|| after.encode());
        if after != before {
            counts.push((key, value));
        }
    }
    Ok(counts)
}

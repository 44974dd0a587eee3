//! Resumes the broadcasts that are not over, and deletes incomplete drafts.

use std::ops::ControlFlow;

use postrider_domain::{BroadcastId, Timestamp, WorkspaceId};
use postrider_store::{Change, Direction, StoreError, Table, View};

use crate::directory::Broadcasts;
use crate::record::{BroadcastStatus, Record, draft_key, parts_prefix};

/// A broadcast that is not over.
pub struct UnfinishedBroadcast {
    workspace: WorkspaceId,
    id: BroadcastId,
    status: BroadcastStatus,
    due: Timestamp,
}

/// The broadcasts that recovery found.
#[derive(Default)]
pub struct Found {
    unfinished: Vec<UnfinishedBroadcast>,
    /// The changes that delete incomplete drafts.
    sweep: Vec<Change>,
}

/// Reads the broadcasts of all workspaces.
///
/// # Errors
/// The errors of [`View::scan`]. A record that cannot be decoded is logged and left unchanged.
pub fn find(store: &dyn View) -> Result<Found, StoreError> {
    let mut found = Found::default();
    let mut drafts = Vec::new();
    store.scan(Table::Broadcasts, &[], None, Direction::Forward, &mut |key, value| {
        let Some((workspace, rest)) = split(key) else { return ControlFlow::Continue(()) };
        match rest.split_first() {
            Some((b'd', id)) => {
                drafts
                    .extend(id.try_into().ok().map(|id| (workspace, BroadcastId::from_bytes(id))));
            }
            // A record that cannot be decoded stays unchanged. Requests that read it fail.
            Some((b'b', _)) => match serde_json::from_slice::<Record>(value) {
                Ok(record) if !record.settled => found.unfinished.push(UnfinishedBroadcast {
                    workspace,
                    id: record.id,
                    status: record.status,
                    due: record.schedule_at.unwrap_or_default(),
                }),
                Ok(_) => {}
                Err(error) => tracing::error!(%workspace, %error, "a broadcast cannot be read"),
            },
            // The counts of a settled broadcast.
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    for (workspace, id) in drafts {
        found.sweep.extend(draft_changes(store, &workspace, id)?);
    }
    Ok(found)
}

fn split(key: &[u8]) -> Option<(WorkspaceId, &[u8])> {
    let end = key.iter().position(|byte| *byte == 0)?;
    let workspace = std::str::from_utf8(&key[..end]).ok()?.parse().ok()?;
    Some((workspace, &key[end + 1..]))
}

impl Found {
    /// Leaves out the broadcasts of deleted workspaces.
    #[must_use]
    pub fn without(mut self, deleted: &[WorkspaceId]) -> Self {
        self.unfinished.retain(|broadcast| !deleted.contains(&broadcast.workspace));
        self
    }

    /// Deletes incomplete drafts, and resumes the broadcasts that are not over.
    pub async fn resume(self, broadcasts: &Broadcasts) {
        if !self.sweep.is_empty() {
            // If this fails, the next start deletes them.
            drop(broadcasts.services().writer.commit(self.sweep).await);
        }
        for UnfinishedBroadcast { workspace, id, status, due } in self.unfinished {
            let scheduled = status == BroadcastStatus::Scheduled;
            broadcasts.add(&workspace, id, if scheduled { due } else { Timestamp::default() });
            if !scheduled && status != BroadcastStatus::Paused {
                broadcasts.wake(id);
            }
        }
        // Broadcasts that became due while the engine was down start now.
        broadcasts.beat();
    }
}

/// Returns the changes that delete a draft, with the part of its audience that was written.
pub fn draft_changes(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: BroadcastId,
) -> Result<Vec<Change>, StoreError> {
    let mut changes = vec![Change::delete(Table::Broadcasts, draft_key(workspace, id))];
    let prefix = parts_prefix(workspace, id);
    for table in [Table::BroadcastAudience, Table::BroadcastPhones] {
        store.scan(table, &prefix, None, Direction::Forward, &mut |key, _| {
            changes.push(Change::delete(table, key));
            ControlFlow::Continue(())
        })?;
    }
    Ok(changes)
}

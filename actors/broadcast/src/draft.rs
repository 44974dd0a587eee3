//! Pure: the changes that delete a broadcast whose creation was not completed.

use std::ops::ControlFlow;

use postrider_domain::{BroadcastId, WorkspaceId};
use postrider_store::{Change, Direction, StoreError, Table, View};

use crate::record::{draft_key, parts_prefix};

/// Returns the changes that delete a draft, with the part of its audience that was written.
///
/// # Errors
/// The errors of [`View::scan`].
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

//! Deletes a workspace: its traffic ends at once, and its rows are deleted in the background.

use std::sync::Arc;
use std::time::Duration;

use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{AuditEntry, WorkspaceId};
use postrider_runtime::supervise::Placement;
use postrider_store::StoreError;
use postrider_store::writer::CommitError;
use postrider_workspace::core::records;
use postrider_workspace::core::view::unreadable;
use postrider_workspace::mailbox::slot::Slot;
use postrider_workspace::removal;
use postrider_workspace::services::Services;

use super::Admin;
use crate::audit::record_of;

/// The number of tries, and the wait between them, to find out whether a failed commit is durable.
const CERTAIN_TRIES: u32 = 60;
const CERTAIN_WAIT: Duration = Duration::from_secs(1);

/// The reason for which a workspace was not deleted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeleteWorkspaceError {
    /// There is no such workspace.
    #[error("no such workspace")]
    NoSuchWorkspace,
    /// The repeated text is neither its name nor its id.
    #[error("must be the workspace's name or id, repeated")]
    WrongName,
    /// It cannot be deleted now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Deletes a workspace whose name or id is repeated in `name`.
pub(super) async fn delete_workspace(
    admin: &Admin,
    id: &WorkspaceId,
    name: &str,
) -> Result<(), DeleteWorkspaceError> {
    let no_creation = admin.creation.lock().await;
    let no_keys = admin.bucket_changes.lock().await;
    let no_numbers = admin.number_changes.lock().await;
    let no_members = admin.people.hold().await;
    let shared = &admin.shared;
    let slot = shared.workspaces.slot(id).ok_or(DeleteWorkspaceError::NoSuchWorkspace)?;
    if name != id.as_str() && name_of(shared, id).await?.as_deref() != Some(name) {
        return Err(DeleteWorkspaceError::WrongName);
    }
    let mut changes = vec![removal::mark(id)];
    changes.extend(admin.access.deletions_of(id));
    changes.extend(admin.people.deletions_of(id));
    let entry = AuditEntry::new("workspace.delete").target(id).workspace(id);
    changes.push(record_of(shared.clock.now(), &admin.caller, entry));
    if let Err(error) = shared.writer.commit(changes).await {
        // A commit that failed may still be durable. Then the next start would delete data that was
        // acknowledged since.
        if !is_marked_for_certain(shared, id).await {
            return Err(Unavailable::from(error).into());
        }
    }
    let claims = admin.claims.of_workspace(id);
    end_traffic(admin, id, &slot).await;
    removal::begin(shared, id.clone(), Some(slot));
    // The locks are released before the release of the claims. Another workspace's claim of the
    // same name since has another id, and is not released.
    drop((no_creation, no_keys, no_numbers, no_members));
    admin.claims.release(claims).await;
    Ok(())
}

/// Returns the workspace's name, or `None` if its records are damaged.
async fn name_of(shared: &Services, id: &WorkspaceId) -> Result<Option<String>, Unavailable> {
    let (store, of) = (Arc::clone(&shared.store), id.clone());
    let read = tokio::task::spawn_blocking(move || records::load(store.as_ref(), &of));
    match read.await {
        Ok(Ok(found)) => Ok(found.map(|found| found.profile.name)),
        Ok(Err(StoreError::Damaged(_))) => Ok(None),
        Ok(Err(_)) | Err(_) => Err(Unavailable::because(UnavailableReason::Storage)),
    }
}

/// Ends all traffic of a deleted workspace. Afterwards nothing in memory writes for it, except
/// commands in progress.
async fn end_traffic(admin: &Admin, id: &WorkspaceId, slot: &Slot) {
    let shared = &admin.shared;
    admin.access.forget_all_of(id);
    admin.people.forget_all_of(id);
    shared.workspaces.remove(id);
    let actor = slot.live();
    slot.publish(Placement::Parked("it was deleted".into()));
    if let Some(actor) = actor {
        // An actor that has stopped by itself needs nothing.
        drop(actor.stop_and_wait(None, None).await);
    }
    shared.broadcasts.end_all_of(id).await;
    shared.webhooks.end_all_of(&slot.subscribers).await;
    shared.numbers.close_all_of(id);
}

/// Returns whether the workspace is marked as deleted, once the store is open again. Returns
/// `false` if it does not open within a minute.
async fn is_marked_for_certain(shared: &Services, id: &WorkspaceId) -> bool {
    for _ in 0..CERTAIN_TRIES {
        match shared.writer.barrier().await {
            Ok(()) => return is_under_way(shared, id).unwrap_or_default(),
            Err(CommitError::Closed) => return false,
            Err(_) => tokio::time::sleep(CERTAIN_WAIT).await,
        }
    }
    false
}

/// Returns whether rows of a deleted workspace of this id are left.
pub(super) fn is_under_way(shared: &Services, id: &WorkspaceId) -> Result<bool, Unavailable> {
    removal::is_marked(shared.store.as_ref(), id).map_err(unreadable)
}

//! Administration of API keys.

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{KeyId, WorkspaceId};
use postrider_runtime::task::detached;
use postrider_workspace::core::command::Footprint;

use super::{Admin, AdminError};
use crate::access::{CreatedKey, KeyChange, KeyInfo, NewKey};

impl Admin {
    /// Makes a key. The response alone has its text.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace, or the key cannot be made now.
    pub async fn create_key(
        &self,
        id: &WorkspaceId,
        new: NewKey,
    ) -> Result<CreatedKey, AdminError> {
        let (admin, id) = (self.clone(), id.clone());
        detached(async move { admin.create_key_attached(&id, new).await }).await
    }

    async fn create_key_attached(
        &self,
        id: &WorkspaceId,
        new: NewKey,
    ) -> Result<CreatedKey, AdminError> {
        self.shared.disk.admit(Footprint::Grows)?;
        let _in_order = self.bucket_changes.lock().await;
        self.shared.workspaces.slot(id).ok_or(AdminError::NoSuchWorkspace)?;
        Ok(self.access.create_key(id, new, &self.caller).await.map_err(Unavailable::from)?)
    }

    /// Returns a workspace's keys, oldest first.
    ///
    /// # Errors
    /// [`AdminError::NoSuchWorkspace`].
    pub async fn keys(&self, id: &WorkspaceId) -> Result<Vec<KeyInfo>, AdminError> {
        self.shared.workspaces.slot(id).ok_or(AdminError::NoSuchWorkspace)?;
        Ok(self.access.keys_of(id))
    }

    /// Revokes a key; it no longer works when this returns.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace or key, or the change cannot be made now.
    pub async fn revoke_key(&self, id: &WorkspaceId, key: KeyId) -> Result<(), AdminError> {
        let (admin, id) = (self.clone(), id.clone());
        detached(async move { admin.revoke_key_attached(&id, key).await }).await
    }

    async fn revoke_key_attached(&self, id: &WorkspaceId, key: KeyId) -> Result<(), AdminError> {
        // A change in progress must not store the key again.
        let _in_order = self.bucket_changes.lock().await;
        self.shared.workspaces.slot(id).ok_or(AdminError::NoSuchWorkspace)?;
        match self.access.revoke_key(id, key, &self.caller).await.map_err(Unavailable::from)? {
            true => Ok(()),
            false => Err(AdminError::NoSuchKey),
        }
    }

    /// Changes a key; the changes are in force when this returns.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace or key, or the change cannot be made now.
    pub async fn update_key(
        &self,
        id: &WorkspaceId,
        key: KeyId,
        change: KeyChange,
    ) -> Result<KeyInfo, AdminError> {
        let (admin, id) = (self.clone(), id.clone());
        detached(async move { admin.update_key_attached(&id, key, change).await }).await
    }

    async fn update_key_attached(
        &self,
        id: &WorkspaceId,
        key: KeyId,
        change: KeyChange,
    ) -> Result<KeyInfo, AdminError> {
        self.shared.disk.admit(Footprint::Settles)?;
        let _in_order = self.bucket_changes.lock().await;
        self.shared.workspaces.slot(id).ok_or(AdminError::NoSuchWorkspace)?;
        let changed = self.access.update_key(id, key, change, &self.caller).await;
        changed.map_err(Unavailable::from)?.ok_or(AdminError::NoSuchKey)
    }
}

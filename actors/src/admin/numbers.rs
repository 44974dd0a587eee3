//! Messaging numbers.

use crate::domain::{NumberId, WorkspaceId};
use crate::number::info::{NewNumber, NewProvider, NumberInfo, NumberKind, NumberRecord};
use crate::random;
use crate::workspace::actor::Configure;

use super::{Admin, AdminError};

impl Admin {
    /// Connects a number to a workspace.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace, or not now.
    pub async fn connect_number(
        &self,
        id: &WorkspaceId,
        new: NewNumber,
    ) -> Result<NumberInfo, AdminError> {
        self.shared.workspaces.slot(id).ok_or(AdminError::NoSuchWorkspace)?;
        let now = self.shared.clock.now();
        let number = random::number_id(now);
        let stored = (id.clone(), NumberRecord::new(number, now, new, &self.shared.master_keys));
        // First: messages may leave through it as soon as it is durable. Should the outcome be
        // unknown, a number that nobody has does no harm until the next start.
        self.shared.numbers.connect(&stored);
        let info = stored.1.info.clone();
        self.configure(id, Configure::Connect(Box::new(stored.1))).await?;
        Ok(info)
    }

    /// Connects a sandbox number to a workspace.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace, or not now.
    pub async fn connect_sandbox_number(&self, id: &WorkspaceId) -> Result<NumberInfo, AdminError> {
        let new = NewNumber { provider: NewProvider::Sandbox, messages_per_second: None };
        self.connect_number(id, new).await
    }

    /// The workspaces that have a sandbox number, in order: what leaves through one reaches nobody.
    #[must_use]
    pub fn workspaces_with_sandbox_number(&self) -> Vec<WorkspaceId> {
        self.shared.numbers.workspaces_with(NumberKind::Sandbox).into_iter().collect()
    }

    /// A workspace's numbers, oldest first.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace, or not now.
    pub async fn numbers(&self, id: &WorkspaceId) -> Result<Vec<NumberInfo>, AdminError> {
        Ok(self.configure(id, Configure::Read).await?.numbers)
    }

    /// Disconnects a number.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace or number, or not now.
    pub async fn disconnect_number(
        &self,
        id: &WorkspaceId,
        number: NumberId,
    ) -> Result<(), AdminError> {
        self.configure(id, Configure::Disconnect(number)).await?;
        Ok(())
    }
}

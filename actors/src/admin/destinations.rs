//! Where one-time passwords may go.

use postrider_domain::{Destinations, WorkspaceId};
use postrider_workspace::mailbox::message::Configure;

use super::{Admin, AdminError};

impl Admin {
    /// Sets where one-time passwords of a workspace may go.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace, or not now.
    pub async fn set_destinations(
        &self,
        id: &WorkspaceId,
        destinations: Destinations,
    ) -> Result<Destinations, AdminError> {
        let change = Configure::Destinations(destinations);
        Ok(self.configure(id, change).await?.destinations)
    }

    /// Where one-time passwords of a workspace may go.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace, or not now.
    pub async fn destinations(&self, id: &WorkspaceId) -> Result<Destinations, AdminError> {
        Ok(self.configure(id, Configure::Read).await?.destinations)
    }
}

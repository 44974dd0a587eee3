//! Questions to the provider behind a number.

use std::sync::Arc;

use postrider_channel::cloud_api::{CloudApiNumber, ListError, ListedTemplate};
use postrider_domain::{NumberId, WorkspaceId};

use super::Admin;

/// Why the provider behind a number told nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The workspace has no such number, or there is no provider behind it that can be asked.
    #[error("no such number, or none that has a provider to ask")]
    NoProvider,
    /// The provider does not answer, or refuses.
    #[error(transparent)]
    Provider(#[from] ListError),
}

impl Admin {
    /// The templates that the provider has for the account of a workspace's number.
    ///
    /// # Errors
    /// [`AskError`]: there is no provider to ask, or it does not tell.
    pub async fn provider_templates(
        &self,
        id: &WorkspaceId,
        number: NumberId,
    ) -> Result<Vec<ListedTemplate>, AskError> {
        Ok(self.cloud_api(id, number)?.list_templates().await?)
    }

    /// Whether the provider knows a workspace's number and takes its token.
    ///
    /// # Errors
    /// [`AskError`]: there is no provider to ask, it does not answer, or it refuses.
    pub async fn check_number(&self, id: &WorkspaceId, number: NumberId) -> Result<(), AskError> {
        Ok(self.cloud_api(id, number)?.check().await?)
    }

    fn cloud_api(
        &self,
        id: &WorkspaceId,
        number: NumberId,
    ) -> Result<Arc<CloudApiNumber>, AskError> {
        let connected = self.shared.numbers.connected(number);
        let own = connected.filter(|connected| connected.workspace == *id);
        own.and_then(|connected| connected.cloud_api.clone()).ok_or(AskError::NoProvider)
    }
}

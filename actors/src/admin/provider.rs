//! Questions to the provider behind a number.

use std::sync::Arc;

use crate::channel::cloud_api::{CloudApiNumber, ListError, ListedTemplate};
use crate::domain::{NumberId, WorkspaceId};

use crate::number::info::NumberKind;
use crate::workspace::messages::Unavailable;
use crate::workspace::{Template, Workspace};

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

/// Why templates were not brought up to date. Those of some accounts may have been.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SyncTemplatesError {
    /// There is no such workspace.
    #[error("no such workspace")]
    NoSuchWorkspace,
    /// A provider told nothing.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// They cannot be written now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
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

    /// Brings a workspace's templates up to date with those of its numbers' accounts, and gives all
    /// of them. A number without a provider has none but those that are there, and one that the
    /// provider does not list stays.
    ///
    /// # Errors
    /// [`SyncTemplatesError`]: there is no such workspace, a provider does not tell, or not now.
    pub async fn sync_templates(
        &self,
        id: &WorkspaceId,
    ) -> Result<Vec<Template>, SyncTemplatesError> {
        let slot = self.shared.workspaces.slot(id).ok_or(SyncTemplatesError::NoSuchWorkspace)?;
        let workspace = Workspace::new(Arc::clone(&self.shared), slot);
        let mut accounts = Vec::new();
        for number in self.numbers(id).await.map_err(|_| SyncTemplatesError::NoSuchWorkspace)? {
            let account = number.account.map(|account| account.account_id);
            // The numbers of one account share its templates.
            if number.kind == NumberKind::CloudApi && !accounts.contains(&account) {
                let listed = self.provider_templates(id, number.id).await?;
                workspace.take_templates(listed).await?;
                accounts.push(account);
            }
        }
        Ok(workspace.templates().await?)
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

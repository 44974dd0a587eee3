//! Connects, changes, lists and disconnects messaging numbers, and asks their providers.

use std::sync::Arc;

use postrider_channel::cloud_api::{CloudApiNumber, ListError, ListedTemplate, ProviderId};
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{AuditEntry, NumberId, WorkspaceId};
use postrider_number::figures::NumberFigures;
use postrider_number::record::{
    NewNumber, NewProvider, NumberChange, NumberInfo, NumberKind, NumberRecord,
};
use postrider_runtime::random;
use postrider_runtime::task::detached;
use postrider_store::Table;
use postrider_store::view::codec;
use postrider_workspace::core::records;
use postrider_workspace::core::settings::ChangeError;
use postrider_workspace::mailbox::message::Configure;

use super::{Admin, AdminError, HeldClaims};
use crate::engine::restore_hold;

/// The reason for which the provider of a number returned nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The workspace has no such number, or the number has no provider that can be asked.
    #[error("no such number, or none that has a provider to ask")]
    NoProvider,
    /// The provider does not answer, or refuses.
    #[error(transparent)]
    Provider(#[from] ListError),
}

/// Returns whether a change that was refused with this error may still have been made.
fn may_be_durable(error: &AdminError) -> bool {
    let (AdminError::Change(ChangeError::Unavailable(refusal)) | AdminError::Unavailable(refusal)) =
        error
    else {
        return false;
    };
    matches!(refusal.reason, UnavailableReason::Storage | UnavailableReason::Restarting)
}

impl Admin {
    /// Releases the server durably: waiting messages are sent from now on. It changes nothing on a
    /// server that is not held.
    ///
    /// # Errors
    /// [`Unavailable`]: the release could not be recorded; the server is still held then.
    pub async fn release(&self) -> Result<(), Unavailable> {
        let admin = self.clone();
        let releasing = async move {
            let (shared, now) = (&admin.shared, admin.shared.clock.now());
            let changes = restore_hold::release_changes(now, &admin.caller, shared.hold.is_held());
            shared.writer.commit(changes).await.map_err(Unavailable::from)?;
            if shared.hold.end() {
                tracing::info!("the server is released; what waited goes out");
                shared.numbers.release();
            }
            Ok(())
        };
        detached(releasing).await
    }

    /// Connects a number to a workspace. A number with a provider is checked, and its templates are
    /// synchronized, in the background.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace, the provider's number is connected already, or
    /// the change cannot be made now.
    pub async fn connect_number(
        &self,
        id: &WorkspaceId,
        new: NewNumber,
    ) -> Result<NumberInfo, AdminError> {
        let (admin, id) = (self.clone(), id.clone());
        detached(async move { admin.connect_number_attached(&id, new).await }).await
    }

    async fn connect_number_attached(
        &self,
        id: &WorkspaceId,
        new: NewNumber,
    ) -> Result<NumberInfo, AdminError> {
        self.workspace_of(id)?;
        // Of two numbers of one name, one is refused. Other numbers have no name.
        let _in_order = match &new.provider {
            NewProvider::CloudApi(account, _) => {
                let guard = self.number_changes.lock().await;
                if self.is_connected(&account.phone_number_id).await? {
                    return Err(AdminError::NumberConnected);
                }
                Some(guard)
            }
            NewProvider::Sandbox | NewProvider::Custom => None,
        };
        let now = self.shared.clock.now();
        let number = random::number_id(now);
        let stored = (id.clone(), NumberRecord::new(number, now, new, &self.shared.master_keys));
        // First: messages may leave through it as soon as it is durable. If the outcome is unknown,
        // an unused number does no harm until the next start.
        self.shared.numbers.connect(&stored);
        let claim = self.claims.of_number(number);
        if let Some(claim) = claim.clone()
            && !self.claims.claim(claim).await.inspect_err(|_| self.shared.numbers.close(number))?
        {
            self.shared.numbers.close(number);
            return Err(AdminError::NumberConnected);
        }
        let info = stored.1.info.clone();
        let entry = number_connected(&info);
        let connected = self.configure(id, Configure::Connect(Box::new(stored.1)), entry).await;
        if connected.as_ref().is_err_and(|error| !may_be_durable(error)) {
            self.shared.numbers.close(number);
            self.claims.release(claim.into_iter().collect()).await;
        } else if connected.is_err() && claim.is_some() {
            self.claims.doubt(id, number);
        }
        connected?;
        self.sync_templates(id, &info)?;
        Ok(info)
    }

    /// Changes the secrets or the pace of a number, with immediate effect. If it was down because
    /// its account or channel failed, it is tried now. Its queue stays.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace or number, the change is not valid, or not now.
    pub async fn update_number(
        &self,
        id: &WorkspaceId,
        number: NumberId,
        change: NumberChange,
    ) -> Result<NumberInfo, AdminError> {
        let (admin, id) = (self.clone(), id.clone());
        detached(async move { admin.update_number_attached(&id, number, change).await }).await
    }

    async fn update_number_attached(
        &self,
        id: &WorkspaceId,
        number: NumberId,
        change: NumberChange,
    ) -> Result<NumberInfo, AdminError> {
        let _in_order = self.number_changes.lock().await;
        self.workspace_of(id)?;
        let record = self.stored_number(id, number).await?.ok_or(ChangeError::NoSuchNumber)?;
        let entry = number_updated(number, &change);
        let record = record.changed(change, &self.shared.master_keys)?;
        self.claims.change(&record).await?;
        self.configure(id, Configure::Replace(Box::new(record.clone())), entry).await?;
        let info = record.info.clone();
        self.shared.numbers.reconnect(&(id.clone(), record));
        self.sync_templates(id, &info)?;
        Ok(info)
    }

    /// Connects a sandbox number to a workspace.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace, or the change cannot be made now.
    pub async fn connect_sandbox_number(&self, id: &WorkspaceId) -> Result<NumberInfo, AdminError> {
        self.connect_number(id, NewNumber::of(NewProvider::Sandbox)).await
    }

    /// Returns the workspaces with a sandbox number, in order: its messages reach nobody.
    #[must_use]
    pub fn workspaces_with_sandbox_number(&self) -> Vec<WorkspaceId> {
        self.shared.numbers.workspaces_with(NumberKind::Sandbox).into_iter().collect()
    }

    /// Returns the connected numbers of providers, as they are reported to other engines. No number
    /// is connected, changed or disconnected until the result is dropped.
    pub async fn hold_claims(&self) -> HeldClaims {
        let in_order = self.number_changes.clone().lock_owned().await;
        HeldClaims { claims: self.claims.all(), _in_order: in_order }
    }

    /// Closes the numbers whose connection failed and is not durable. Otherwise other engines could
    /// not have them as long as this one runs.
    pub async fn settle_numbers(&self) {
        let doubtful = self.claims.doubtful();
        // The commits of their connections are durable after this barrier, or never will be.
        if doubtful.is_empty() || self.shared.writer.barrier().await.is_err() {
            return;
        }
        let _in_order = self.number_changes.lock().await;
        for (workspace, number) in doubtful {
            match self.stored_number(&workspace, number).await {
                Ok(Some(_)) => {}
                Ok(None) => self.shared.numbers.close(number),
                Err(_) => continue,
            }
            self.claims.settled(number);
        }
    }

    /// Returns a workspace's numbers, oldest first.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace, or it cannot be read now.
    pub async fn numbers(&self, id: &WorkspaceId) -> Result<Vec<NumberInfo>, AdminError> {
        Ok(self.settings(id).await?.numbers)
    }

    /// Returns the reason for which a number cannot send now. It is the provider's text, without
    /// phones and tokens.
    #[must_use]
    pub fn number_trouble(&self, number: NumberId) -> Option<String> {
        self.shared.numbers.trouble(number)
    }

    /// Returns a number's figures: its state, its waiting messages and its rate.
    pub async fn number_figures(&self, number: NumberId) -> NumberFigures {
        self.shared.numbers.figures(number).await
    }

    /// Disconnects a number.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace or number, or the change cannot be made now.
    pub async fn disconnect_number(
        &self,
        id: &WorkspaceId,
        number: NumberId,
    ) -> Result<(), AdminError> {
        let (admin, id) = (self.clone(), id.clone());
        detached(async move {
            let _in_order = admin.number_changes.lock().await;
            let entry = AuditEntry::new("number.disconnect").target(number);
            let claim = admin.claims.of_number(number);
            admin.configure(&id, Configure::Disconnect(number), entry).await?;
            admin.claims.release(claim.into_iter().collect()).await;
            Ok(())
        })
        .await
    }

    /// Returns whether a number with this id at the provider is connected.
    async fn is_connected(&self, id: &ProviderId) -> Result<bool, AdminError> {
        for (workspace, number) in self.shared.numbers.called(id) {
            if self.stored_number(&workspace, number).await?.is_some() {
                return Ok(true);
            }
            // The number was never stored: its connection failed.
            self.shared.numbers.close(number);
        }
        Ok(false)
    }

    async fn stored_number(
        &self,
        id: &WorkspaceId,
        number: NumberId,
    ) -> Result<Option<NumberRecord>, Unavailable> {
        let (store, key) = (Arc::clone(&self.shared.store), records::number_key(id, number));
        let read = tokio::task::spawn_blocking(move || {
            let record = store.get(Table::Workspaces, &key)?;
            record.map(|json| codec::decode(&json)).transpose()
        });
        match read.await {
            Ok(Ok(record)) => Ok(record),
            Ok(Err(error)) => {
                tracing::error!(workspace = %id, %number, %error, "a number cannot be read");
                Err(Unavailable::because(UnavailableReason::Storage))
            }
            Err(_) => Err(Unavailable::because(UnavailableReason::Storage)),
        }
    }

    /// Starts the synchronization of a number's templates with its provider, and a check of the
    /// number.
    fn sync_templates(&self, id: &WorkspaceId, number: &NumberInfo) -> Result<(), AdminError> {
        if number.kind == NumberKind::CloudApi {
            let workspace = self.workspace_of(id)?;
            workspace.sync_templates_soon();
            workspace.check_number_soon(number.id);
        }
        Ok(())
    }

    /// Returns the provider's templates for the account of a workspace's number.
    ///
    /// # Errors
    /// [`AskError`]: there is no provider to ask, or it does not answer.
    pub async fn provider_templates(
        &self,
        id: &WorkspaceId,
        number: NumberId,
    ) -> Result<Vec<ListedTemplate>, AskError> {
        Ok(self.cloud_api(id, number)?.list_templates().await?)
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

fn number_connected(number: &NumberInfo) -> AuditEntry {
    let account = number.account.as_ref();
    AuditEntry::new("number.connect")
        .target(number.id)
        .change("kind", number.kind.as_str())
        .change_if_some("phone_number_id", account.map(|it| it.phone_number_id.as_str()))
        .change("messages_per_second", number.messages_per_second)
        .change_if_some("pool", (!number.pool).then_some(false))
        .change_if_some("portfolio_id", number.portfolio_id.as_deref())
}

fn number_updated(number: NumberId, change: &NumberChange) -> AuditEntry {
    AuditEntry::new("number.update")
        .target(number)
        .change_concealed("token", change.token.is_some())
        .change_concealed("app_secret", change.app_secret.is_some())
        .change_concealed("verify_token", change.verify_token.is_some())
        .change_if_some("messages_per_second", change.messages_per_second)
        .change_if_some("pool", change.pool)
        .change_if_some("portfolio_id", change.portfolio_id.as_ref())
}

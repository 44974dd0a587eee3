//! The secret that signs arriving mails.

use postrider_store::view::codec;
use serde::{Deserialize, Serialize};

use crate::Workspace;
use crate::core::command::{Command, Context};
use postrider_domain::keys::MasterKeys;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{AuditEntry, Timestamp, WorkspaceId};
use postrider_runtime::random;
use postrider_runtime::sealed::Sealed;
use postrider_store::{Change, StoreError, Table, View};
use postrider_webhook::signature::{SECRET_BYTES, WebhookSecret};

use crate::email::key;

/// The e-mail channel of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmailChannel {
    /// The time at which its current secret was set.
    pub created_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct SecretRecord {
    secret: Sealed,
    created_at: Timestamp,
}

fn secret_key(workspace: &WorkspaceId) -> Vec<u8> {
    key(workspace, b's', &[])
}

fn place(workspace: &WorkspaceId) -> Vec<u8> {
    [b"email/", workspace.as_str().as_bytes()].concat()
}

impl Workspace {
    /// Opens the e-mail channel, or gives it another secret, which is shown only here.
    ///
    /// # Errors
    /// [`Unavailable`] when the workspace cannot accept the change now.
    pub async fn open_email(&self) -> Result<(EmailChannel, WebhookSecret), Unavailable> {
        let secret = WebhookSecret::new(random::bytes::<SECRET_BYTES>());
        let sealed = Sealed::seal(&self.shared.master_keys, &place(self.id()), secret.as_bytes());
        let entry = AuditEntry::new("email.open").change_concealed("secret", true);
        let created_at = self.perform_audited(SetSecret(Some(sealed)), entry).await?;
        Ok((EmailChannel { created_at }, secret))
    }

    /// Closes the e-mail channel: no mail is accepted any more. Existing mails stay.
    ///
    /// # Errors
    /// [`Unavailable`] when the workspace cannot accept the change now.
    pub async fn close_email(&self) -> Result<(), Unavailable> {
        self.perform_audited(SetSecret(None), AuditEntry::new("email.close")).await.map(drop)
    }

    /// Returns the e-mail channel, if it is open.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn email_channel(&self) -> Result<Option<EmailChannel>, Unavailable> {
        let found = self.read(read).await?;
        Ok(found.map(|SecretRecord { created_at, .. }| EmailChannel { created_at }))
    }

    /// Returns the secret that signs mails, if the channel is open.
    pub(crate) async fn email_secret(&self) -> Result<Option<WebhookSecret>, Unavailable> {
        let keys = self.shared.master_keys.clone();
        self.read(move |store, workspace| {
            let Some(record) = read(store, workspace)? else { return Ok(None) };
            let opened = record.secret.open(&keys, &place(workspace));
            let secret = opened.map_err(|error| StoreError::Damaged(error.to_string()))?;
            Ok(Some(WebhookSecret::new(secret)))
        })
        .await
    }
}

fn read(store: &dyn View, workspace: &WorkspaceId) -> Result<Option<SecretRecord>, StoreError> {
    let found = store.get(Table::Mails, &secret_key(workspace))?;
    found.map(|json| codec::decode(&json)).transpose()
}

/// Returns the change that puts the secret under the current master key, if it is under another.
pub fn resealed(
    store: &dyn View,
    workspace: &WorkspaceId,
    keys: &MasterKeys,
) -> Result<Option<Change>, StoreError> {
    let Some(SecretRecord { secret, created_at }) = read(store, workspace)? else {
        return Ok(None);
    };
    Ok(secret.resealed(keys, &place(workspace)).map(|secret| {
        let record = SecretRecord { secret, created_at };
        Change::put(Table::Mails, secret_key(workspace), codec::encode(&record))
    }))
}

/// Sets or removes the secret. Answers with the time of the change.
struct SetSecret(Option<Sealed>);

impl Command for SetSecret {
    type Answer = Timestamp;
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Timestamp, Unavailable> {
        let (key, created_at) = (secret_key(&context.core.id), context.now());
        match self.0 {
            Some(secret) => {
                context.put_json(Table::Mails, key, &SecretRecord { secret, created_at })
            }
            None => context.delete(Table::Mails, key),
        }
        Ok(created_at)
    }
}

#[cfg(test)]
mod golden;

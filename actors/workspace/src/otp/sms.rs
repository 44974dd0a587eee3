//! The SMS gateway of a workspace: its address, and the secret for its requests and receipts.
//!
//! [`Table::Workspaces`] has it under `workspace ‖ 0 ‖ sms`, with its secret encrypted.

use postrider_domain::event::chain::TryStatus;
use postrider_domain::keys::MasterKeys;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{AuditEntry, RequestId, Timestamp, WorkspaceId};
use postrider_runtime::random;
use postrider_runtime::sealed::Sealed;
use postrider_store::view::codec;
use postrider_store::{Change, StoreError, Table, View};
use postrider_webhook::signature::{SECRET_BYTES, WebhookSecret};
use postrider_webhook::ssrf::WebhookUrlError;
use serde::{Deserialize, Serialize};

use crate::Workspace;
use crate::core::command::{Command, Context};
use crate::core::records::sms_key;
use crate::otp::step_worker::SettleStep;

/// The maximum difference between a receipt's moment and now, in seconds.
const TOLERANCE: u64 = 300;

/// The route by which SMS leave a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SmsRoute {
    /// Into the sandbox's messages.
    Sandbox,
    /// By signed HTTP requests.
    Http {
        /// The URL of the gateway.
        url: String,
    },
}

/// The SMS gateway of a workspace, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmsInfo {
    /// The route of SMS.
    pub route: SmsRoute,
    /// The sender of SMS.
    pub sender: Option<String>,
    /// The time at which it was set.
    pub created_at: Timestamp,
}

/// A gateway that can be called.
pub(crate) struct SmsGateway {
    pub(crate) route: SmsRoute,
    pub(crate) sender: Option<String>,
    pub(crate) secret: WebhookSecret,
}

/// The report of a receipt on a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmsReceipt {
    /// The request.
    pub request_id: RequestId,
    /// The number of the try.
    pub step: u8,
    /// Set if the message arrived; otherwise it failed.
    pub delivered: bool,
    /// The gateway's error code, if it gave one.
    pub error_code: Option<u32>,
}

/// The reason why a gateway was not set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetSmsError {
    /// Requests to the URL are not allowed.
    #[error(transparent)]
    Url(#[from] WebhookUrlError),
    /// The change cannot be taken now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// The reason why a receipt was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SmsReceiptError {
    /// The workspace has no gateway that posts receipts.
    #[error("there is no such SMS channel")]
    NotFound,
    /// The receipt was not signed with the secret in the last five minutes.
    #[error("the signature is wrong or too old")]
    BadSignature,
    /// The receipt cannot be taken now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

#[derive(Serialize, Deserialize)]
struct SmsRecord {
    route: SmsRoute,
    sender: Option<String>,
    secret: Sealed,
    created_at: Timestamp,
}

fn place(workspace: &WorkspaceId) -> Vec<u8> {
    [b"sms/", workspace.as_str().as_bytes()].concat()
}

impl Workspace {
    /// Sets the SMS gateway, in place of an earlier one. Returns the secret if it was generated.
    ///
    /// # Errors
    /// [`SetSmsError`]: requests may not go there, or not now.
    pub async fn set_sms(
        &self,
        route: SmsRoute,
        sender: Option<String>,
        secret: Option<WebhookSecret>,
    ) -> Result<(SmsInfo, Option<WebhookSecret>), SetSmsError> {
        if let SmsRoute::Http { url } = &route {
            self.shared.webhooks.options.addresses.check_url(url)?;
        }
        let made = match (&secret, &route) {
            (None, SmsRoute::Http { .. }) => {
                Some(WebhookSecret::new(random::bytes::<SECRET_BYTES>()))
            }
            _ => None,
        };
        let of = secret.or_else(|| made.clone());
        let of = of.unwrap_or_else(|| WebhookSecret::new(random::bytes::<SECRET_BYTES>()));
        let secret = Sealed::seal(&self.shared.master_keys, &place(self.id()), of.as_bytes());
        let kind = match route {
            SmsRoute::Sandbox => "sandbox",
            SmsRoute::Http { .. } => "http",
        };
        let entry = AuditEntry::new("sms.set")
            .change("kind", kind)
            .change_concealed("url", kind == "http")
            .change_concealed("secret", true);
        let set = SetSms(Some((route.clone(), sender.clone(), secret)));
        let created_at = self.perform_audited(set, entry).await?;
        Ok((SmsInfo { route, sender, created_at }, made))
    }

    /// Removes the SMS gateway: no step by SMS starts any more.
    ///
    /// # Errors
    /// [`Unavailable`] when it cannot be taken now.
    pub async fn delete_sms(&self) -> Result<(), Unavailable> {
        self.perform_audited(SetSms(None), AuditEntry::new("sms.delete")).await.map(drop)
    }

    /// Returns the SMS gateway, if there is one.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn sms(&self) -> Result<Option<SmsInfo>, Unavailable> {
        let found = self.read(read).await?;
        Ok(found.map(|SmsRecord { route, sender, created_at, .. }| SmsInfo {
            route,
            sender,
            created_at,
        }))
    }

    /// Returns the gateway with its secret, if there is one.
    pub(crate) async fn sms_gateway(&self) -> Result<Option<SmsGateway>, Unavailable> {
        let keys = self.shared.master_keys.clone();
        self.read(move |store, workspace| {
            let Some(SmsRecord { route, sender, secret, .. }) = read(store, workspace)? else {
                return Ok(None);
            };
            let opened = secret.open(&keys, &place(workspace));
            let secret = opened.map_err(|error| StoreError::Damaged(error.to_string()))?;
            Ok(Some(SmsGateway { route, sender, secret: WebhookSecret::new(secret) }))
        })
        .await
    }

    /// Checks the signature of a receipt.
    ///
    /// # Errors
    /// [`SmsReceiptError`]: there is no gateway, the signature is wrong, or not now.
    pub async fn check_sms_signature(
        &self,
        id: &str,
        timestamp: &str,
        signatures: &str,
        body: &[u8],
    ) -> Result<(), SmsReceiptError> {
        let gateway = self.sms_gateway().await?.ok_or(SmsReceiptError::NotFound)?;
        let at: u64 = timestamp.parse().map_err(|_| SmsReceiptError::BadSignature)?;
        let is_fresh = at.abs_diff(self.shared.clock.real().as_secs()) <= TOLERANCE;
        if is_fresh && gateway.secret.has_signed(id, at, body, signatures) {
            Ok(())
        } else {
            Err(SmsReceiptError::BadSignature)
        }
    }

    /// Applies a receipt. A receipt of an unknown request changes nothing.
    ///
    /// # Errors
    /// [`Unavailable`]: the gateway should post it again.
    pub async fn receive_sms_receipt(&self, receipt: SmsReceipt) -> Result<(), Unavailable> {
        let SmsReceipt { request_id, step, delivered, error_code } = receipt;
        let status = if delivered { TryStatus::Delivered } else { TryStatus::Failed };
        self.perform(SettleStep(request_id, step, status, error_code)).await
    }
}

/// Returns whether a workspace has an SMS gateway.
pub(crate) fn is_set(store: &dyn View, workspace: &WorkspaceId) -> Result<bool, StoreError> {
    Ok(read(store, workspace)?.is_some())
}

fn read(store: &dyn View, workspace: &WorkspaceId) -> Result<Option<SmsRecord>, StoreError> {
    let found = store.get(Table::Workspaces, &sms_key(workspace))?;
    found.map(|json| codec::decode(&json)).transpose()
}

/// Returns the change that seals the secret under the current master key, if it is under another.
pub fn resealed(
    store: &dyn View,
    workspace: &WorkspaceId,
    keys: &MasterKeys,
) -> Result<Option<Change>, StoreError> {
    let Some(record) = read(store, workspace)? else { return Ok(None) };
    Ok(record.secret.resealed(keys, &place(workspace)).map(|secret| {
        let record = codec::encode(&SmsRecord { secret, ..record });
        Change::put(Table::Workspaces, sms_key(workspace), record)
    }))
}

/// The command to set the gateway, or to remove it; returns its moment.
struct SetSms(Option<(SmsRoute, Option<String>, Sealed)>);

impl Command for SetSms {
    type Answer = Timestamp;
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Timestamp, Unavailable> {
        let (key, created_at) = (sms_key(&context.core.id), context.now());
        context.core.channels.sms = self.0.is_some();
        match self.0 {
            Some((route, sender, secret)) => {
                let record = SmsRecord { route, sender, secret, created_at };
                context.put_json(Table::Workspaces, key, &record);
            }
            None => context.delete(Table::Workspaces, key),
        }
        Ok(created_at)
    }
}

//! What is known of a connected number, and how it is stored.

use serde::{Deserialize, Serialize};

use crate::access::Secret;
use crate::channel::cloud_api::{CloudApiAccount, CloudApiSecrets};
use crate::domain::{NumberId, Timestamp, WorkspaceId};
use crate::keys::MasterKeys;
use crate::sealed::{OpenError, Sealed};
use crate::workspace::records;

/// A messaging number connected to a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberInfo {
    /// The number's id.
    pub id: NumberId,
    /// What is behind it.
    pub kind: NumberKind,
    /// When it was connected.
    pub created_at: Timestamp,
    /// Most messages in a second, 0 for no limit; `None`: the settings'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages_per_second: Option<u32>,
    /// What the provider calls it, for a number of [`NumberKind::CloudApi`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<CloudApiAccount>,
}

/// What is behind a messaging number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NumberKind {
    /// The sandbox, which keeps messages to itself.
    Sandbox,
    /// The chat-app channel's Cloud API.
    CloudApi,
    /// The channel that the engine's embedder brought.
    Custom,
}

impl NumberKind {
    /// The kind's name: `sandbox`, `cloud_api` or `custom`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::CloudApi => "cloud_api",
            Self::Custom => "custom",
        }
    }
}

/// A number to be connected.
#[derive(Debug, Clone)]
pub struct NewNumber {
    /// What is behind it.
    pub provider: NewProvider,
    /// Most messages in a second, 0 for no limit; `None`: the settings'.
    pub messages_per_second: Option<u32>,
}

/// What is behind a number to be connected.
#[derive(Debug, Clone)]
pub enum NewProvider {
    /// The sandbox.
    Sandbox,
    /// The chat-app channel's Cloud API.
    CloudApi(CloudApiAccount, CloudApiSecrets),
    /// The channel that the engine's embedder brought.
    Custom,
}

/// A number as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct NumberRecord {
    #[serde(flatten)]
    pub(crate) info: NumberInfo,
    /// What [`SecretTexts`] has, encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secrets: Option<Sealed>,
}

#[derive(Serialize, Deserialize)]
struct SecretTexts {
    token: String,
    app_secret: String,
    verify_token: String,
}

impl NumberRecord {
    /// The record of a new number.
    pub(crate) fn new(id: NumberId, at: Timestamp, new: NewNumber, keys: &MasterKeys) -> Self {
        let mut info = NumberInfo {
            id,
            kind: NumberKind::Sandbox,
            created_at: at,
            messages_per_second: new.messages_per_second,
            account: None,
        };
        let mut sealed = None;
        match new.provider {
            NewProvider::Sandbox => {}
            NewProvider::Custom => info.kind = NumberKind::Custom,
            NewProvider::CloudApi(account, secrets) => {
                info.kind = NumberKind::CloudApi;
                info.account = Some(account);
                let texts = SecretTexts {
                    token: secrets.token.reveal().to_owned(),
                    app_secret: secrets.app_secret.reveal().to_owned(),
                    verify_token: secrets.verify_token.reveal().to_owned(),
                };
                sealed = Some(Sealed::seal(keys, id.as_bytes(), &records::encode(&texts)));
            }
        }
        Self { info, secrets: sealed }
    }

    /// The record under the current master key, if it is under an earlier one and can be read.
    pub(crate) fn resealed(&self, keys: &MasterKeys) -> Option<Self> {
        let secrets = self.secrets.as_ref()?.resealed(keys, self.info.id.as_bytes())?;
        Some(Self { info: self.info.clone(), secrets: Some(secrets) })
    }

    /// The number's secrets.
    pub(crate) fn secrets(&self, keys: &MasterKeys) -> Result<CloudApiSecrets, OpenError> {
        let sealed = self.secrets.as_ref().ok_or(OpenError::Damaged)?;
        let json = sealed.open(keys, self.info.id.as_bytes())?;
        let texts: SecretTexts = records::decode(&json).map_err(|_| OpenError::Damaged)?;
        Ok(CloudApiSecrets {
            token: Secret::new(texts.token),
            app_secret: Secret::new(texts.app_secret),
            verify_token: Secret::new(texts.verify_token),
        })
    }
}

/// A number that the store has, and whose it is.
pub(crate) type Stored = (WorkspaceId, NumberRecord);

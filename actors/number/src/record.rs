//! What is known of a connected number, and how it is stored.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use postrider_channel::cloud_api::{CloudApiAccount, CloudApiSecrets};
use postrider_domain::keys::MasterKeys;
use postrider_domain::{NumberId, Timestamp, WorkspaceId};
use postrider_runtime::Secret;
use postrider_runtime::sealed::{OpenError, Sealed};

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

impl NumberInfo {
    /// What its windows, and what is written to it, are known by: worked out from what the provider
    /// calls it, so that it stays the same when the number is connected anew; else its own id.
    pub fn line(&self) -> NumberId {
        let Some(account) = &self.account else { return self.id };
        let digest = Sha256::new().chain_update(self.kind.as_str()).chain_update([0]);
        let digest = digest.chain_update(account.phone_number_id.as_str()).finalize();
        NumberId::from_bytes(std::array::from_fn(|at| digest[at]))
    }
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

/// What is to change of a number; what is `None` stays.
#[derive(Debug, Clone, Default)]
pub struct NumberChange {
    /// Another bearer token of the provider's interface.
    pub token: Option<Secret>,
    /// Another secret that the provider signs callbacks with.
    pub app_secret: Option<Secret>,
    /// Another token that the provider shows when it verifies the callback's address.
    pub verify_token: Option<Secret>,
    /// Most messages in a second, 0 for no limit.
    pub messages_per_second: Option<u32>,
}

/// Why a number was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NumberChangeError {
    /// It has no provider, and so no secrets.
    #[error("the number has no provider, and so no secrets")]
    NoSecrets,
    /// Those of its secrets that were not given cannot be read.
    #[error("the secrets that the number has cannot be read; give all of them: {0}")]
    SecretsUnreadable(String),
}

/// A number as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NumberRecord {
    #[serde(flatten)]
    pub info: NumberInfo,
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
    pub fn new(id: NumberId, at: Timestamp, new: NewNumber, keys: &MasterKeys) -> Self {
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
                sealed = Some(seal(keys, id, &secrets));
            }
        }
        Self { info, secrets: sealed }
    }

    /// The record under the current master key, if it is under an earlier one and can be read.
    pub fn resealed(&self, keys: &MasterKeys) -> Option<Self> {
        let secrets = self.secrets.as_ref()?.resealed(keys, self.info.id.as_bytes())?;
        Some(Self { info: self.info.clone(), secrets: Some(secrets) })
    }

    /// The record with changes.
    pub fn changed(
        mut self,
        change: NumberChange,
        keys: &MasterKeys,
    ) -> Result<Self, NumberChangeError> {
        self.info.messages_per_second =
            change.messages_per_second.or(self.info.messages_per_second);
        let secrets = match (change.token, change.app_secret, change.verify_token) {
            (None, None, None) => return Ok(self),
            _ if self.info.kind != NumberKind::CloudApi => {
                return Err(NumberChangeError::NoSecrets);
            }
            (Some(token), Some(app_secret), Some(verify_token)) => {
                CloudApiSecrets { token, app_secret, verify_token }
            }
            (token, app_secret, verify_token) => {
                let unreadable =
                    |error: OpenError| NumberChangeError::SecretsUnreadable(error.to_string());
                let had = self.secrets(keys).map_err(unreadable)?;
                CloudApiSecrets {
                    token: token.unwrap_or(had.token),
                    app_secret: app_secret.unwrap_or(had.app_secret),
                    verify_token: verify_token.unwrap_or(had.verify_token),
                }
            }
        };
        self.secrets = Some(seal(keys, self.info.id, &secrets));
        Ok(self)
    }

    /// The number's secrets.
    pub fn secrets(&self, keys: &MasterKeys) -> Result<CloudApiSecrets, OpenError> {
        let sealed = self.secrets.as_ref().ok_or(OpenError::Damaged)?;
        let json = sealed.open(keys, self.info.id.as_bytes())?;
        let texts: SecretTexts = serde_json::from_slice(&json).map_err(|_| OpenError::Damaged)?;
        Ok(CloudApiSecrets {
            token: Secret::new(texts.token),
            app_secret: Secret::new(texts.app_secret),
            verify_token: Secret::new(texts.verify_token),
        })
    }
}

fn seal(keys: &MasterKeys, number: NumberId, secrets: &CloudApiSecrets) -> Sealed {
    let texts = SecretTexts {
        token: secrets.token.reveal().to_owned(),
        app_secret: secrets.app_secret.reveal().to_owned(),
        verify_token: secrets.verify_token.reveal().to_owned(),
    };
    // A struct of three strings always has a JSON form.
    #[expect(clippy::expect_used)]
    let json = serde_json::to_vec(&texts).expect("strings have a JSON form");
    Sealed::seal(keys, number.as_bytes(), &json)
}

/// A number that the store has, and whose it is.
pub type Stored = (WorkspaceId, NumberRecord);

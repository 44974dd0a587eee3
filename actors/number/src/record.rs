//! The record of a connected number, and how it is stored.

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
    /// The kind of its provider.
    pub kind: NumberKind,
    /// The time at which it was connected.
    pub created_at: Timestamp,
    /// The maximum messages per second, 0 for no limit; `None` takes the rate of the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages_per_second: Option<u32>,
    /// The number's ids at the provider, for a number of [`NumberKind::CloudApi`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<CloudApiAccount>,
    /// Set if it may be in the workspace's pool.
    pub pool: bool,
    /// The portfolio whose budget of recipients it shares; `None` for its account's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub portfolio_id: Option<Box<str>>,
}

impl NumberInfo {
    /// Returns the id under which its conversation windows and inbound messages are stored. It is
    /// derived from the number's id at the provider, so that it stays the same if the number is
    /// connected again. A number without a provider has its own id here.
    pub fn line(&self) -> NumberId {
        let Some(account) = &self.account else { return self.id };
        let digest = Sha256::new().chain_update(self.kind.as_str()).chain_update([0]);
        let digest = digest.chain_update(account.phone_number_id.as_str()).finalize();
        NumberId::from_bytes(std::array::from_fn(|at| digest[at]))
    }
}

/// The kind of a number's provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NumberKind {
    /// The sandbox, which sends nothing outside.
    Sandbox,
    /// The chat-app channel's Cloud API.
    CloudApi,
    /// The channel that the engine's embedder provides.
    Custom,
}

impl NumberKind {
    /// Returns the kind's name: `sandbox`, `cloud_api` or `custom`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::CloudApi => "cloud_api",
            Self::Custom => "custom",
        }
    }
}

/// The data of a number to connect.
#[derive(Debug, Clone)]
pub struct NewNumber {
    /// The number's provider.
    pub provider: NewProvider,
    /// The maximum messages per second, 0 for no limit; `None` takes the rate of the settings.
    pub messages_per_second: Option<u32>,
    /// Set if it may be in the workspace's pool.
    pub pool: bool,
    /// The portfolio whose budget of recipients it shares; `None` for its account's.
    pub portfolio_id: Option<Box<str>>,
}

impl NewNumber {
    /// Creates a number for the pool, at the rate of the settings.
    #[must_use]
    pub const fn of(provider: NewProvider) -> Self {
        Self { provider, messages_per_second: None, pool: true, portfolio_id: None }
    }
}

/// The provider of a number to connect.
#[derive(Debug, Clone)]
pub enum NewProvider {
    /// The sandbox.
    Sandbox,
    /// The chat-app channel's Cloud API.
    CloudApi(CloudApiAccount, CloudApiSecrets),
    /// The channel that the engine's embedder provides.
    Custom,
}

/// A change of a number; a field that is `None` keeps its value.
#[derive(Debug, Clone, Default)]
pub struct NumberChange {
    /// Another bearer token for the provider's API.
    pub token: Option<Secret>,
    /// Another secret that the provider signs callbacks with.
    pub app_secret: Option<Secret>,
    /// Another token that the provider sends when it verifies the callback address.
    pub verify_token: Option<Secret>,
    /// The maximum messages per second, 0 for no limit; `Some(None)` removes its own figure.
    pub messages_per_second: Option<Option<u32>>,
    /// Set to `true` if it may be in the workspace's pool.
    pub pool: Option<bool>,
    /// The portfolio whose budget of recipients it shares; `Some(None)` for its account's.
    pub portfolio_id: Option<Option<Box<str>>>,
}

/// The reason for which a number was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NumberChangeError {
    /// The number has no provider, and so no secrets.
    #[error("the number has no provider, and so no secrets")]
    NoSecrets,
    /// Some secrets were not given, and the stored ones cannot be decrypted.
    #[error("the secrets that the number has cannot be read; give all of them: {0}")]
    SecretsUnreadable(String),
}

/// A number as it is stored, with its secrets encrypted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NumberRecord {
    /// The number's data without its secrets.
    #[serde(flatten)]
    pub info: NumberInfo,
    /// The JSON of [`SecretTexts`], encrypted; `None` for a number without a provider.
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
    /// Creates the record of a new number, with secrets encrypted under the current master key.
    pub fn new(id: NumberId, at: Timestamp, new: NewNumber, keys: &MasterKeys) -> Self {
        let mut info = NumberInfo {
            id,
            kind: NumberKind::Sandbox,
            created_at: at,
            messages_per_second: new.messages_per_second,
            account: None,
            pool: new.pool,
            portfolio_id: new.portfolio_id,
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

    /// Returns the record encrypted under the current master key. It is `None` if it is already,
    /// has no secrets, or cannot be decrypted.
    pub fn resealed(&self, keys: &MasterKeys) -> Option<Self> {
        let secrets = self.secrets.as_ref()?.resealed(keys, self.info.id.as_bytes())?;
        Some(Self { info: self.info.clone(), secrets: Some(secrets) })
    }

    /// Returns the record with a change applied.
    ///
    /// # Errors
    /// [`NumberChangeError`]: the change has secrets for a number without a provider, or lacks some
    /// of them and the stored ones cannot be decrypted.
    pub fn changed(
        mut self,
        change: NumberChange,
        keys: &MasterKeys,
    ) -> Result<Self, NumberChangeError> {
        self.info.messages_per_second =
            change.messages_per_second.unwrap_or(self.info.messages_per_second);
        self.info.pool = change.pool.unwrap_or(self.info.pool);
        if let Some(portfolio_id) = change.portfolio_id {
            self.info.portfolio_id = portfolio_id;
        }
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

    /// Returns the number's secrets, decrypted.
    ///
    /// # Errors
    /// [`OpenError`]: it has none, their key is missing, or they are damaged.
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

/// A stored number, with the workspace that it belongs to.
pub type Stored = (WorkspaceId, NumberRecord);

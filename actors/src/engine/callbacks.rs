//! What providers call back.

use std::sync::Arc;

use crate::channel::cloud_api::CloudApiNumber;
use crate::domain::NumberId;
use crate::workspace::Workspace;
use crate::workspace::messages::Unavailable;

use super::Engine;

/// Takes what the provider of one number calls back.
pub struct CallbackReceiver {
    number: NumberId,
    workspace: Workspace,
    provider: Arc<CloudApiNumber>,
}

/// Why a callback was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallbackError {
    /// It is not signed by the number's provider. It changed nothing.
    #[error("the signature is missing or wrong")]
    BadSignature,
    /// It is signed and cannot be read. It changed nothing.
    #[error("the callback is not JSON")]
    Unreadable,
    /// It cannot be taken now, or not all of it was: the provider should repeat it.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl std::fmt::Debug for CallbackReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CallbackReceiver").field(&self.number).finish()
    }
}

impl Engine {
    /// What takes the callbacks of a number; `None` if there is no such number of the Cloud API.
    #[must_use]
    pub fn callbacks(&self, number: NumberId) -> Option<CallbackReceiver> {
        let connected = self.inner.shared.numbers.connected(number)?;
        let provider = connected.cloud_api.clone()?;
        let workspace = self.workspace(&connected.workspace)?;
        Some(CallbackReceiver { number, workspace, provider })
    }
}

impl CallbackReceiver {
    /// Whether this is the token that the provider was told to show.
    #[must_use]
    pub fn knows(&self, verify_token: &str) -> bool {
        self.provider.knows(verify_token)
    }

    /// Takes a callback: `signature` is the value of `X-Hub-Signature-256`, `raw` the body as it
    /// came. When this answers, what it tells is durable; one that comes again changes nothing.
    ///
    /// # Errors
    /// [`CallbackError`]: it is not the provider's, or not now.
    pub async fn take(&self, signature: &str, raw: &[u8]) -> Result<(), CallbackError> {
        if !self.provider.signed(signature, raw) {
            return Err(CallbackError::BadSignature);
        }
        let callback = self.provider.read(raw).ok_or(CallbackError::Unreadable)?;
        Ok(self.workspace.receive(self.number, callback).await?)
    }
}

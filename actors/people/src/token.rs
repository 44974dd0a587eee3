//! Tokens of sessions and links: 32 random bytes, of which only the SHA-256 is kept.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use postrider_runtime::random;
use postrider_runtime::secret::Secret;

/// The SHA-256 of a token. Since the hash of a guess reveals nothing about the token next to it, a
/// look-up by hash leaks nothing by its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash of a token.
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// A new token.
pub(crate) fn create() -> Secret {
    Secret::new(URL_SAFE_NO_PAD.encode(random::bytes::<32>()))
}

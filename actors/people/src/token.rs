//! Tokens of sessions and links: 32 random bytes, of which only the SHA-256 is stored.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use postrider_domain::MasterKeys;
use postrider_runtime::random;
use postrider_runtime::secret::Secret;

/// The SHA-256 of a token. Since the hash of a guess reveals nothing about the token next to it, a
/// look-up by hash leaks nothing by its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Returns the hash of a token.
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Returns the hash under a key. People choose the token of the settings, and a plain hash
    /// would allow guessing.
    pub(crate) fn under(&self, key: &[u8; 32]) -> Self {
        // HMAC takes a key of any length (RFC 2104, section 2), so this cannot fail.
        #[allow(clippy::expect_used)]
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
        mac.update(&self.0);
        Self(mac.finalize().into_bytes().into())
    }

    /// Returns the bytes of the hash.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Creates a token.
pub(crate) fn create() -> Secret {
    Secret::new(URL_SAFE_NO_PAD.encode(random::bytes::<32>()))
}

/// The purpose of the key for the settings' token.
const SETTINGS_TOKEN: &[u8] = b"settings token";

/// Returns the stored hash of the settings' token.
pub(crate) fn stored(keys: &MasterKeys, token: &TokenHash) -> TokenHash {
    token.under(&keys.current_for(SETTINGS_TOKEN).1)
}

/// Returns whether `stored` is the hash of the settings' token, under any master key.
pub(crate) fn is_stored(keys: &MasterKeys, token: &TokenHash, stored: &TokenHash) -> bool {
    keys.all_for(SETTINGS_TOKEN).any(|(_, key)| token.under(&key) == *stored)
}

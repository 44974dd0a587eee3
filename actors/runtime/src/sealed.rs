//! Secrets: texts that logs never show, and stored ones that are read again, encrypted at rest.
//!
//! The cipher is XChaCha20-Poly1305 with a random nonce. Its key is derived from a master key for
//! this use only; the master key's version is stored beside the secret.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use postrider_domain::keys::MasterKeys;
use serde::{Deserialize, Serialize};

use crate::random;

const PURPOSE: &[u8] = b"postrider stored secret\0";
const NONCE_BYTES: usize = 24;

/// A text that must not be printed by accident: `Debug` hides it.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Hides `text`.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text. The caller must not log it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// An encrypted secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// The version of the master key that decrypts it.
    key_version: u8,
    /// The nonce and the ciphertext, in Base64 without padding.
    text: String,
}

/// The reason why a secret cannot be decrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The master key of this version is not given.
    #[error("it was encrypted under version {0} of the master key, which is not given")]
    NoKey(u8),
    /// The text is not the one that was written, or was sealed for another place.
    #[error("it is damaged, or the master key is another one")]
    Damaged,
}

impl Sealed {
    /// Encrypts `secret` under the current master key.
    ///
    /// It opens only with the same `place`, so that a stored secret cannot be moved to another
    /// record.
    pub fn seal(keys: &MasterKeys, place: &[u8], secret: &[u8]) -> Self {
        let nonce: [u8; NONCE_BYTES] = random::bytes();
        let (key_version, key) = keys.current_for(PURPOSE);
        let payload = Payload { msg: secret, aad: place };
        // Encryption fails only for texts of 256 GiB and more.
        #[expect(clippy::expect_used)]
        let encrypted = XChaCha20Poly1305::new(&key.into())
            .encrypt(&XNonce::from(nonce), payload)
            .expect("a secret is short");
        Self { key_version, text: STANDARD_NO_PAD.encode([&nonce[..], &encrypted].concat()) }
    }

    /// Returns the same secret under the current master key, if an earlier one sealed it.
    ///
    /// Returns `None` also if the secret cannot be read.
    pub fn resealed(&self, keys: &MasterKeys, place: &[u8]) -> Option<Self> {
        let is_current = self.key_version == keys.current_for(PURPOSE).0;
        let secret = if is_current { None } else { self.open(keys, place).ok() };
        secret.map(|secret| Self::seal(keys, place, &secret))
    }

    /// Decrypts the secret, which must be sealed for `place`.
    ///
    /// # Errors
    /// [`OpenError`]: the key is missing, or the text cannot be authenticated.
    pub fn open(&self, keys: &MasterKeys, place: &[u8]) -> Result<Vec<u8>, OpenError> {
        let version = self.key_version;
        let key = keys.of_version_for(version, PURPOSE).ok_or(OpenError::NoKey(version))?;
        let bytes = STANDARD_NO_PAD.decode(&self.text).map_err(|_| OpenError::Damaged)?;
        let (nonce, encrypted) =
            bytes.split_first_chunk::<NONCE_BYTES>().ok_or(OpenError::Damaged)?;
        let payload = Payload { msg: encrypted, aad: place };
        XChaCha20Poly1305::new(&key.into())
            .decrypt(&XNonce::from(*nonce), payload)
            .map_err(|_| OpenError::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use postrider_domain::golden::Sheet;

    use super::*;

    #[test]
    fn it_opens_in_its_place_with_its_key_only() {
        let old = MasterKeys::single([7; 32]);
        let sealed = Sealed::seal(&old, b"here", b"hush");
        assert_eq!(sealed.open(&old, b"here").as_deref(), Ok(&b"hush"[..]));
        assert_eq!(sealed.open(&old, b"there"), Err(OpenError::Damaged));
        assert_eq!(sealed.open(&MasterKeys::single([8; 32]), b"here"), Err(OpenError::Damaged));
        let rotated = MasterKeys::new([(1, [7; 32]), (2, [8; 32])]).unwrap();
        assert_eq!(sealed.open(&rotated, b"here").as_deref(), Ok(&b"hush"[..]));
        let again = Sealed::seal(&rotated, b"here", b"hush");
        assert_eq!(again.key_version, 2);
        assert_eq!(again.resealed(&rotated, b"here"), None);
        assert_eq!(sealed.resealed(&rotated, b"there"), None);
        assert_eq!(sealed.resealed(&rotated, b"here").map(|it| it.key_version), Some(2));
        assert_eq!(again.open(&old, b"here"), Err(OpenError::NoKey(2)));
        let stored = serde_json::to_string(&sealed).unwrap();
        assert!(!stored.contains("hush") && !stored.contains(&STANDARD_NO_PAD.encode("hush")));
        let changed = Sealed { text: sealed.text.replace(|_: char| true, "A"), ..sealed };
        assert_eq!(changed.open(&old, b"here"), Err(OpenError::Damaged));
    }

    /// The stored form of `hush` in the place `here` under the key `[7; 32]`.
    const STORED: &str =
        r#"{"key_version":1,"text":"5R3r6PwwDSKeNOGO/0itL9yCgN8/hZaMqaYActHgAqFRHhudaQ8YUVIwnWU"}"#;

    /// A secret that was encrypted once opens for ever.
    #[test]
    fn a_stored_secret_opens() {
        let keys = MasterKeys::single([7; 32]);
        let sealed: Sealed = serde_json::from_str(STORED).unwrap();
        assert_eq!(sealed.open(&keys, b"here").as_deref(), Ok(&b"hush"[..]));
        let mut sheet = Sheet::default();
        sheet.json("stored", &sealed);
        sheet.is(expect_test::expect![[r#"
            stored: {"key_version":1,"text":"5R3r6PwwDSKeNOGO/0itL9yCgN8/hZaMqaYActHgAqFRHhudaQ8YUVIwnWU"}
        "#]]);
        // A nonce of 24 bytes, the secret, a tag of 16 bytes, in Base64 without padding.
        let new = Sealed::seal(&keys, b"here", b"hush");
        assert_eq!((new.key_version, new.text.len()), (1, sealed.text.len()));
    }
}

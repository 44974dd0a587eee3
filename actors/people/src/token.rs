//! Tokens of sessions and links, and the texts by which browsers are recognised.
//!
//! A token has 32 random bytes, of which only the SHA-256 is stored. A browser in which a person
//! has signed in keeps a text that only this engine can make, for one person, so that strangers'
//! tries do not delay it. The engine does not store that text.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use postrider_domain::{MasterKeys, PersonId, Timestamp};
use postrider_runtime::random;
use postrider_runtime::sealed::Secret;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

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
pub(crate) fn settings_token_hash(keys: &MasterKeys, token: &TokenHash) -> TokenHash {
    token.under(&keys.current_for(SETTINGS_TOKEN).1)
}

/// Returns whether `stored` is the hash of the settings' token, under any master key.
pub(crate) fn is_settings_token(keys: &MasterKeys, token: &TokenHash, stored: &TokenHash) -> bool {
    keys.all_for(SETTINGS_TOKEN).any(|(_, key)| token.under(&key) == *stored)
}

/// The time for which a browser is known after a sign-in.
const DEVICE_KNOWN_FOR: Duration = Duration::from_secs(180 * 24 * 3600);
const DEVICE_PURPOSE: &[u8] = b"device";
/// The version of the master key, the time of creation, and a name.
const DEVICE_BODY_BYTES: usize = 1 + 8 + 16;
const DEVICE_MAC_BYTES: usize = 32;

/// Returns the text of a browser in which a person signs in now.
pub(crate) fn new_device_text(keys: &MasterKeys, person: PersonId, now: Timestamp) -> Secret {
    let (version, key) = keys.current_for(DEVICE_PURPOSE);
    let made = now.as_millis().to_be_bytes();
    let name: [u8; 16] = random::bytes();
    let body = [&[version][..], &made, &name].concat();
    let mac = device_mac(&key, person, &body).finalize().into_bytes();
    Secret::new(URL_SAFE_NO_PAD.encode([&body[..], &mac].concat()))
}

/// Returns the name of a browser by its text, or `None` if the text is not valid. It is valid if
/// this person signed in there, not too long ago.
pub(crate) fn device_name(
    keys: &MasterKeys,
    person: PersonId,
    text: &str,
    now: Timestamp,
) -> Option<String> {
    let mut bytes = [0; DEVICE_BODY_BYTES + DEVICE_MAC_BYTES];
    // This engine made no text of another length.
    let length = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).ok()?;
    let (body, shown) = bytes.split_at(DEVICE_BODY_BYTES);
    let (version, rest) = body.split_first()?;
    let (made, name) = rest.split_first_chunk::<8>()?;
    let made = Timestamp::from_millis(u64::from_be_bytes(*made));
    let key = keys.of_version_for(*version, DEVICE_PURPOSE)?;
    device_mac(&key, person, body).verify_slice(shown).ok()?;
    let is_known = length == bytes.len() && now < made.plus(DEVICE_KNOWN_FOR);
    is_known.then(|| URL_SAFE_NO_PAD.encode(name))
}

fn device_mac(key: &[u8; 32], person: PersonId, body: &[u8]) -> Hmac<Sha256> {
    // HMAC takes a key of any length (RFC 2104, section 2), so this cannot fail.
    #[allow(clippy::expect_used)]
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(person.as_bytes());
    mac.update(body);
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_known_for_its_person_and_a_time() {
        let keys = MasterKeys::single([7; 32]);
        let (ada, bob) = (PersonId::from_bytes([1; 16]), PersonId::from_bytes([2; 16]));
        let now = Timestamp::from_millis(1_700_000_000_000);
        let (one, other) = (new_device_text(&keys, ada, now), new_device_text(&keys, ada, now));
        let of = |text: &str, at| device_name(&keys, ada, text, at);
        let known = of(one.reveal(), now).unwrap();
        assert_ne!(Some(&known), of(other.reveal(), now).as_ref());
        assert_eq!(
            of(one.reveal(), now.plus(DEVICE_KNOWN_FOR - Duration::from_secs(1))),
            Some(known)
        );
        assert_eq!(of(one.reveal(), now.plus(DEVICE_KNOWN_FOR)), None);
        assert_eq!(device_name(&keys, bob, one.reveal(), now), None);
        assert_eq!(device_name(&MasterKeys::single([8; 32]), ada, one.reveal(), now), None);
        for place in 0..one.reveal().len() {
            let mut text = one.reveal().to_owned().into_bytes();
            text[place] = if text[place] == b'A' { b'B' } else { b'A' };
            let text = String::from_utf8(text).unwrap();
            assert_eq!(of(&text, now), None, "{place}");
        }
        for text in ["", "x", &one.reveal()[1..], &format!("{}A", one.reveal())] {
            assert_eq!(of(text, now), None, "{text}");
        }
    }
}

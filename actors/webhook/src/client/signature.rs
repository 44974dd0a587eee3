//! Pure: signs deliveries by Standard Webhooks 1.0.0.
//!
//! A signature is the HMAC-SHA256 of `{id}.{timestamp}.{body}`.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// The prefix of every secret's text.
const PREFIX: &str = "whsec_";
/// The bytes of a secret: a length that every verifier accepts.
pub const SECRET_BYTES: usize = 24;

/// The secret that an endpoint and its owner share. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(Vec<u8>);

impl WebhookSecret {
    /// Creates the secret of these bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// Parses a text of [`reveal`](Self::reveal), of 24 to 64 bytes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.strip_prefix(PREFIX)?).ok()?;
        (SECRET_BYTES..=64).contains(&bytes.len()).then_some(Self(bytes))
    }

    /// Returns the bytes, to be encrypted for storage.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the text for the owner: `whsec_` and the bytes in Base64.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    /// Returns whether one of `signatures`, separated by spaces, is this secret's of a body.
    ///
    /// The comparison takes constant time.
    pub fn has_signed(&self, id: &str, timestamp: u64, body: &[u8], signatures: &str) -> bool {
        let own = self.sign(id, timestamp, body);
        let is_own = |given: &str| own.as_bytes().ct_eq(given.as_bytes()).into();
        signatures.split(' ').any(is_own)
    }

    /// Returns the signature of a body, as one entry of `webhook-signature`.
    ///
    /// `timestamp` is in seconds since the epoch.
    pub fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        // HMAC takes a key of any length, so this cannot fail.
        #[expect(clippy::expect_used)]
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("any length of key");
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> WebhookSecret {
        WebhookSecret::new(STANDARD.decode(text.strip_prefix(PREFIX).unwrap()).unwrap())
    }

    #[test]
    fn the_vectors_of_the_specification_come_out() {
        for (text, id, timestamp, body, expected) in [
            (
                "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
                "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
                1_649_367_553,
                r#"{"email":"test@example.com","username":"test_user"}"#,
                "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
            ),
            (
                "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                "msg_p5jXN8AQM9LWM0D4loKWxJek",
                1_614_265_330,
                r#"{"test": 2432232314}"#,
                "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            ),
        ] {
            assert_eq!(secret(text).sign(id, timestamp, body.as_bytes()), expected);
            assert_eq!(secret(text).reveal(), text);
        }
        assert_eq!(format!("{:?}", secret("whsec_AAAA")), "WebhookSecret(…)");
    }

    #[test]
    fn another_implementation_takes_it() {
        let own = WebhookSecret::new([7; SECRET_BYTES]);
        let signature = own.sign("evt_1", 1_649_367_553, b"{}");
        let other = standardwebhooks::Webhook::new(&own.reveal()).unwrap();
        assert_eq!(other.sign("evt_1", 1_649_367_553, b"{}").unwrap(), signature);
    }
}

//! Passwords: argon2id, on few threads, so that a flood of sign-ins takes no core from codes.

use std::fmt;
use std::sync::{Arc, OnceLock};

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;
use unicode_normalization::UnicodeNormalization;

use postrider_runtime::random;

/// Memory in KiB, passes and lanes of a new hash: what OWASP recommends at least.
const COST: (u32, u32, u32) = (19 * 1024, 2, 1);
const HASH_BYTES: usize = 32;
/// Hashes that are computed at a time.
const HASHING_MAX: usize = 2;
/// Callers that may wait for their turn besides; more are refused at once.
const WAITING_MAX: usize = 16;
const CHARS_MIN: usize = 12;
const CHARS_MAX: usize = 256;

/// The text is too short or too long for a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must have 12 to 256 characters")]
pub struct PasswordError;

/// A password as it is compared: in Unicode's normal form C, as keyboards differ.
#[derive(Clone)]
pub struct Password(String);

impl Password {
    /// Validates a new password.
    ///
    /// # Errors
    /// [`PasswordError`]: it is too short or too long.
    pub fn new(text: &str) -> Result<Self, PasswordError> {
        let password = Self::typed(text);
        let chars = password.0.chars().count();
        if (CHARS_MIN..=CHARS_MAX).contains(&chars) { Ok(password) } else { Err(PasswordError) }
    }

    /// What somebody typed, to be compared. What is longer than any password is cut, which costs
    /// nobody anything: it is wrong anyway.
    #[must_use]
    pub fn typed(text: &str) -> Self {
        Self(text.nfc().take(CHARS_MAX + 1).collect())
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// What a password is checked against.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PasswordHash {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
    salt: String,
    hash: String,
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

impl PasswordHash {
    fn of(password: &Password) -> Option<Self> {
        let salt: [u8; 16] = random::bytes();
        let (memory_kib, passes, lanes) = COST;
        let salt = STANDARD_NO_PAD.encode(salt);
        let made = Self { memory_kib, passes, lanes, salt, hash: String::new() };
        let hash = made.compute(password)?;
        Some(Self { hash: STANDARD_NO_PAD.encode(hash), ..made })
    }

    fn matches(&self, password: &Password) -> bool {
        let stored = STANDARD_NO_PAD.decode(&self.hash).unwrap_or_default();
        self.compute(password).is_some_and(|hash| hash.as_slice().ct_eq(&stored).into())
    }

    /// `None` if the record's parameters are none that argon2 takes.
    fn compute(&self, password: &Password) -> Option<[u8; HASH_BYTES]> {
        let params =
            Params::new(self.memory_kib, self.passes, self.lanes, Some(HASH_BYTES)).ok()?;
        let salt = STANDARD_NO_PAD.decode(&self.salt).ok()?;
        let mut hash = [0; HASH_BYTES];
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        argon2.hash_password_into(password.0.as_bytes(), &salt, &mut hash).ok()?;
        Some(hash)
    }
}

/// Too many passwords are being checked; nothing was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Busy;

/// Computes hashes on blocking threads, a few at a time.
#[derive(Debug)]
pub(crate) struct Hashing {
    places: Semaphore,
    turns: Arc<Semaphore>,
}

impl Default for Hashing {
    fn default() -> Self {
        Self {
            places: Semaphore::new(HASHING_MAX + WAITING_MAX),
            turns: Arc::new(Semaphore::new(HASHING_MAX)),
        }
    }
}

impl Hashing {
    /// The hash of a new password.
    pub(crate) async fn hash(&self, password: Password) -> Result<PasswordHash, Busy> {
        self.run(move || PasswordHash::of(&password)).await?.ok_or(Busy)
    }

    /// Whether it is the password. Without a stored one the same work is done, and it is not.
    pub(crate) async fn verify(
        &self,
        stored: Option<PasswordHash>,
        password: Password,
    ) -> Result<bool, Busy> {
        self.run(move || {
            let is_there = stored.is_some();
            let against = stored.or_else(|| dummy().cloned());
            against.is_some_and(|against| against.matches(&password)) && is_there
        })
        .await
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        let _place = self.places.try_acquire().map_err(|_| Busy)?;
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| Busy)?;
        // The turn ends with the work, also when its caller has stopped waiting meanwhile.
        let working = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(turn);
            done
        });
        working.await.map_err(|_| Busy)
    }
}

/// What the password of an account that is not there is checked against.
fn dummy() -> Option<&'static PasswordHash> {
    static DUMMY: OnceLock<Option<PasswordHash>> = OnceLock::new();
    DUMMY.get_or_init(|| PasswordHash::of(&Password::typed("nobody's password"))).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_known_in_either_form_and_no_other_is() {
        let hash = PasswordHash::of(&Password::new("caf\u{e9} au lait, s'il").unwrap()).unwrap();
        assert!(hash.matches(&Password::typed("cafe\u{301} au lait, s'il")));
        assert!(!hash.matches(&Password::typed("cafe au lait, s'il")));
        assert!(!format!("{hash:?}").contains(&hash.hash));
        assert!(Password::new("eleven char").is_err() && Password::new(&"x".repeat(257)).is_err());
        assert!(Password::new(&"x".repeat(256)).is_ok());
    }

    #[tokio::test]
    async fn a_flood_is_refused_at_once() {
        let hashing = Arc::new(Hashing::default());
        let turns = hashing.turns.try_acquire_many(2).unwrap();
        let mut waiting = Vec::new();
        for _ in 0..HASHING_MAX + WAITING_MAX {
            let hashing = Arc::clone(&hashing);
            waiting.push(tokio::spawn(async move { hashing.run(|| ()).await }));
        }
        while hashing.places.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(hashing.run(|| ()).await, Err(Busy));
        drop(turns);
        for one in waiting {
            assert_eq!(one.await.unwrap(), Ok(()));
        }
        assert_eq!(hashing.run(|| ()).await, Ok(()));
    }
}

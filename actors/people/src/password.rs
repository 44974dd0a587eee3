//! Passwords: argon2id, on few threads, so that a flood of sign-ins takes no core from codes.

use std::fmt;
use std::sync::{Arc, OnceLock};

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hashbrown::HashMap;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;
use unicode_normalization::UnicodeNormalization;

use postrider_runtime::random;

/// The memory in KiB, passes and lanes of a new hash: the minimum that OWASP recommends.
const COST: (u32, u32, u32) = (19 * 1024, 2, 1);
const HASH_BYTES: usize = 32;
/// The maximum numbers of concurrent hashes, for strangers and for people in a session.
const STRANGERS_MAX: usize = 2;
const SESSIONS_MAX: usize = 1;
/// The maximum number of waiting callers of each kind; more are refused at once.
const WAITING_MAX: usize = 64;
/// The maximum number of places that one caller may take.
const OF_CALLER_MAX: usize = 2;
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

    /// Returns the typed text, for a comparison. A text longer than any password is cut; it is
    /// wrong anyway.
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

/// The stored hash of a password, with its salt and parameters.
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

    /// Returns the hash, or `None` if argon2 does not accept the record's parameters.
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

/// The caller whose password is hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A person without a session, by their network or browser.
    Stranger(Box<str>),
    /// A person in a session, by its id.
    Session(Box<str>),
}

/// Computes hashes on blocking threads, a few at a time. People in a session have places of their
/// own, and one caller has few places. So a flood of sign-ins keeps nobody out.
#[derive(Debug)]
pub(crate) struct PasswordHasher {
    strangers: Arc<HashingLane>,
    sessions: Arc<HashingLane>,
}

#[derive(Debug)]
struct HashingLane {
    places: usize,
    turns: Arc<Semaphore>,
    /// The number of places that each caller holds.
    held: Mutex<HashMap<Box<str>, usize>>,
}

impl Default for PasswordHasher {
    fn default() -> Self {
        let lane = |turns| {
            let (places, turns) = (turns + WAITING_MAX, Arc::new(Semaphore::new(turns)));
            Arc::new(HashingLane { places, turns, held: Mutex::default() })
        };
        Self { strangers: lane(STRANGERS_MAX), sessions: lane(SESSIONS_MAX) }
    }
}

impl PasswordHasher {
    /// Returns a place for one hash. Dropping the place frees it.
    ///
    /// # Errors
    /// [`Busy`]: the caller has its maximum of places, or all are taken.
    pub(crate) fn place(&self, asker: &Asker) -> Result<HashingPlace, Busy> {
        let (lane, name) = match asker {
            Asker::Stranger(name) => (&self.strangers, name),
            Asker::Session(name) => (&self.sessions, name),
        };
        let mut held = lane.held.lock();
        let all: usize = held.values().sum();
        let own = held.get(name).copied().unwrap_or_default();
        if all >= lane.places || own >= OF_CALLER_MAX {
            return Err(Busy);
        }
        held.insert(name.clone(), own + 1);
        Ok(HashingPlace { lane: Arc::clone(lane), name: name.clone() })
    }
}

/// The place of one hash.
#[derive(Debug)]
pub(crate) struct HashingPlace {
    lane: Arc<HashingLane>,
    name: Box<str>,
}

impl Drop for HashingPlace {
    fn drop(&mut self) {
        let mut held = self.lane.held.lock();
        let left = held.remove(&self.name).unwrap_or_default().saturating_sub(1);
        if left > 0 {
            held.insert(self.name.clone(), left);
        }
    }
}

impl HashingPlace {
    /// Returns the hash of a new password.
    pub(crate) async fn hash(self, password: Password) -> Result<PasswordHash, Busy> {
        self.run(move || PasswordHash::of(&password)).await?.ok_or(Busy)
    }

    /// Returns whether the password is right. Without a stored hash it does the same work.
    pub(crate) async fn verify(
        self,
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
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        let turn = Arc::clone(&self.lane.turns).acquire_owned().await.map_err(|_| Busy)?;
        // The turn ends with the work, also if its caller has stopped waiting meanwhile.
        let working = tokio::task::spawn_blocking(move || {
            let done = work();
            drop((turn, self));
            done
        });
        working.await.map_err(|_| Busy)
    }
}

/// Returns the hash that is checked for an account that does not exist.
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

    fn stranger(number: usize) -> Asker {
        Asker::Stranger(number.to_string().into())
    }

    #[tokio::test]
    async fn a_flood_is_refused_at_once_and_keeps_no_session_out() {
        let hashing = PasswordHasher::default();
        let turns = hashing.strangers.turns.try_acquire_many(2).unwrap();
        let mut waiting = Vec::new();
        for number in 0..STRANGERS_MAX + WAITING_MAX {
            let place = hashing.place(&stranger(number / OF_CALLER_MAX)).unwrap();
            waiting.push(tokio::spawn(async move { place.run(|| ()).await }));
        }
        assert_eq!(hashing.place(&stranger(1000)).map(|_| ()), Err(Busy));
        let own = Asker::Session("own".into());
        assert_eq!(hashing.place(&own).unwrap().run(|| ()).await, Ok(()));
        drop(turns);
        for one in waiting {
            assert_eq!(one.await.unwrap(), Ok(()));
        }
        assert_eq!(hashing.place(&stranger(0)).unwrap().run(|| ()).await, Ok(()));
        assert!(hashing.strangers.held.lock().is_empty());
    }

    #[tokio::test]
    async fn a_caller_has_few_places() {
        let hashing = PasswordHasher::default();
        let held: Vec<_> =
            (0..OF_CALLER_MAX).map(|_| hashing.place(&stranger(1)).unwrap()).collect();
        assert!(hashing.place(&stranger(1)).is_err() && hashing.place(&stranger(2)).is_ok());
        drop(held);
        assert!(hashing.place(&stranger(1)).is_ok());
    }
}

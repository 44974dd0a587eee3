//! Codes of authenticator apps (TOTP, RFC 6238): six digits, a new one every 30 seconds.
//!
//! The members of a strict workspace need an authenticator.

use std::time::Duration;

use data_encoding::BASE32_NOPAD;
use hashbrown::HashMap;
use hmac::{Hmac, KeyInit, Mac};
use postrider_domain::{MasterKeys, PersonId, Timestamp, WorkspaceId};
use postrider_runtime::random;
use postrider_runtime::sealed::{Sealed, Secret};
use postrider_store::view::codec;
use postrider_store::{Change, Table};
use serde::{Deserialize, Serialize};
use sha1::Sha1;
use subtle::ConstantTimeEq;

use crate::token::TokenHash;

/// The number of bytes of a secret: as long as the hash, as RFC 4226 recommends.
pub(crate) const SECRET_BYTES: usize = 20;
const STEP_MS: u64 = 30_000;
const DIGITS: usize = 6;
/// The number of steps by which a phone's clock may be off, to either side.
const DRIFT: u64 = 1;
/// The number of codes that replace a lost phone. Each works once.
const RECOVERY_CODES: usize = 10;
const RECOVERY_BYTES: usize = 10;
const GROUP_CHARS: usize = 4;
/// The time for which a new secret waits for its first code, in real time.
const WAITS_FOR: Duration = Duration::from_secs(10 * 60);

/// A person's authenticator in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Authenticator {
    secret: Sealed,
    /// The newest step of which a code was used. Its code and earlier codes do not work again.
    last_step: u64,
    /// The recovery codes that were not used.
    recovery: Vec<TokenHash>,
}

impl Authenticator {
    /// Creates an authenticator whose code of `step` was just used, and its recovery codes.
    pub(crate) fn new(
        keys: &MasterKeys,
        person: PersonId,
        secret: &[u8; SECRET_BYTES],
        step: u64,
    ) -> (Self, Vec<Secret>) {
        let codes: Vec<_> = (0..RECOVERY_CODES).map(|_| recovery_code()).collect();
        let recovery =
            codes.iter().map(|code| TokenHash::of(&comparable_code(code.reveal()))).collect();
        let secret = Sealed::seal(keys, person.as_bytes(), secret);
        (Self { secret, last_step: step, recovery }, codes)
    }

    /// Returns the authenticator after the use of this code, which may be a recovery code. Returns
    /// `None` if the code is wrong or was used before.
    pub(crate) fn used(
        &self,
        keys: &MasterKeys,
        person: PersonId,
        code: &str,
        now: Timestamp,
    ) -> Option<Self> {
        let hash = TokenHash::of(&comparable_code(code));
        if let Some(found) = self.recovery.iter().position(|it| *it == hash) {
            let mut used = self.clone();
            used.recovery.remove(found);
            return Some(used);
        }
        let secret = match self.secret.open(keys, person.as_bytes()) {
            Ok(secret) => secret,
            Err(error) => {
                tracing::error!(%error, %person, "an authenticator's secret cannot be read");
                return None;
            }
        };
        let step = step_of(&secret, code, now).filter(|step| *step > self.last_step)?;
        Some(Self { last_step: step, ..self.clone() })
    }

    /// Returns the authenticator under the current master key, if it is under an earlier one.
    pub(crate) fn resealed(&self, keys: &MasterKeys, person: PersonId) -> Option<Self> {
        let secret = self.secret.resealed(keys, person.as_bytes())?;
        Some(Self { secret, ..self.clone() })
    }
}

/// Secrets that no code has confirmed yet. There is one for each person, in memory only.
#[derive(Default)]
pub(crate) struct Enrolments(HashMap<PersonId, (Timestamp, [u8; SECRET_BYTES])>);

impl Enrolments {
    /// Stores the secret that was shown to a person. It replaces their earlier one.
    pub(crate) fn show(&mut self, id: PersonId, secret: [u8; SECRET_BYTES], now: Timestamp) {
        self.0.retain(|_, (shown, _)| now < shown.plus(WAITS_FOR));
        self.0.insert(id, (now, secret));
    }

    /// Returns the secret that was shown to a person, while it waits for its first code.
    pub(crate) fn shown(&self, id: PersonId, now: Timestamp) -> Option<[u8; SECRET_BYTES]> {
        let (shown, secret) = self.0.get(&id)?;
        (now < shown.plus(WAITS_FOR)).then_some(*secret)
    }

    /// Removes a person's secret once a code has confirmed it.
    pub(crate) fn confirmed(&mut self, id: PersonId) {
        self.0.remove(&id);
    }
}

/// Returns the step of this code, if it is the current step, or the one before or after it.
pub(crate) fn step_of(secret: &[u8], code: &str, now: Timestamp) -> Option<u64> {
    let digits: String = code.chars().filter(|char| !char.is_whitespace()).collect();
    let current = now.as_millis() / STEP_MS;
    // All are compared, so that the time reveals nothing.
    let steps = current.saturating_sub(DRIFT)..=current.saturating_add(DRIFT);
    steps.fold(None, |found, step| {
        let is_it = code_of(secret, step).as_bytes().ct_eq(digits.as_bytes());
        if bool::from(is_it) { Some(step) } else { found }
    })
}

/// Returns the code of a step (RFC 4226, section 5.3).
pub(crate) fn code_of(secret: &[u8], step: u64) -> String {
    // HMAC takes a key of any length (RFC 2104, section 2), so this cannot fail.
    #[allow(clippy::expect_used)]
    let mut mac = Hmac::<Sha1>::new_from_slice(secret).expect("any length of key");
    mac.update(&step.to_be_bytes());
    let hash: [u8; 20] = mac.finalize().into_bytes().into();
    let at = usize::from(hash[19] & 0xf);
    let number = u32::from_be_bytes([hash[at] & 0x7f, hash[at + 1], hash[at + 2], hash[at + 3]]);
    format!("{:0DIGITS$}", number % 1_000_000)
}

/// Returns the secret as people type it, in Base32.
pub(crate) fn base32(secret: &[u8]) -> String {
    BASE32_NOPAD.encode(secret)
}

fn recovery_code() -> Secret {
    let text = BASE32_NOPAD.encode(&random::bytes::<RECOVERY_BYTES>()).to_lowercase();
    let chars: Vec<char> = text.chars().collect();
    let groups = chars.chunks(GROUP_CHARS).map(|group| group.iter().collect::<String>());
    Secret::new(groups.collect::<Vec<_>>().join("-"))
}

/// Returns a recovery code as it is compared: without separators, in lower case.
fn comparable_code(code: &str) -> String {
    code.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

/// The prefix of the row of a workspace whose members need an authenticator, in [`Table::Meta`].
/// The workspace's id follows.
pub(crate) const TOTP_REQUIRED_ROW: &[u8] = b"totp_required/";

/// Returns the change that stores whether the members of a workspace need an authenticator.
pub(crate) fn totp_requirement(workspace: &WorkspaceId, required: bool) -> Change {
    let row = [TOTP_REQUIRED_ROW, workspace.as_str().as_bytes()].concat();
    if required {
        Change::put(Table::Meta, row, codec::encode(workspace))
    } else {
        Change::delete(Table::Meta, row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    /// RFC 6238, appendix B, the last six of eight digits.
    #[test]
    fn codes_are_those_of_the_standard() {
        let secret = b"12345678901234567890";
        for (seconds, code) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ] {
            assert_eq!(code_of(secret, seconds / 30), code);
            assert_eq!(step_of(secret, code, at(seconds)), Some(seconds / 30));
            assert_eq!(step_of(secret, code, at(seconds + 30)), Some(seconds / 30));
            assert_eq!(step_of(secret, code, at(seconds - 30)), Some(seconds / 30));
            assert_eq!(step_of(secret, code, at(seconds + 60)), None);
            assert_eq!(step_of(secret, &code[..5], at(seconds)), None);
        }
        assert_eq!(base32(b"12345678901234567890"), "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
    }

    #[test]
    fn a_step_and_a_recovery_code_are_taken_once() {
        let keys = MasterKeys::single([7; 32]);
        let person = PersonId::from_parts(at(1), 1);
        let (secret, now) = ([9; SECRET_BYTES], at(1_700_000_000));
        let step = now.as_millis() / STEP_MS;
        let (new, codes) = Authenticator::new(&keys, person, &secret, step);
        let used = |it: &Authenticator, code: &str| it.used(&keys, person, code, now);
        assert_eq!(used(&new, &code_of(&secret, step)), None, "it confirmed the authenticator");
        assert_eq!(used(&new, &code_of(&secret, step - 1)), None);
        let next = used(&new, &code_of(&secret, step + 1)).unwrap();
        assert_eq!(used(&next, &code_of(&secret, step + 1)), None);
        assert_eq!(codes.len(), 10);
        let typed = codes[3].reveal().to_uppercase().replace('-', " ");
        let without = used(&next, &typed).unwrap();
        assert_eq!(used(&without, codes[3].reveal()), None);
        assert!(used(&without, codes[4].reveal()).is_some());
        let other = PersonId::from_parts(at(1), 2);
        assert_eq!(new.used(&keys, other, &code_of(&secret, step + 1), now), None);
    }
}

//! Pure: one-time codes, their length and derivation.
//!
//! A code is never stored. It is the HMAC-SHA256 (RFC 2104) of the request's id and phone under a
//! key of the workspace, reduced to decimal digits. So it can be derived again for a resend or
//! after a crash, and a stolen data directory reveals no code. The reduction takes 128 bits modulo
//! at most 10⁸, so no digit is likelier than another by more than 2⁻¹⁰⁰.
//!
//! A code that any phone may send has letters and digits. Only the code itself identifies its
//! person, so it is too long to be guessed: 60 bits.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::{Phone, RequestId, WorkspaceId};
pub use crate::expiry::Expiry;

/// The number of wrong codes allowed per request. The fifth ends the request.
pub const ATTEMPTS_MAX: u8 = 5;
/// The number of letters and digits of a code that any phone may send.
const OPEN_CODE_CHARS: usize = 12;
/// Crockford's alphabet, of which no letter looks like a digit.
const OPEN_CODE_ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// A number outside the bounds of [`Expiry`] or [`CodeLength`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a whole number from {min} to {max}")]
pub struct OutOfBounds {
    /// The smallest allowed value.
    pub min: u16,
    /// The largest allowed value.
    pub max: u16,
}

/// The number of digits of a code: 4 to 8, by default 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeLength(u8);

impl CodeLength {
    const MIN: u8 = 4;
    const MAX: u8 = 8;

    /// Returns the length of this many digits.
    ///
    /// # Errors
    /// [`OutOfBounds`] below 4 or above 8.
    pub fn from_digits(digits: i64) -> Result<Self, OutOfBounds> {
        u8::try_from(digits)
            .ok()
            .filter(|digits| (Self::MIN..=Self::MAX).contains(digits))
            .map(Self)
            .ok_or(OutOfBounds { min: Self::MIN.into(), max: Self::MAX.into() })
    }
}

impl Default for CodeLength {
    fn default() -> Self {
        Self(6)
    }
}

/// The error for a text that is not a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be 4 to 8 digits")]
pub struct NotDigits;

/// A one-time code. Only [`OtpCode::reveal`] shows it: `Debug` does not, and there is no `Display`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OtpCode {
    value: u32,
    length: CodeLength,
}
const _: () = assert!(10_u64.pow(CodeLength::MAX as u32) - 1 <= u32::MAX as u64);

impl OtpCode {
    /// Parses a code that the caller has chosen.
    ///
    /// # Errors
    /// [`NotDigits`] when it is not 4 to 8 digits.
    pub fn chosen(digits: &str) -> Result<Self, NotDigits> {
        let are_digits = digits.bytes().all(|digit| digit.is_ascii_digit());
        let length = i64::try_from(digits.len()).ok().filter(|_| are_digits).ok_or(NotDigits)?;
        let length = CodeLength::from_digits(length).map_err(|_| NotDigits)?;
        Ok(Self { value: digits.parse().map_err(|_| NotDigits)?, length })
    }

    /// Returns the digits, for the message to the phone and for nothing else.
    #[must_use]
    pub fn reveal(self) -> String {
        format!("{:0width$}", self.value, width = self.length.0.into())
    }

    /// Returns whether a word could be this code: it has as many digits, and nothing else.
    #[must_use]
    pub fn is_like(self, word: &str) -> bool {
        word.len() == usize::from(self.length.0) && word.bytes().all(|it| it.is_ascii_digit())
    }

    /// Returns whether `submitted` is this code. The comparison takes constant time, so that its
    /// duration does not reveal where they differ.
    #[must_use]
    pub fn matches(self, submitted: &str) -> bool {
        let mut digits = [0_u8; CodeLength::MAX as usize];
        let digits = &mut digits[..self.length.0.into()];
        let mut value = self.value;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (value % 10) as u8;
            value /= 10;
        }
        digits.ct_eq(submitted.as_bytes()).into()
    }
}

impl fmt::Debug for OtpCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OtpCode(…)")
    }
}

/// A code that any phone may send. Only [`OpenCode::reveal`] shows it: `Debug` does not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OpenCode([u8; OPEN_CODE_CHARS]);

impl OpenCode {
    /// Returns the code of a digest.
    pub(crate) fn of(digest: [u8; 32]) -> Self {
        let place =
            |at: usize| OPEN_CODE_ALPHABET[usize::from(digest[at]) % OPEN_CODE_ALPHABET.len()];
        Self(std::array::from_fn(place))
    }

    /// Parses a word in either case. Returns `None` if it is not a code.
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        let bytes: [u8; OPEN_CODE_CHARS] = word.as_bytes().try_into().ok()?;
        let bytes = bytes.map(|byte| byte.to_ascii_uppercase());
        bytes.iter().all(|byte| OPEN_CODE_ALPHABET.contains(byte)).then_some(Self(bytes))
    }

    /// Returns the letters and digits, for the caller who requested the code and for nothing else.
    #[must_use]
    pub fn reveal(&self) -> String {
        self.0.iter().map(|byte| char::from(*byte)).collect()
    }

    /// Returns whether both codes are the same, in constant time.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    /// Returns the bytes from which its hash is made.
    pub(crate) const fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for OpenCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpenCode(…)")
    }
}

/// A code that its person sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InboundCode {
    /// A code of one phone: digits.
    Digits(OtpCode),
    /// A code of any phone: letters and digits.
    Open(OpenCode),
}

impl InboundCode {
    /// Returns the code, for the caller who requested it and for nothing else.
    #[must_use]
    pub fn reveal(&self) -> String {
        match self {
            Self::Digits(code) => code.reveal(),
            Self::Open(code) => code.reveal(),
        }
    }
}

/// The key from which a workspace's codes are derived, of one version of the master key.
#[derive(Clone)]
pub struct CodeKey {
    /// The HMAC that has absorbed the key, so that a derivation hashes the message only.
    keyed: Hmac<Sha256>,
}

impl CodeKey {
    /// Derives the workspace's key from a master key, for this use only.
    #[must_use]
    pub fn derive(master_key: &[u8; 32], workspace: &WorkspaceId) -> Self {
        let mut outer = keyed_hmac(master_key);
        outer.update(b"postrider otp code\0");
        outer.update(workspace.as_str().as_bytes());
        Self { keyed: keyed_hmac(&outer.finalize().into_bytes()) }
    }

    /// Returns the code of a request.
    #[must_use]
    pub fn code(&self, request: RequestId, phone: Phone, length: CodeLength) -> OtpCode {
        let mut mac = self.keyed.clone();
        mac.update(request.as_bytes());
        mac.update(&phone.as_u64().to_be_bytes());
        let digest: [u8; 32] = mac.finalize().into_bytes().into();
        let wide = digest[..16].iter().fold(0_u128, |wide, byte| wide << 8 | u128::from(*byte));
        // The value is below 10^MAX, which the assertion below `OtpCode` compares with the type.
        let value = (wide % 10_u128.pow(length.0.into())) as u32;
        OtpCode { value, length }
    }
}

impl CodeKey {
    /// Returns the code of a request that any phone may send. No other code's message is as long.
    #[must_use]
    pub fn open_code(&self, request: RequestId) -> OpenCode {
        let mut mac = self.keyed.clone();
        mac.update(request.as_bytes());
        mac.update(b"any phone may send it");
        OpenCode::of(mac.finalize().into_bytes().into())
    }

    /// Returns the hash under which the request of an open code is found.
    #[must_use]
    pub fn open_hash(&self, code: &OpenCode) -> CallerHash {
        self.caller("open code", code.as_bytes())
    }
}

/// The keyed hash of the origin of a request for a code, such as an address. Nothing else of the
/// origin is stored.
pub type CallerHash = [u8; 16];

impl CodeKey {
    /// Returns the hash under which sends of one caller are counted.
    ///
    /// `kind` says what `name` is, such as an address. The store has no other trace of `name`.
    #[must_use]
    pub fn caller(&self, kind: &str, name: &[u8]) -> CallerHash {
        let mut mac = self.keyed.clone();
        // No request's id has this prefix: its time would be in the year 5432.
        mac.update(b"caller\0");
        mac.update(kind.as_bytes());
        mac.update(b"\0");
        mac.update(name);
        let digest: [u8; 32] = mac.finalize().into_bytes().into();
        let mut hash = CallerHash::default();
        hash.copy_from_slice(&digest[..16]);
        hash
    }
}

impl fmt::Debug for CodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CodeKey(…)")
    }
}

fn keyed_hmac(key: &[u8]) -> Hmac<Sha256> {
    // HMAC takes a key of any length (RFC 2104, section 2), so this cannot fail.
    #[allow(clippy::expect_used)]
    Hmac::new_from_slice(key).expect("HMAC takes a key of any length")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    fn code(unique: u128, length: i64) -> OtpCode {
        let key = CodeKey::derive(&[7; 32], &"acme".parse().unwrap());
        let request = RequestId::from_parts(Timestamp::from_millis(5), unique);
        key.code(request, "+15550123456".parse().unwrap(), CodeLength::from_digits(length).unwrap())
    }

    #[test]
    fn a_code_has_its_length_and_matches_itself_only() {
        for length in 4..=8 {
            for unique in 0..200 {
                let code = code(unique, length);
                let digits = code.reveal();
                assert_eq!(digits.len(), length as usize);
                assert!(code.matches(&digits));
                assert!(!code.matches(&digits[1..]));
                assert!(!code.matches(&format!("{digits}0")));
                let other = (digits.parse::<u32>().unwrap() + 1) % 10_u32.pow(length as u32);
                assert!(!code.matches(&format!("{other:0width$}", width = length as usize)));
            }
        }
        assert!(!code(1, 6).matches("١٢٣٤٥٦"));
    }

    #[test]
    fn digits_are_spread_evenly() {
        let mut first_digit = [0_u32; 10];
        for unique in 0..10_000 {
            first_digit[usize::from(code(unique, 6).reveal().as_bytes()[0] - b'0')] += 1;
        }
        // 1,000 each are expected with a deviation of 30; six deviations.
        assert!(first_digit.iter().all(|count| (820..=1180).contains(count)), "{first_digit:?}");
    }

    #[test]
    fn workspaces_requests_and_master_keys_have_codes_of_their_own() {
        let request = RequestId::from_parts(Timestamp::from_millis(5), 1);
        let phone = "+15550123456".parse().unwrap();
        let length = CodeLength::from_digits(8).unwrap();
        let code = |master: u8, workspace: &str| {
            let key = CodeKey::derive(&[master; 32], &workspace.parse().unwrap());
            key.code(request, phone, length).reveal()
        };
        assert_eq!(code(1, "a"), code(1, "a"));
        assert_ne!(code(1, "a"), code(2, "a"));
        assert_ne!(code(1, "a"), code(1, "b"));
    }

    #[test]
    fn bounds_are_the_documented_ones() {
        for (seconds, allowed) in [(59, false), (60, true), (900, true), (901, false), (-1, false)]
        {
            assert_eq!(Expiry::from_seconds(seconds).is_ok(), allowed, "{seconds}");
        }
        for (digits, allowed) in [(3, false), (4, true), (8, true), (9, false), (256, false)] {
            assert_eq!(CodeLength::from_digits(digits).is_ok(), allowed, "{digits}");
        }
    }

    #[test]
    fn nothing_prints_a_code() {
        assert_eq!(format!("{:?}", code(1, 6)), "OtpCode(…)");
    }

    #[test]
    fn a_code_is_read_as_it_is_shown_in_capitals_or_not() {
        let code = OpenCode::of(std::array::from_fn(|at| (at as u8).wrapping_mul(11)));
        let shown = code.reveal();
        assert_eq!((&*shown, &*format!("{code:?}")), ("0BP1CQ2DR3ES", "OpenCode(…)"));
        assert!(OpenCode::read(&shown).unwrap().matches(&code));
        assert!(OpenCode::read(&shown.to_lowercase()).unwrap().matches(&code));
        let other = format!("{}T", &shown[..11]);
        assert!(!OpenCode::read(&other).unwrap().matches(&code));
        for none in ["", "0BP1CQ2DR3E", "0BP1CQ2DR3ESS", "0BP1CQ2DR3EI", "éBP1CQ2DR3E"] {
            assert_eq!(OpenCode::read(none), None, "{none}");
        }
    }
}

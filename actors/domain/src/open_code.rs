//! Pure: codes of letters and digits, which any phone may send.
//!
//! Only the code itself identifies its person, so it is too long to be guessed: 60 bits. Its
//! letters are those of Crockford's alphabet, of which none looks like a digit.

use std::fmt;

use subtle::ConstantTimeEq;

use crate::code::OtpCode;

/// The number of letters and digits of a code.
const LENGTH: usize = 12;
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// A code that any phone may send. Only [`OpenCode::reveal`] shows it: `Debug` does not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OpenCode([u8; LENGTH]);

impl OpenCode {
    /// Returns the code of a digest.
    pub(crate) fn of(digest: [u8; 32]) -> Self {
        let place = |at: usize| ALPHABET[usize::from(digest[at]) % ALPHABET.len()];
        Self(std::array::from_fn(place))
    }

    /// Parses a word in either case. Returns `None` if it is not a code.
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        let bytes: [u8; LENGTH] = word.as_bytes().try_into().ok()?;
        let bytes = bytes.map(|byte| byte.to_ascii_uppercase());
        bytes.iter().all(|byte| ALPHABET.contains(byte)).then_some(Self(bytes))
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

#[cfg(test)]
mod tests {
    use super::*;

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

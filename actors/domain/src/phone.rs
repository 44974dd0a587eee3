//! Pure: a phone number in strict E.164 (ITU-T E.164).
//!
//! It is a `+` and 7 to 15 digits, of which the first is 1 to 9.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Fewest digits of a number.
pub const DIGITS_MIN: usize = 7;
/// Most digits of a number (E.164, section 6). A number must fit its integer type.
pub const DIGITS_MAX: usize = 15;
const _: () = assert!(10_u128.pow(DIGITS_MAX as u32) - 1 <= u64::MAX as u128);

/// A phone number, as the integer that its digits spell.
///
/// The first digit is never 0, so no information is lost. `Display` shows the full number. `Debug`
/// hides its middle, so that a log line cannot show it by accident.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Phone(u64);

/// The text or integer is not a phone number in E.164.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be in E.164: `+`, then 7 to 15 digits of which the first is not 0")]
pub struct PhoneError;

impl Phone {
    /// Stands where it is not known whose phone it is: of a code that anybody may send. It is no
    /// number: nothing parses as it, and nothing is sent to it.
    pub const ANYBODY: Self = Self(0);

    /// The phone, unless it stands for anybody's.
    #[must_use]
    pub const fn known(self) -> Option<Self> {
        if self.0 == 0 { None } else { Some(self) }
    }

    /// The number whose digits spell this integer: 15550123456 is +15550123456.
    ///
    /// # Errors
    /// [`PhoneError`] when it has fewer than 7 digits or more than 15.
    pub const fn from_digits(digits: u64) -> Result<Self, PhoneError> {
        match digits {
            1_000_000..=999_999_999_999_999 => Ok(Self(digits)),
            _ => Err(PhoneError),
        }
    }

    /// The number as an integer, for keys and hashes.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl FromStr for Phone {
    type Err = PhoneError;

    fn from_str(text: &str) -> Result<Self, PhoneError> {
        let digits = text.strip_prefix('+').ok_or(PhoneError)?.as_bytes();
        let well_formed = (DIGITS_MIN..=DIGITS_MAX).contains(&digits.len())
            && digits[0] != b'0'
            && digits.iter().all(u8::is_ascii_digit);
        if !well_formed {
            return Err(PhoneError);
        }
        Ok(Self(digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))))
    }
}

impl fmt::Display for Phone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{}", self.0)
    }
}

impl fmt::Debug for Phone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.known().is_none() {
            return f.write_str("+…");
        }
        let digits = self.0.to_string();
        write!(f, "+{}…{}", &digits[..2], &digits[digits.len() - 2..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_e164_only() {
        for good in ["+1555012", "+15550123456", "+999999999999999", "+4915112345678"] {
            assert_eq!(good.parse::<Phone>().map(|phone| phone.to_string()), Ok(good.to_owned()));
        }
        for bad in [
            "",
            "+",
            "15550123456",
            "+0555012345",
            "+155501",
            "+1234567890123456",
            "+1 5550123456",
            "+1555-012345",
            "＋15550123456",
            "+1555０12345",
            "++15550123456",
            "+15550123456\n",
        ] {
            assert_eq!(bad.parse::<Phone>(), Err(PhoneError), "{bad:?}");
        }
    }

    #[test]
    fn digits_are_the_number() {
        for (digits, text) in [(1_000_000, "+1000000"), (999_999_999_999_999, "+999999999999999")] {
            assert_eq!(Phone::from_digits(digits).map(|phone| phone.to_string()), Ok(text.into()));
        }
        assert_eq!(Phone::from_digits(999_999), Err(PhoneError));
        assert_eq!(Phone::from_digits(1_000_000_000_000_000), Err(PhoneError));
    }

    #[test]
    fn debug_hides_the_middle() {
        let phone: Phone = "+15550123456".parse().unwrap();
        assert_eq!(format!("{phone:?}"), "+15…56");
        assert_eq!(format!("{:?}", Phone::ANYBODY), "+…");
    }
}

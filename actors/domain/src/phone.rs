//! Pure: a phone number in strict E.164 (ITU-T E.164).
//!
//! It is a `+` and 7 to 15 digits, of which the first is 1 to 9.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::national_forms;

/// Fewest digits of a number.
pub const DIGITS_MIN: usize = 7;
/// The maximum number of digits of a number (E.164, section 6). A number must fit its integer type.
pub const DIGITS_MAX: usize = 15;
const _: () = assert!(10_u128.pow(DIGITS_MAX as u32) - 1 <= u64::MAX as u128);

/// A phone number, as the integer that its digits spell.
///
/// The first digit is never 0, so no information is lost. `Display` shows the full number. `Debug`
/// hides its middle, so that a log line cannot show it by accident.
///
/// Two phones are equal if they reach one person. In some countries the chat channel uses several
/// [forms](Self::forms) of a number for one person. Equality, order and hashes use the canonical
/// form, and so must keys: [`key_bytes`](Self::key_bytes). Texts and messages use the form that was
/// written.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Phone(u64);

impl PartialEq for Phone {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.canonical().0 == other.canonical().0
    }
}

impl Eq for Phone {}

impl PartialOrd for Phone {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Phone {
    fn cmp(&self, other: &Self) -> Ordering {
        self.canonical().0.cmp(&other.canonical().0)
    }
}

impl Hash for Phone {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.canonical().0.hash(state);
    }
}

/// The text or integer is not a phone number in E.164.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be in E.164: `+`, then 7 to 15 digits of which the first is not 0")]
pub struct PhoneError;

impl Phone {
    /// The placeholder for an unknown phone, of a code that any phone may send. It is no number: no
    /// text parses as it, and nothing is sent to it.
    pub const ANYBODY: Self = Self(0);

    /// Returns the phone, unless it is [`ANYBODY`](Self::ANYBODY).
    #[must_use]
    pub const fn known(self) -> Option<Self> {
        if self.0 == 0 { None } else { Some(self) }
    }

    /// Creates the number whose digits spell this integer: 15550123456 is +15550123456.
    ///
    /// # Errors
    /// [`PhoneError`] when it has fewer than 7 digits or more than 15.
    pub const fn from_digits(digits: u64) -> Result<Self, PhoneError> {
        match digits {
            1_000_000..=999_999_999_999_999 => Ok(Self(digits)),
            _ => Err(PhoneError),
        }
    }

    /// Returns the number as an integer, in the form in which it was written.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Returns the form that represents all forms of the phone. People see it only if it was
    /// written so.
    #[must_use]
    pub fn canonical(self) -> Self {
        Self(national_forms::canonical(self.0))
    }

    /// All forms of the phone, the canonical one first; most phones have one alone.
    pub fn forms(self) -> impl Iterator<Item = Self> {
        let canonical = self.canonical();
        [canonical].into_iter().chain(national_forms::others(canonical.0).map(Self))
    }

    /// Returns the bytes that identify the phone in a key: its canonical form, big endian.
    #[must_use]
    pub fn key_bytes(self) -> [u8; 8] {
        self.canonical().0.to_be_bytes()
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
        f.write_str("+")?;
        f.write_str(itoa::Buffer::new().format(self.0))
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

    fn phone(text: &str) -> Phone {
        text.parse().unwrap()
    }

    fn hash(phone: Phone) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        phone.hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn phones_in_two_forms_are_equal_and_stay_as_they_were_written() {
        let (long, short) = (phone("+5511987654321"), phone("+551187654321"));
        assert_eq!(long, short);
        assert_eq!(long.cmp(&short), Ordering::Equal);
        assert_eq!(hash(long), hash(short));
        assert_eq!(long.key_bytes(), short.key_bytes());
        assert_eq!((long.to_string(), short.to_string()), {
            ("+5511987654321".to_owned(), "+551187654321".to_owned())
        });
        assert_eq!(serde_json::to_string(&short).unwrap(), "551187654321");
        for written in [long, short] {
            let forms: Vec<_> = written.forms().map(|form| form.to_string()).collect();
            assert_eq!(forms, ["+5511987654321", "+551187654321"]);
        }
        let other = phone("+5511987654322");
        assert!(long != other && short < other && hash(long) != hash(other));
        let forms: Vec<_> = phone("+15550123456").forms().map(|it| it.to_string()).collect();
        assert_eq!(forms, ["+15550123456"]);
    }

    #[test]
    fn debug_hides_the_middle() {
        let phone: Phone = "+15550123456".parse().unwrap();
        assert_eq!(format!("{phone:?}"), "+15…56");
        assert_eq!(format!("{:?}", Phone::ANYBODY), "+…");
    }
}

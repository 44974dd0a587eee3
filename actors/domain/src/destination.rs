//! Pure: country calling codes (ITU-T E.164), and the allowed destinations of a workspace.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::Phone;

/// The maximum number of digits of a prefix. A prefix must fit its integer type.
const PREFIX_DIGITS_MAX: usize = 7;
const _: () = assert!(10_u64.pow(PREFIX_DIGITS_MAX as u32) - 1 <= u32::MAX as u64);
/// The maximum number of prefixes of a list.
pub const PREFIXES_MAX: usize = 1000;

/// The calling codes of two digits. All others are 1, 7 or have three digits.
const TWO_DIGITS: [u8; 44] = [
    20, 27, 30, 31, 32, 33, 34, 36, 39, 40, 41, 43, 44, 45, 46, 47, 48, 49, 51, 52, 53, 54, 55, 56,
    57, 58, 60, 61, 62, 63, 64, 65, 66, 81, 82, 84, 86, 90, 91, 92, 93, 94, 95, 98,
];

/// Returns the country calling code of a phone: 1 to 999.
#[must_use]
pub fn calling_code(phone: Phone) -> u16 {
    let mut first_three = phone.as_u64();
    while first_three > 999 {
        first_three /= 10;
    }
    // It is at most 999, which fits.
    let first_three = u16::try_from(first_three).unwrap_or(999);
    let (first, first_two) = (first_three / 100, first_three / 10);
    let is_two_digits = || TWO_DIGITS.iter().any(|code| u16::from(*code) == first_two);
    match first {
        1 | 7 => first,
        _ if is_two_digits() => first_two,
        _ => first_three,
    }
}

/// The first digits of phone numbers: a country calling code, or a region of a country such as
/// 1876.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix(u32);

/// The reason for which a text is not a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must have 1 to 7 digits of which the first is not 0")]
pub struct PrefixError;

impl Prefix {
    /// Checks whether a form of the phone begins with this prefix.
    #[must_use]
    pub fn matches(self, phone: Phone) -> bool {
        let prefix = u64::from(self.0);
        phone.forms().any(|form| {
            let mut digits = form.as_u64();
            while digits > prefix {
                digits /= 10;
            }
            digits == prefix
        })
    }
}

/// The number of regions of one country: three digits after its calling code.
const REGIONS: u32 = 1000;

/// The region of a phone: the country calling code and the next three digits of its canonical form.
#[must_use]
pub fn region(phone: Phone) -> Prefix {
    let code = u32::from(calling_code(phone));
    let most = Prefix::regions_of(calling_code(phone)).end().0;
    let mut digits = phone.canonical().as_u64();
    while digits > u64::from(most) {
        digits /= 10;
    }
    Prefix(u32::try_from(digits).unwrap_or(code))
}

impl Prefix {
    /// Returns the country with this calling code.
    #[must_use]
    pub fn of_country(calling_code: u16) -> Self {
        Self(calling_code.into())
    }

    /// Returns the regions of the country with this calling code.
    #[must_use]
    pub fn regions_of(calling_code: u16) -> RangeInclusive<Self> {
        let first = u32::from(calling_code) * REGIONS;
        Self(first)..=Self(first + REGIONS - 1)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let well_formed = (1..=PREFIX_DIGITS_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && !text.starts_with('0');
        text.parse().ok().filter(|_| well_formed).map(Self).ok_or(PrefixError)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// The reaction to destinations whose codes are rarely verified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdaptiveMode {
    /// No reaction.
    #[default]
    Off,
    /// Codes to them are reported, and sent.
    Report,
    /// Codes to them are reported, and all but a few are refused.
    Refuse,
}

impl AdaptiveMode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Off, Self::Report, Self::Refuse];

    /// Returns the mode's word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Report => "report",
            Self::Refuse => "refuse",
        }
    }
}

/// The text is not a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be off, report or refuse")]
pub struct AdaptiveModeError;

impl FromStr for AdaptiveMode {
    type Err = AdaptiveModeError;

    fn from_str(text: &str) -> Result<Self, AdaptiveModeError> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text).ok_or(AdaptiveModeError)
    }
}

/// The destinations to which a workspace may send one-time passwords.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Destinations {
    /// The allowed prefixes. An empty list allows every destination.
    pub allow: Vec<Prefix>,
    /// The denied prefixes, which override the allowed ones.
    pub deny: Vec<Prefix>,
    /// The prefixes that are not limited, even if their codes are rarely verified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub safe: Vec<Prefix>,
    /// The reaction to codes that are rarely verified; `None` for the reaction of the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<AdaptiveMode>,
}

impl Destinations {
    /// Returns whether the workspace may send a one-time password to the phone.
    #[must_use]
    pub fn permit(&self, phone: Phone) -> bool {
        let any = |prefixes: &[Prefix]| prefixes.iter().any(|prefix| prefix.matches(phone));
        (self.allow.is_empty() || any(&self.allow)) && !any(&self.deny)
    }

    /// Returns whether codes to the phone are not limited, however few are verified.
    #[must_use]
    pub fn is_safe(&self, phone: Phone) -> bool {
        self.safe.iter().any(|prefix| prefix.matches(phone))
    }
}

/// A change of the destinations. Both lists are set; a field that is `None` keeps its value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DestinationsChange {
    /// The allowed prefixes.
    pub allow: Vec<Prefix>,
    /// The denied prefixes.
    pub deny: Vec<Prefix>,
    /// The prefixes that are not limited.
    pub safe: Option<Vec<Prefix>>,
    /// The reaction to codes that are rarely verified; `Some(None)` for the reaction of the
    /// settings.
    pub adaptive: Option<Option<AdaptiveMode>>,
}

impl DestinationsChange {
    /// Returns the destinations after this change.
    #[must_use]
    pub fn over(self, before: &Destinations) -> Destinations {
        let Self { allow, deny, safe, adaptive } = self;
        let safe = safe.unwrap_or_else(|| before.safe.clone());
        Destinations { allow, deny, safe, adaptive: adaptive.unwrap_or(before.adaptive) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phone(text: &str) -> Phone {
        text.parse().unwrap()
    }

    #[test]
    fn calling_codes_are_those_of_e164() {
        for (number, code) in [
            ("+15550123456", 1),
            ("+18765550123", 1),
            ("+79261234567", 7),
            ("+201001234567", 20),
            ("+212612345678", 212),
            ("+27821234567", 27),
            ("+351912345678", 351),
            ("+4915112345678", 49),
            ("+420601123456", 420),
            ("+447700900123", 44),
            ("+5491123456789", 54),
            ("+593991234567", 593),
            ("+6591234567", 65),
            ("+679123456", 679),
            ("+8613912345678", 86),
            ("+85291234567", 852),
            ("+919812345678", 91),
            ("+971501234567", 971),
            ("+989121234567", 98),
            ("+998901234567", 998),
            ("+2901234", 290),
        ] {
            assert_eq!(calling_code(phone(number)), code, "{number}");
        }
    }

    #[test]
    fn a_prefix_is_the_first_digits() {
        let prefix = |text: &str| text.parse::<Prefix>();
        for (text, number, matches) in [
            ("1", "+15550123456", true),
            ("1555", "+15550123456", true),
            ("1556", "+15550123456", false),
            ("4", "+15550123456", false),
            ("49", "+4915112345678", true),
            ("4", "+4915112345678", true),
            ("5550123", "+5550123", true),
            ("5550124", "+5550123", false),
        ] {
            assert_eq!(prefix(text).unwrap().matches(phone(number)), matches, "{text} {number}");
        }
        for bad in ["", "0", "049", "+49", "4 9", "12345678", "٤٩"] {
            assert_eq!(prefix(bad), Err(PrefixError), "{bad}");
        }
    }

    #[test]
    fn a_region_is_the_calling_code_and_three_digits() {
        for (number, of) in [
            ("+15550123456", "1555"),
            ("+4915112345678", "49151"),
            ("+351912345678", "351912"),
            ("+998901234567", "998901"),
            ("+2901234", "290123"),
        ] {
            let (phone, of) = (phone(number), of.parse().unwrap());
            assert_eq!(region(phone), of, "{number}");
            assert!(Prefix::regions_of(calling_code(phone)).contains(&of));
        }
    }

    #[test]
    fn what_is_denied_is_denied_whatever_is_allowed() {
        let destinations = |allow: &[&str], deny: &[&str]| {
            let list = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
            Destinations { allow: list(allow), deny: list(deny), ..Destinations::default() }
        };
        for (allow, deny, permitted) in [
            (&[][..], &[][..], true),
            (&["1"], &[], true),
            (&["49", "1"], &[], true),
            (&["49"], &[], false),
            (&[], &["1555"], false),
            (&["1"], &["1555"], false),
            (&["1555"], &["1"], false),
            (&[], &["49"], true),
        ] {
            let permit = destinations(allow, deny).permit(phone("+15550123456"));
            assert_eq!(permit, permitted, "{allow:?} {deny:?}");
        }
    }
}

//! Reads phones as people and spreadsheets write them. Pure.
//!
//! `src/ui/app/import/phones.js` does the same and describes `countries.json`.
//! `tests/fixtures/phones.json` keeps the two equal.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use postrider_actors::domain::Phone;

/// The rules of each country, by its ISO 3166 code of two letters.
static COUNTRIES: LazyLock<BTreeMap<&str, NumberingRule>> = LazyLock::new(|| {
    let rows = include_str!("../../ui/app/import/countries.json");
    let rows: BTreeMap<&str, &str> = serde_json::from_str(rows).unwrap_or_default();
    rows.into_iter()
        .filter_map(|(country, row)| Some((country, NumberingRule::parse(row)?)))
        .collect()
});

/// The rules by which the numbers of a country are written.
#[derive(Debug)]
struct NumberingRule {
    code: &'static str,
    /// The prefixes that are dialled before a national number and are not part of it.
    trunks: Vec<&'static str>,
    /// The minimum and maximum number of digits of a national number.
    lengths: (usize, usize),
    /// The prefix that is dialled before a calling code; `*` if there are several.
    out: &'static str,
    /// The possible first digits of a number without trunk and calling code; empty means any.
    first: &'static str,
}

impl NumberingRule {
    fn parse(row: &'static str) -> Option<Self> {
        let mut parts = row.split(' ');
        let (code, trunks, lengths) = (parts.next()?, parts.next()?, parts.next()?);
        let (least, most) = lengths.split_once('-')?;
        Some(Self {
            code,
            trunks: if trunks == "-" { Vec::new() } else { trunks.split('|').collect() },
            lengths: (least.parse().ok()?, most.parse().ok()?),
            out: parts.next().unwrap_or("00"),
            first: parts.next().unwrap_or_default(),
        })
    }

    fn fits(&self, digits: &str) -> bool {
        let (least, most) = self.lengths;
        let begins_well = self.trunks.is_empty() || !digits.starts_with('0');
        (least..=most).contains(&digits.len()) && begins_well
    }

    /// Returns whether this is a national number that may have lost its trunk prefix.
    fn fits_bare(&self, digits: &str) -> bool {
        let begins_well =
            self.first.is_empty() || digits.starts_with(|it: char| self.first.contains(it));
        self.fits(digits) && begins_well
    }

    /// Converts the digits of a national number to those after the `+`.
    fn national(&self, digits: &str) -> Result<String, Unread> {
        let code = self.code;
        let without_trunk = |trunk: &&str| digits.strip_prefix(*trunk).filter(|it| self.fits(it));
        if let Some(rest) = self.trunks.iter().find_map(without_trunk) {
            return Ok(format!("{code}{rest}"));
        }
        // A spreadsheet may have removed a 0 or a +.
        let has_code = digits.strip_prefix(code).is_some_and(|rest| self.fits_bare(rest));
        match (self.fits_bare(digits), has_code) {
            (true, true) => Err(Unread::Unclear),
            (true, false) => Ok(format!("{code}{digits}")),
            (false, true) => Ok(digits.to_owned()),
            (false, false) => Err(Unread::Length),
        }
    }
}

/// The error for a text that is not the code of a country.
#[derive(Debug, Clone, thiserror::Error)]
#[error("must be a country's code of two letters in ISO 3166, such as DE")]
pub(crate) struct CountryError;

/// The country of numbers without a calling code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Country(&'static str);

impl Country {
    pub(super) const fn as_str(self) -> &'static str {
        self.0
    }
}

impl std::str::FromStr for Country {
    type Err = CountryError;

    fn from_str(text: &str) -> Result<Self, CountryError> {
        let country = COUNTRIES.get_key_value(text.to_ascii_uppercase().as_str());
        country.map(|(country, _)| Self(country)).ok_or(CountryError)
    }
}

/// The reason why a text is not a phone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unread {
    #[error("{}", postrider_actors::domain::PhoneError)]
    Phone,
    #[error("has no `+` and calling code: --country names the country of such numbers")]
    Country,
    #[error("may be two numbers: write it with `+` and the calling code")]
    Unclear,
    #[error("was rounded by a spreadsheet: format the column as text, and enter it again")]
    Rounded,
    #[error("is not a number of the country that --country names")]
    Length,
}

/// Reads a phone as it is written. `country` is that of a national number.
pub(super) fn parse_phone(written: &str, country: Option<Country>) -> Result<Phone, Unread> {
    let text = plain_digits(written)?;
    if let Ok(phone) = text.parse() {
        return Ok(phone);
    }
    let begins_well = text.starts_with(|it: char| matches!(it, '+' | '(') || it.is_ascii_digit());
    let digits = without_signs(&text);
    let number = digits.strip_prefix('+').unwrap_or(&digits);
    if !begins_well || number.is_empty() || !number.bytes().all(|it| it.is_ascii_digit()) {
        return Err(Unread::Phone);
    }
    let rule = country.and_then(|it| COUNTRIES.get(it.0));
    let out = rule.map_or("00", |it| it.out);
    if out == "*" && digits.starts_with("00") {
        return Err(Unread::Unclear);
    }
    let found =
        if digits.starts_with('+') { Some(number) } else { without_exit_prefix(number, out) };
    let found = match (found, rule) {
        (Some(rest), _) => without_inner_zero(&text, &digits, rest),
        (None, _) if digits.starts_with("00") => return Err(Unread::Phone),
        (None, Some(rule)) => rule.national(number)?,
        (None, None) => return Err(Unread::Country),
    };
    format!("+{found}").parse().map_err(|_| Unread::Phone)
}

/// Returns the digits after the prefix for a calling code, if the number starts with that prefix.
fn without_exit_prefix<'a>(digits: &'a str, out: &str) -> Option<&'a str> {
    let own = digits.strip_prefix(out).filter(|rest| !rest.starts_with('0'));
    let rest = own.or_else(|| digits.strip_prefix("00"))?;
    // No number of calling code 1 continues with 0 or 1: another country dials this first.
    (!rest.is_empty() && !rest.starts_with("10") && !rest.starts_with("11")).then_some(rest)
}

/// Drops the 0 of `+49 (0)30`, which is dialled within the country only. `rest` ends `digits`.
fn without_inner_zero(text: &str, digits: &str, rest: &str) -> String {
    let mut opened = text.match_indices('(').map(|(at, _)| text.split_at(at));
    let is_zero = |after: &str| {
        let inner = after[1..].split_once(')').map(|(inner, _)| inner.trim());
        inner == Some("0")
    };
    let Some((before, _)) = opened.find(|(_, after)| is_zero(after)) else {
        return rest.to_owned();
    };
    let before = without_signs(before);
    let code = before.get(digits.len() - rest.len()..).unwrap_or_default();
    let drops = COUNTRIES.values().any(|it| it.code == code && it.trunks.contains(&"0"));
    match rest.strip_prefix(code).and_then(|it| it.strip_prefix('0')) {
        Some(after) if drops => format!("{code}{after}"),
        _ => rest.to_owned(),
    }
}

/// Removes the signs between the digits of a number.
fn without_signs(text: &str) -> String {
    let is_sign = |it: &char| {
        it.is_whitespace()
            || matches!(it, '(' | ')' | '.' | '/' | '-' | '\u{b7}' | '\u{2212}')
            || ('\u{2010}'..='\u{2015}').contains(it)
    };
    text.chars().filter(|it| !is_sign(it)).collect()
}

/// Converts a text to ASCII digits, without invisible marks and the additions of spreadsheets.
fn plain_digits(written: &str) -> Result<String, Unread> {
    let seen: String = written.chars().filter(|it| !is_unseen(*it)).map(ascii_char).collect();
    let text = seen.trim().trim_start_matches(['\'', '\u{2019}']).trim();
    let scheme = text.get(..4).filter(|it| it.eq_ignore_ascii_case("tel:"));
    let text = scheme.map_or(text, |it| &text[it.len()..]).trim();
    if let Some((mantissa, power)) = text.split_once(['e', 'E']) {
        return expand_exponent(mantissa, power);
    }
    let whole = text.split_once(['.', ',']).filter(|(whole, decimals)| {
        let digits = whole.strip_prefix('+').unwrap_or(whole);
        (7..=15).contains(&digits.len())
            && digits.bytes().all(|it| it.is_ascii_digit())
            && !decimals.is_empty()
            && decimals.bytes().all(|it| it == b'0')
    });
    Ok(whole.map_or(text, |(whole, _)| whole).to_owned())
}

/// Returns the digits of `1.5550123456E+10`.
///
/// With fewer digits than the power, a spreadsheet has dropped the rest.
fn expand_exponent(mantissa: &str, power: &str) -> Result<String, Unread> {
    let all_digits = |text: &str| text.bytes().all(|it| it.is_ascii_digit());
    let power = power.strip_prefix('+').unwrap_or(power);
    let unsigned = mantissa.strip_prefix('+').unwrap_or(mantissa);
    let (first, decimals) = match unsigned.split_once(['.', ',']) {
        Some((_, "")) => return Err(Unread::Phone),
        Some(split) => split,
        None => (unsigned, ""),
    };
    let is_power = (1..=2).contains(&power.len()) && all_digits(power);
    if first.len() != 1 || !all_digits(first) || !all_digits(decimals) || !is_power {
        return Err(Unread::Phone);
    }
    if power.parse() != Ok(decimals.len()) {
        return Err(Unread::Rounded);
    }
    let sign = if unsigned.len() < mantissa.len() { "+" } else { "" };
    Ok(format!("{sign}{first}{decimals}"))
}

const fn is_unseen(it: char) -> bool {
    matches!(it, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'
        | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Converts Arabic, Persian and wide digits, and the wide plus.
fn ascii_char(it: char) -> char {
    match it {
        '\u{660}'..='\u{669}' | '\u{6f0}'..='\u{6f9}' | '\u{ff10}'..='\u{ff19}' => {
            char::from_digit(u32::from(it) & 15, 10).unwrap_or(it)
        }
        '\u{ff0b}' => '+',
        _ => it,
    }
}

#[cfg(test)]
mod tests {
    use postrider_actors::domain::fuzz::{SCRIPT_BYTES_MAX, edited};
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Case {
        text: String,
        country: String,
        phone: Option<String>,
        reason: Option<String>,
    }

    fn cases() -> Vec<Case> {
        let cases = include_str!("../../../tests/fixtures/phones.json");
        let cases: BTreeMap<String, Vec<Case>> = serde_json::from_str(cases).unwrap();
        cases.into_values().flatten().collect()
    }

    #[test]
    fn each_phone_of_the_table_is_read_as_the_dashboard_reads_it() {
        for Case { text, country, phone, reason } in cases() {
            let found = match parse_phone(&text, country.parse().ok()) {
                Ok(phone) => phone.to_string(),
                Err(why) => format!("{why:?}").to_lowercase(),
            };
            assert_eq!(Some(found), phone.or(reason), "{text:?} of {country:?}");
        }
    }

    #[test]
    fn every_country_has_a_rule() {
        let rows = include_str!("../../ui/app/import/countries.json");
        assert_eq!(COUNTRIES.len(), rows.lines().count() - 2);
        assert_eq!("de".parse::<Country>().ok(), Some(Country("DE")));
        assert!(["", "XX", "DEU", "49"].iter().all(|it| it.parse::<Country>().is_err()));
    }

    #[test]
    fn fuzz_phones() {
        let texts: Vec<_> = cases().into_iter().map(|case| case.text.into_bytes()).collect();
        let texts: Vec<_> = texts.iter().map(Vec::as_slice).collect();
        bolero::check!().with_iterations(5_000).for_each(|script: &[u8]| {
            let text = edited(&texts, &script[..script.len().min(SCRIPT_BYTES_MAX)]);
            let text = String::from_utf8_lossy(&text);
            for country in [None, Some(Country("DE")), Some(Country("US"))] {
                let Ok(phone) = parse_phone(&text, country) else { continue };
                // A phone that was read is read again without a change.
                assert_eq!(parse_phone(&phone.to_string(), country), Ok(phone), "{text:?}");
            }
        });
    }
}

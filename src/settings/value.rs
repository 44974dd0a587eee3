//! Rules of values: they parse a value from TOML or from text, and say the allowed values.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use axum::http::Uri;
use ipnet::IpNet;
use postrider_actors::Secret;
use postrider_actors::domain::Email;

/// The unparsed value of a key.
#[derive(Debug, Clone)]
pub(super) enum Raw {
    /// A value from a file.
    Toml(toml::Value),
    /// Text from the environment.
    Text(String),
}

impl Raw {
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Toml(toml::Value::String(text)) | Self::Text(text) => Some(text),
            Self::Toml(_) => None,
        }
    }

    fn as_whole(&self) -> Option<u64> {
        match self {
            Self::Toml(value) => value.as_integer().and_then(|number| u64::try_from(number).ok()),
            Self::Text(text) if text.starts_with('+') => None,
            Self::Text(text) => text.parse().ok(),
        }
    }
}

impl From<i64> for Raw {
    fn from(number: i64) -> Self {
        Self::Toml(number.into())
    }
}

impl From<bool> for Raw {
    fn from(flag: bool) -> Self {
        Self::Toml(flag.into())
    }
}

impl From<&str> for Raw {
    fn from(text: &str) -> Self {
        Self::Toml(text.into())
    }
}

impl<const N: usize> From<[&str; N]> for Raw {
    fn from(words: [&str; N]) -> Self {
        Self::Toml(Vec::from(words).into())
    }
}

/// Parses a value; `None` if the key does not allow it.
type Read<T> = dyn Fn(&Raw) -> Option<T>;

/// The rule of a key: it parses values, and says which values it allows.
pub(super) struct Rule<T> {
    read: Box<Read<T>>,
    /// The allowed values, as they follow "must be".
    pub(super) allowed: String,
}

impl<T: 'static> Rule<T> {
    /// Makes the rule that parses with `read`.
    pub(super) fn new(
        allowed: impl Into<String>,
        read: impl Fn(&Raw) -> Option<T> + 'static,
    ) -> Self {
        Self { read: Box::new(read), allowed: allowed.into() }
    }

    /// Parses a value. `None`: the rule does not allow it.
    pub(super) fn read(&self, raw: &Raw) -> Option<T> {
        (self.read)(raw)
    }

    /// Converts what the rule parses.
    pub(super) fn map<U: 'static>(self, to: impl Fn(T) -> U + 'static) -> Rule<U> {
        Rule::new(self.allowed, move |raw| (self.read)(raw).map(&to))
    }

    /// Allows `word` too, which is `None`.
    pub(super) fn or(self, word: &'static str) -> Rule<Option<T>> {
        let said = if word.is_empty() { "empty".to_owned() } else { format!("\"{word}\"") };
        let or = if self.allowed.starts_with("empty, or ") { "" } else { "or " };
        Rule::new(format!("{said}, {or}{}", self.allowed), move |raw| match raw.as_text() {
            Some(text) if text == word => Some(None),
            _ => (self.read)(raw).map(Some),
        })
    }

    /// Says the effect of the number 0.
    pub(super) fn zero(self, effect: &str) -> Self {
        let allowed = self.allowed.replacen("from 0", &format!("from 0 ({effect})"), 1);
        Self { allowed, ..self }
    }
}

impl<T> fmt::Debug for Rule<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.allowed)
    }
}

/// A master key: 32 bytes that `Debug` hides.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MasterKey([u8; 32]);

impl MasterKey {
    /// Makes a key of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Parses a key from 64 hexadecimal digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16);
            *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
        }
        Some(Self(bytes))
    }

    /// Returns the key's bytes.
    #[must_use]
    pub const fn reveal(&self) -> [u8; 32] {
        self.0
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(…)")
    }
}

/// The callers that may move the clock of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxClock {
    /// Holders of an API key that may send, and of an admin token.
    Any,
    /// Only holders of an admin token.
    Admin,
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// Text.
    Text,
    /// One JSON object per line.
    Json,
}

/// Allows addresses with a port, such as `example`.
pub(super) fn address(example: &str) -> Rule<SocketAddr> {
    Rule::new(format!("an IP address and a port, such as {example}"), |raw| {
        raw.as_text()?.parse().ok()
    })
}

pub(super) fn path() -> Rule<PathBuf> {
    Rule::new("a path", |raw| raw.as_text().filter(|text| !text.is_empty()).map(PathBuf::from))
}

pub(super) fn flag() -> Rule<bool> {
    Rule::new("true or false", |raw| match raw {
        Raw::Toml(value) => value.as_bool(),
        Raw::Text(text) => text.parse().ok(),
    })
}

/// Allows these words, each for its value.
pub(super) fn one_of<T: Copy + 'static, const N: usize>(words: [(&'static str, T); N]) -> Rule<T> {
    let quoted = words.map(|(word, _)| format!("\"{word}\""));
    let allowed = match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    };
    Rule::new(allowed, move |raw| {
        let text = raw.as_text()?;
        words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value)
    })
}

/// Allows whole numbers.
pub(super) fn whole<T: TryFrom<u64> + 'static>(range: RangeInclusive<u64>) -> Rule<T> {
    number("", range)
}

/// Allows whole numbers of bytes.
pub(super) fn bytes<T: TryFrom<u64> + 'static>(range: RangeInclusive<u64>) -> Rule<T> {
    number("bytes", range)
}

/// Allows whole numbers of a unit. A range to [`u64::MAX`] has no largest one.
pub(super) fn number<T: TryFrom<u64> + 'static>(unit: &str, range: RangeInclusive<u64>) -> Rule<T> {
    let shown = |number| match unit {
        "bytes" => size(number),
        "seconds" if number >= 2 * DAY && number % DAY == 0 => {
            format!("{number} ({} days)", number / DAY)
        }
        _ => number.to_string(),
    };
    let of = if unit.is_empty() { String::new() } else { format!(" of {unit}") };
    let least = shown(*range.start());
    let allowed = match *range.end() {
        u64::MAX => format!("a whole number{of}, {least} or more"),
        most => format!("a whole number{of} from {least} to {}", shown(most)),
    };
    Rule::new(allowed, move |raw| {
        let number = raw.as_whole().filter(|number| range.contains(number))?;
        T::try_from(number).ok()
    })
}

/// The seconds of a day.
const DAY: u64 = 24 * 3600;

/// Returns a number of bytes, with its binary unit if it is a whole number of one.
fn size(bytes: u64) -> String {
    let step = bytes.trailing_zeros() / 10;
    let unit = match step {
        1 => "KiB",
        2 => "MiB",
        3 => "GiB",
        4 => "TiB",
        5 => "PiB",
        _ => return bytes.to_string(),
    };
    format!("{bytes} ({} {unit})", bytes >> (10 * step))
}

pub(super) fn seconds(range: RangeInclusive<u64>) -> Rule<Duration> {
    number("seconds", range).map(Duration::from_secs)
}

pub(super) fn days() -> Rule<Duration> {
    number("days", 1..=3650).map(|days: u64| Duration::from_secs(days * DAY))
}

/// Allows days; 0 is `None`.
pub(super) fn days_or_ever() -> Rule<Option<Duration>> {
    let rule = number("days", 0..=3650).zero("for ever");
    rule.map(|days: u64| (days > 0).then(|| Duration::from_secs(days * DAY)))
}

/// Allows items that `item` parses, with commas between.
pub(super) fn list<T: 'static>(
    items: &str,
    item: impl Fn(&str) -> Option<T> + 'static,
) -> Rule<Vec<T>> {
    Rule::new(format!("empty, or {items}"), move |raw| {
        let parts = raw.as_text()?.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(&item).collect()
    })
}

pub(super) fn subnets() -> Rule<Vec<IpNet>> {
    let items = "subnets with commas between, such as \"10.1.0.0/16, fd00::/8\"";
    list(items, |part| part.parse().ok())
}

/// Allows names or addresses of hosts, without ports.
pub(super) fn hosts() -> Rule<Vec<String>> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let items = "names without ports with commas between, such as \"a.example.com, b.example.com\"";
    list(items, move |host| {
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_host = bracketed.map_or_else(
            || host.bytes().all(is_name),
            |address| address.parse::<std::net::Ipv6Addr>().is_ok(),
        );
        is_host.then(|| host.to_ascii_lowercase())
    })
}

/// Allows versions of the Cloud API.
pub(super) fn version() -> Rule<String> {
    Rule::new("`v` and a number, such as \"v24.0\"", |raw| {
        let text = raw.as_text()?;
        let number = text.strip_prefix('v')?;
        let digit = |byte: u8| byte.is_ascii_digit() || byte == b'.';
        (number.starts_with(|first: char| first.is_ascii_digit()) && number.bytes().all(digit))
            .then(|| text.to_owned())
    })
}

pub(super) fn token() -> Rule<Option<Secret>> {
    let rule = Rule::new("16 to 256 visible ASCII characters without spaces", |raw| {
        let text = raw.as_text().filter(|text| (16..=256).contains(&text.len()))?;
        text.bytes().all(|byte| byte.is_ascii_graphic()).then(|| Secret::new(text))
    });
    rule.or("")
}

pub(super) fn master_key() -> Rule<Option<MasterKey>> {
    Rule::new("64 hexadecimal digits", |raw| MasterKey::from_hex(raw.as_text()?)).or("")
}

pub(super) fn master_keys() -> Rule<Vec<(u8, MasterKey)>> {
    let items = "pairs of a version (1 to 255, each once) and 64 hexadecimal digits with commas \
                 between, such as \"1=00…ff,2=11…ee\"";
    let pairs = list(items, |pair| {
        let (version, key) = pair.split_once('=')?;
        let version: u8 = version.trim().parse().ok().filter(|version| *version > 0)?;
        Some((version, MasterKey::from_hex(key.trim())?))
    });
    Rule::new(pairs.allowed.clone(), move |raw| {
        let keys = pairs.read(raw)?;
        let versions: BTreeSet<_> = keys.iter().map(|(version, _)| version).collect();
        (versions.len() == keys.len()).then_some(keys)
    })
}

/// Allows an array of texts, or one text with commas in between.
pub(super) fn words() -> Rule<Vec<String>> {
    let separated = list("", |word| Some(word.to_owned()));
    let allowed = "at most 200 texts of 1 to 64 characters; with commas between in the environment";
    Rule::new(allowed, move |raw| {
        let words: Vec<String> = match raw {
            Raw::Toml(toml::Value::Array(words)) => {
                words.iter().map(|word| word.as_str().map(str::to_owned)).collect::<Option<_>>()?
            }
            raw => separated.read(raw)?,
        };
        let short = words.iter().all(|word| (1..=64).contains(&word.chars().count()));
        (short && words.len() <= 200).then_some(words)
    })
}

pub(super) fn line() -> Rule<String> {
    Rule::new("a text of one line and at most 254 characters", |raw| {
        let text = raw.as_text()?;
        let is_line = text.chars().count() <= 254 && !text.chars().any(char::is_control);
        is_line.then(|| text.to_owned())
    })
}

pub(super) fn email() -> Rule<Email> {
    Rule::new("an e-mail address", |raw| Email::new(raw.as_text()?).ok())
}

/// Allows the URL of the pages about errors. "auto" is `None`, and the empty text is `Some`.
///
/// The value is put between angle brackets in a header.
pub(super) fn errors_url() -> Rule<Option<String>> {
    let allowed = "\"auto\", empty, or a path or an http(s) URL without spaces and quotes, such as \
                   \"https://help.example.com/errors\"";
    Rule::new(allowed, |raw| {
        let url = raw.as_text()?;
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"<>\"\\^`{|}".contains(&byte);
        let is_absolute = ["/", "https://", "http://"].iter().any(|start| url.starts_with(start));
        match url {
            "auto" => Some(None),
            _ if url.is_empty() || is_absolute && url.bytes().all(is_plain) => {
                Some(Some(url.into()))
            }
            _ => None,
        }
    })
}

/// Allows scheme and host, such as `example`, without a path.
pub(super) fn base_url(example: &str) -> Rule<String> {
    let allowed = format!("an http or https address without a path, such as \"{example}\"");
    Rule::new(allowed, |raw| {
        let text = raw.as_text()?;
        let authority = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
        let host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
        (!authority.is_empty() && authority.bytes().all(host)).then(|| text.to_owned())
    })
}

/// Allows the address of a service with its path.
pub(super) fn endpoint() -> Rule<String> {
    let allowed = "an http or https address with its path, such as \
                   \"http://127.0.0.1:4318/v1/traces\"";
    Rule::new(allowed, |raw| {
        let text = raw.as_text()?;
        let uri: Uri = text.parse().ok()?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let host = uri.host().filter(|host| !host.is_empty() && !text.contains('@'));
        (is_http && host.is_some() && uri.path() != "/").then(|| text.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_toml_mean_the_same() {
        let allowed = whole::<u32>(1..=10);
        assert_eq!(allowed.read(&Raw::Text("10".into())), Some(10));
        assert_eq!(allowed.read(&Raw::Toml(10.into())), Some(10));
        for bad in ["11", "0", "-1", "+1", "1.0", " 1", "", "ten"] {
            assert_eq!(allowed.read(&Raw::Text(bad.into())), None, "{bad}");
        }
        assert_eq!(allowed.read(&Raw::Toml("10".into())), None, "a text is not a number in a file");
        assert_eq!(flag().read(&Raw::Text("true".into())), Some(true));
        assert_eq!(flag().read(&Raw::Text("yes".into())), None);
    }

    #[test]
    fn a_rule_says_what_it_allows() {
        let said = |rule: Rule<u64>| rule.allowed;
        assert_eq!(said(whole(0..=9).zero("off")), "a whole number from 0 (off) to 9");
        assert_eq!(said(number("credits", 0..=u64::MAX)), "a whole number of credits, 0 or more");
        assert_eq!(said(bytes(0..=1536)), "a whole number of bytes from 0 to 1536");
        assert_eq!((size(0), size(3 << 30)), ("0".into(), "3221225472 (3 GiB)".into()));
        assert_eq!(path().or("").allowed, "empty, or a path");
        assert!(subnets().or("auto").allowed.starts_with("\"auto\", empty, or subnets"));
        assert_eq!(one_of([("a", 1), ("b", 2), ("c", 3)]).allowed, "\"a\", \"b\" or \"c\"");
    }

    #[test]
    fn a_version_is_a_letter_and_a_number() {
        let read = |text: &str| version().read(&Raw::Text(text.into())).is_some();
        assert!(read("v24.0") && read("v25") && !read("24.0") && !read("v") && !read("v1/../x"));
    }

    #[test]
    fn master_keys_are_64_digits() {
        let hex = "0f".repeat(32);
        assert_eq!(MasterKey::from_hex(&hex), Some(MasterKey::new([0x0f; 32])));
        assert_eq!(MasterKey::from_hex(&hex.to_uppercase()), Some(MasterKey::new([0x0f; 32])));
        for bad in [&hex[1..], &format!("{hex}0"), &hex.replace('f', "g"), &"é".repeat(32)] {
            assert_eq!(MasterKey::from_hex(bad), None, "{bad}");
        }
        let read = |text: &str| master_keys().read(&Raw::Text(text.into())).map(|keys| keys.len());
        assert_eq!(read(""), Some(0));
        assert_eq!(read(&format!("1={hex}, 2={hex}")), Some(2));
        for bad in [format!("1={hex},1={hex}"), format!("0={hex}"), hex.clone(), "1=".into()] {
            assert_eq!(read(&bad), None, "{bad}");
        }
    }

    #[test]
    fn words_are_a_list_or_have_commas_between() {
        let read = |text: &str| words().read(&Raw::Text(text.into()));
        assert_eq!(read("stop, opt out ,,"), Some(vec!["stop".to_owned(), "opt out".to_owned()]));
        assert_eq!(read(""), Some(Vec::new()));
        assert_eq!(read(&"x".repeat(65)), None);
        let list = toml::Value::Array(vec!["a, b".into(), "c".into()]);
        assert_eq!(words().read(&Raw::Toml(list)), Some(vec!["a, b".to_owned(), "c".to_owned()]));
        for bad in [vec![toml::Value::from("")], vec![toml::Value::from(1)], vec!["x".into(); 201]]
        {
            assert_eq!(words().read(&Raw::Toml(toml::Value::Array(bad))), None);
        }
    }

    #[test]
    fn subnets_stand_between_commas() {
        let read =
            |text: &str| subnets().read(&Raw::Text(text.into())).map(|subnets| subnets.len());
        assert_eq!((read(""), read("127.0.0.0/8, ::1/128")), (Some(0), Some(2)));
        assert_eq!(["127.0.0.1", "127.0.0.0/33", "home/8"].map(read), [None; 3]);
    }

    #[test]
    fn secrets_are_not_printed() {
        assert_eq!(format!("{:?}", MasterKey::new([7; 32])), "MasterKey(…)");
    }

    #[test]
    fn a_base_url_has_no_path() {
        let read = |text: &str| base_url("").read(&Raw::Text(text.into())).is_some();
        for good in ["https://graph.facebook.com", "http://127.0.0.1:9000", "http://[::1]:1"] {
            assert!(read(good), "{good}");
        }
        for bad in ["", "https://", "ftp://h", "graph.facebook.com", "https://h/v1", "http://u@h"] {
            assert!(!read(bad), "{bad}");
        }
    }

    #[test]
    fn an_endpoint_is_an_address_with_a_path() {
        let read = |text: &str| endpoint().read(&Raw::Text(text.to_owned()));
        for good in ["http://127.0.0.1:4318/v1/traces", "https://otel.example.com/x?token=1"] {
            assert_eq!(read(good).as_deref(), Some(good));
        }
        for bad in
            ["nonsense", "ftp://127.0.0.1/v1/traces", "http://", "http:///v1", "http://[::1]:4318"]
        {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(read("http://user:secret@127.0.0.1/v1/traces"), None);
    }
}

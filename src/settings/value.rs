//! Parses the value of one setting, from TOML or from text, into its type.

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use axum::http::Uri;
use postrider_actors::domain::{AdaptiveMode, Email};
use postrider_actors::{GuardMode, MailTls, MediaFetch, Secret};

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

pub(super) fn address(raw: &Raw) -> Option<SocketAddr> {
    raw.as_text()?.parse().ok()
}

pub(super) fn path(raw: &Raw) -> Option<PathBuf> {
    raw.as_text().filter(|text| !text.is_empty()).map(PathBuf::from)
}

pub(super) fn flag(raw: &Raw) -> Option<bool> {
    match raw {
        Raw::Toml(value) => value.as_bool(),
        Raw::Text(text) => text.parse().ok(),
    }
}

pub(super) fn whole<T: TryFrom<u64>>(allowed: RangeInclusive<u64>) -> impl Fn(&Raw) -> Option<T> {
    move |raw| {
        let number = raw.as_whole().filter(|number| allowed.contains(number))?;
        T::try_from(number).ok()
    }
}

/// Parses with `read`; an empty text is `None`.
pub(super) fn optional<T>(read: impl Fn(&Raw) -> Option<T>) -> impl Fn(&Raw) -> Option<Option<T>> {
    move |raw| match raw.as_text() {
        Some("") => Some(None),
        _ => read(raw).map(Some),
    }
}

pub(super) fn seconds(raw: &Raw) -> Option<Duration> {
    whole(1..=3600)(raw).map(Duration::from_secs)
}

pub(super) fn days(raw: &Raw) -> Option<Duration> {
    whole(1..=3650)(raw).map(|days: u64| Duration::from_secs(days * 24 * 3600))
}

/// Parses days; 0 is `None`.
pub(super) fn days_or_ever(raw: &Raw) -> Option<Option<Duration>> {
    match whole(0..=3650)(raw)? {
        0 => Some(None),
        days => Some(Some(Duration::from_secs(days * 24 * 3600))),
    }
}

pub(super) fn subnets(raw: &Raw) -> Option<Vec<ipnet::IpNet>> {
    let parts = raw.as_text()?.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| part.parse().ok()).collect()
}

/// Parses a whole number; `auto` is `None`.
pub(super) fn whole_or_auto<T: TryFrom<u64>>(
    allowed: RangeInclusive<u64>,
) -> impl Fn(&Raw) -> Option<Option<T>> {
    let whole = whole(allowed);
    move |raw| if raw.as_text() == Some("auto") { Some(None) } else { whole(raw).map(Some) }
}

/// Parses subnets; `auto` is `None`.
pub(super) fn subnets_or_auto(raw: &Raw) -> Option<Option<Vec<ipnet::IpNet>>> {
    if raw.as_text()? == "auto" { Some(None) } else { subnets(raw).map(Some) }
}

/// Parses names or addresses of hosts, without ports.
pub(super) fn hosts(raw: &Raw) -> Option<Vec<String>> {
    let parts = raw.as_text()?.split(',').map(str::trim).filter(|part| !part.is_empty());
    let is_host = |host: &str| {
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        bracketed.map_or_else(
            || host.bytes().all(is_name),
            |address| address.parse::<std::net::Ipv6Addr>().is_ok(),
        )
    };
    parts.map(|part| is_host(part).then(|| part.to_ascii_lowercase())).collect()
}

/// Parses a version of the Cloud API, such as `v24.0`.
pub(super) fn version(raw: &Raw) -> Option<String> {
    let text = raw.as_text()?;
    let number = text.strip_prefix('v')?;
    let digit = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    (number.starts_with(|first: char| first.is_ascii_digit()) && number.bytes().all(digit))
        .then(|| text.to_owned())
}

/// Parses a duration of up to thirty days.
pub(super) fn long_seconds(raw: &Raw) -> Option<Duration> {
    whole(1..=2_592_000)(raw).map(Duration::from_secs)
}

/// Parses the size of a request's body.
pub(super) fn body_bytes(raw: &Raw) -> Option<usize> {
    whole(1024..=1 << 30)(raw)
}

/// Parses a duration of a minute up to thirty days.
pub(super) fn session_seconds(raw: &Raw) -> Option<Duration> {
    whole(60..=2_592_000)(raw).map(Duration::from_secs)
}

pub(super) fn token(raw: &Raw) -> Option<Option<Secret>> {
    let text = raw.as_text()?;
    let long_enough = text.is_empty() || (16..=256).contains(&text.len());
    let well_formed = long_enough && text.bytes().all(|byte| byte.is_ascii_graphic());
    well_formed.then(|| (!text.is_empty()).then(|| Secret::new(text)))
}

pub(super) fn master_key(raw: &Raw) -> Option<Option<MasterKey>> {
    match raw.as_text()? {
        "" => Some(None),
        text => MasterKey::from_hex(text).map(Some),
    }
}

pub(super) fn master_keys(raw: &Raw) -> Option<Vec<(u8, MasterKey)>> {
    let mut keys: Vec<(u8, MasterKey)> = Vec::new();
    for pair in raw.as_text()?.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (version, key) = pair.split_once('=')?;
        let version = version.trim().parse().ok().filter(|version| *version > 0)?;
        if keys.iter().any(|(other, _)| *other == version) {
            return None;
        }
        keys.push((version, MasterKey::from_hex(key.trim())?));
    }
    Some(keys)
}

/// Parses a TOML array of texts, or one text with commas in between.
pub(super) fn words(raw: &Raw) -> Option<Vec<String>> {
    let words: Vec<String> = match raw {
        Raw::Toml(toml::Value::Array(words)) => {
            words.iter().map(|word| word.as_str().map(str::to_owned)).collect::<Option<_>>()?
        }
        raw => {
            let words = raw.as_text()?.split(',').map(str::trim).filter(|word| !word.is_empty());
            words.map(str::to_owned).collect()
        }
    };
    let short = words.iter().all(|word| (1..=64).contains(&word.chars().count()));
    (short && words.len() <= 200).then_some(words)
}

/// Parses a text of one line, of at most 254 characters.
pub(super) fn line(raw: &Raw) -> Option<String> {
    let text = raw.as_text()?;
    let is_line = text.chars().count() <= 254 && !text.chars().any(char::is_control);
    is_line.then(|| text.to_owned())
}

/// Parses any text of one line, kept secret.
pub(super) fn password(raw: &Raw) -> Option<Secret> {
    line(raw).map(Secret::new)
}

pub(super) fn email(raw: &Raw) -> Option<Email> {
    Email::new(raw.as_text()?).ok()
}

pub(super) fn mail_tls(raw: &Raw) -> Option<MailTls> {
    match raw.as_text()? {
        "none" => Some(MailTls::None),
        "starttls" => Some(MailTls::StartTls),
        "tls" => Some(MailTls::Tls),
        _ => None,
    }
}

pub(super) fn guard_mode(raw: &Raw) -> Option<GuardMode> {
    match raw.as_text()? {
        "report" => Some(GuardMode::Report),
        "refuse" => Some(GuardMode::Refuse),
        _ => None,
    }
}

pub(super) fn media_fetch(raw: &Raw) -> Option<MediaFetch> {
    match raw.as_text()? {
        "always" => Some(MediaFetch::Always),
        "on_demand" => Some(MediaFetch::OnDemand),
        _ => None,
    }
}

pub(super) fn adaptive_mode(raw: &Raw) -> Option<AdaptiveMode> {
    raw.as_text()?.parse().ok()
}

pub(super) fn sandbox_clock(raw: &Raw) -> Option<SandboxClock> {
    match raw.as_text()? {
        "any" => Some(SandboxClock::Any),
        "admin" => Some(SandboxClock::Admin),
        _ => None,
    }
}

pub(super) fn log_level(raw: &Raw) -> Option<tracing::level_filters::LevelFilter> {
    use tracing::level_filters::LevelFilter;
    Some(match raw.as_text()? {
        "off" => LevelFilter::OFF,
        "error" => LevelFilter::ERROR,
        "warn" => LevelFilter::WARN,
        "info" => LevelFilter::INFO,
        "debug" => LevelFilter::DEBUG,
        "trace" => LevelFilter::TRACE,
        _ => return None,
    })
}

pub(super) fn log_format(raw: &Raw) -> Option<LogFormat> {
    Some(match raw.as_text()? {
        "auto" => LogFormat::Auto,
        "text" => LogFormat::Text,
        "json" => LogFormat::Json,
        _ => return None,
    })
}

/// Parses the URL of the pages about errors; `auto` is `None`.
///
/// The value is put between angle brackets in a header.
pub(super) fn errors_url(raw: &Raw) -> Option<Option<String>> {
    let url = raw.as_text()?;
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"<>\"\\^`{|}".contains(&byte);
    let is_absolute = ["/", "https://", "http://"].iter().any(|start| url.starts_with(start));
    match url {
        "auto" => Some(None),
        _ if url.is_empty() || is_absolute && url.bytes().all(is_plain) => Some(Some(url.into())),
        _ => None,
    }
}

/// Parses a base URL: scheme and host, without a path.
pub(super) fn base_url(raw: &Raw) -> Option<String> {
    let text = raw.as_text()?;
    let authority = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
    let host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    (!authority.is_empty() && authority.bytes().all(host)).then(|| text.to_owned())
}

/// Parses the address of a site, without a path.
pub(super) fn public_url(raw: &Raw) -> Option<Option<String>> {
    optional(base_url)(raw)
}

/// Parses the address of a service with its path.
pub(super) fn endpoint(raw: &Raw) -> Option<String> {
    let text = raw.as_text()?;
    let uri: Uri = text.parse().ok()?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let host = uri.host().filter(|host| !host.is_empty() && !text.contains('@'));
    (is_http && host.is_some() && uri.path() != "/").then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_toml_mean_the_same() {
        let allowed = || whole::<u32>(1..=10);
        assert_eq!(allowed()(&Raw::Text("10".into())), Some(10));
        assert_eq!(allowed()(&Raw::Toml(10.into())), Some(10));
        for bad in ["11", "0", "-1", "+1", "1.0", " 1", "", "ten"] {
            assert_eq!(allowed()(&Raw::Text(bad.into())), None, "{bad}");
        }
        assert_eq!(allowed()(&Raw::Toml("10".into())), None, "a text is not a number in a file");
        assert_eq!(flag(&Raw::Text("true".into())), Some(true));
        assert_eq!(flag(&Raw::Text("yes".into())), None);
    }

    #[test]
    fn a_version_is_a_letter_and_a_number() {
        let read = |text: &str| version(&Raw::Text(text.into())).is_some();
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
        let read = |text: &str| master_keys(&Raw::Text(text.into())).map(|keys| keys.len());
        assert_eq!(read(""), Some(0));
        assert_eq!(read(&format!("1={hex}, 2={hex}")), Some(2));
        for bad in [format!("1={hex},1={hex}"), format!("0={hex}"), hex.clone(), "1=".into()] {
            assert_eq!(read(&bad), None, "{bad}");
        }
    }

    #[test]
    fn words_are_a_list_or_have_commas_between() {
        let read = |text: &str| words(&Raw::Text(text.into()));
        assert_eq!(read("stop, opt out ,,"), Some(vec!["stop".to_owned(), "opt out".to_owned()]));
        assert_eq!(read(""), Some(Vec::new()));
        assert_eq!(read(&"x".repeat(65)), None);
        let list = toml::Value::Array(vec!["a, b".into(), "c".into()]);
        assert_eq!(words(&Raw::Toml(list)), Some(vec!["a, b".to_owned(), "c".to_owned()]));
        for bad in [vec![toml::Value::from("")], vec![toml::Value::from(1)], vec!["x".into(); 201]]
        {
            assert_eq!(words(&Raw::Toml(toml::Value::Array(bad))), None);
        }
    }

    #[test]
    fn subnets_stand_between_commas() {
        let read = |text: &str| subnets(&Raw::Text(text.into())).map(|subnets| subnets.len());
        assert_eq!((read(""), read("127.0.0.0/8, ::1/128")), (Some(0), Some(2)));
        assert_eq!(["127.0.0.1", "127.0.0.0/33", "home/8"].map(read), [None; 3]);
    }

    #[test]
    fn secrets_are_not_printed() {
        assert_eq!(format!("{:?}", MasterKey::new([7; 32])), "MasterKey(…)");
    }

    #[test]
    fn a_base_url_has_no_path() {
        let read = |text: &str| base_url(&Raw::Text(text.into())).is_some();
        for good in ["https://graph.facebook.com", "http://127.0.0.1:9000", "http://[::1]:1"] {
            assert!(read(good), "{good}");
        }
        for bad in ["", "https://", "ftp://h", "graph.facebook.com", "https://h/v1", "http://u@h"] {
            assert!(!read(bad), "{bad}");
        }
    }

    #[test]
    fn an_endpoint_is_an_address_with_a_path() {
        let read = |text: &str| endpoint(&Raw::Text(text.to_owned()));
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

//! Parses JSON bodies, and explains the errors of those that do not fit.
//!
//! A body must be text throughout, even in fields that no handler reads. It must have no name that
//! the JSON parser interprets as its own instruction: `serde_json` reads an object whose first
//! name is one of these as another value, and a stored record with such a name would be
//! unreadable.

use std::borrow::Cow;
use std::fmt;

use postrider_actors::domain::json::{PRIVATE, half_pair, mended};
use serde::de::{
    Deserialize, DeserializeOwned, Deserializer, Error, MapAccess, SeqAccess, Visitor,
};

use super::error::ApiError;
use super::known_fields::{self, BodyFields};

/// The maximum length of a message about an invalid body, in characters.
const MESSAGE_CHARS_MAX: usize = 200;
/// The prefix of the escape of a character of a private name.
const ESCAPE: &str = r"\u00";

/// Parses a JSON object of a provider. U+FFFD replaces bytes and escapes that are no character.
pub(crate) fn parse_given<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    parse(&mended(body))
}

/// Parses a JSON object, which may have unknown fields.
pub(crate) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, ApiError> {
    check(body)?;
    serde_json::from_slice(body).map_err(|_| explain::<T>(body))
}

/// Parses a JSON object that has no fields other than these.
pub(crate) fn parse_known<'a, 'f, T: Deserialize<'a>>(
    body: &'a [u8],
    fields: impl Fn() -> BodyFields<'f>,
) -> Result<T, ApiError> {
    check(body)?;
    known_fields::parse(body, fields).map_err(|refusal| match refusal {
        Some(refusal) => ApiError::invalid(shortened(refusal.message().to_owned())),
        None => explain::<T>(body),
    })
}

/// Checks that a body is text, and may be an object.
fn check(body: &[u8]) -> Result<(), ApiError> {
    match body.trim_ascii_start().first() {
        None => return Err(ApiError::invalid("the body is empty; it must be a JSON object")),
        // serde would accept an array for a struct, with its elements as the fields in order.
        Some(first) if *first != b'{' => {
            return Err(ApiError::invalid("the body must be a JSON object"));
        }
        Some(_) => {}
    }
    let text = checked_text(body)?;
    check_names(text).map_err(|message| ApiError::invalid(shortened(message)))
}

/// Parses an invalid body a second time to find the path of the error. Only refusals pay for this.
#[cold]
fn explain<'a, T: Deserialize<'a>>(body: &'a [u8]) -> ApiError {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    match serde_path_to_error::deserialize::<_, T>(&mut deserializer) {
        // The object is valid, so the error is in the text after it.
        Ok(_) => ApiError::invalid("the body has something after its JSON object"),
        Err(error) => {
            let path = error.path().to_string();
            let cause = error.into_inner();
            let mut text = cause.to_string();
            // Line and column help with a syntax error. The path names a wrong value instead.
            if cause.is_data()
                && let Some(at) = text.rfind(" at line ")
            {
                text.truncate(at);
            }
            let message = if cause.is_eof() {
                format!("the body is not complete JSON: {text}")
            } else if cause.is_syntax() && path.ends_with('?') {
                // The error is in a key, so the path has no name for it yet.
                format!("the body is not JSON: {text}")
            } else if path == "." {
                // Errors about a missing or duplicate field contain its name.
                text
            } else {
                format!("`{path}`: {text}")
            };
            ApiError::invalid(shortened(message))
        }
    }
}

/// Shortens a message. It may quote a value, which may be as long as the body.
fn shortened(mut message: String) -> String {
    if let Some((at, _)) = message.char_indices().nth(MESSAGE_CHARS_MAX) {
        message.truncate(at);
        message.push('…');
    }
    message
}

/// Checks that `body` is UTF-8 without escapes of half a surrogate pair, and returns it as text.
///
/// The JSON parser skips unknown fields without this check. They could thus contain text that no
/// other program can read.
fn checked_text(body: &[u8]) -> Result<&str, ApiError> {
    let text = std::str::from_utf8(body).map_err(|error| {
        ApiError::invalid(format!("the body is not UTF-8 after {} bytes", error.valid_up_to()))
    })?;
    if text.contains("\\u") && half_pair(body, 0).is_some() {
        let message = "the body has an escape of half a surrogate pair, such as \\ud800 alone";
        return Err(ApiError::invalid(message));
    }
    Ok(text)
}

/// Checks that no object in a body has a name that begins with [`PRIVATE`]. The error is a message
/// that names the object.
fn check_names(body: &str) -> Result<(), String> {
    if !may_have_private(body) {
        return Ok(());
    }
    let mut deserializer = serde_json::Deserializer::from_str(body);
    match serde_path_to_error::deserialize::<_, CleanValue>(&mut deserializer) {
        Ok(CleanValue) => Ok(()),
        Err(error) => Err(private_name_refusal(&error.path().to_string(), &error.into_inner())),
    }
}

#[cold]
fn private_name_refusal(path: &str, error: &serde_json::Error) -> String {
    let rule = format!("must have no name that begins with {PRIVATE}");
    match path {
        // A body that cannot be parsed cannot be searched either.
        _ if !error.is_data() => {
            format!("the body {rule}, and be JSON that can be searched: {error}")
        }
        "." => format!("the body {rule}"),
        path => format!("`{path}` {rule}"),
    }
}

/// Returns whether a private name is, or may be, in the body, perhaps written with escapes.
fn may_have_private(body: &str) -> bool {
    // `contains` is much faster than a search for all places.
    let is_of_it = |at: usize| match body.as_bytes().get(at + 4..at + 6) {
        // These are `$`, `:`, `_` and letters. Some libraries always escape `&`, `<` and `>`, which
        // are none of them.
        Some(digits) => matches!(digits, b"24" | b"3a" | b"3A" | b"5f" | b"5F" | [b'6' | b'7', _]),
        None => false,
    };
    let is_escaped = || body.match_indices(ESCAPE).any(|(at, _)| is_of_it(at));
    body.contains(PRIVATE) || (body.contains(ESCAPE) && is_escaped())
}

/// A value without private names.
struct CleanValue;

impl<'de> Deserialize<'de> for CleanValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for CleanValue {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        while let Some(FieldName { is_private }) = map.next_key()? {
            if is_private {
                return Err(A::Error::custom("a private name"));
            }
            map.next_value::<Self>()?;
        }
        Ok(self)
    }
}

/// A name of an object.
struct FieldName {
    is_private: bool,
}

impl<'de> Deserialize<'de> for FieldName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Cow::<'de, str>::deserialize(deserializer)?;
        Ok(Self { is_private: name.starts_with(PRIVATE) })
    }
}

#[cfg(test)]
mod private_name_tests {
    use super::*;

    fn message(body: &str) -> Option<String> {
        check_names(body).err()
    }

    #[test]
    fn escapes_that_some_libraries_always_write_are_not_searched() {
        for body in [r#"{"a": "\u0026 \u003c\u003E"}"#, r#"{"a": "\u00e9\u00"#, r#"{"a": "\u0"#] {
            assert!(!may_have_private(body), "{body}");
        }
        assert!(may_have_private(r#"{"a": "\u0073"}"#));
    }

    #[test]
    fn private_names_are_found_wherever_they_stand() {
        let rule = "must have no name that begins with $serde_json::private::";
        for (body, place) in [
            (r#"{"metadata": {"$serde_json::private::RawValue": "x"}}"#, "`metadata`"),
            (r#"{"metadata": {"a": "b", "$serde_json::private::": "x"}}"#, "`metadata`"),
            (r#"{"m": {"\u0024serde_json::private::Number": "1"}}"#, "`m`"),
            (r#"{"m": {"$serde\u005fjson::private::Number": "1"}}"#, "`m`"),
            (r#"{"a": [0, {"b": {"$serde_json::private::RawValue": 1}}]}"#, "`a[1].b`"),
            (r#"{"$serde_json::private::RawValue": null}"#, "the body"),
            (r#"{"m": {"\u0024serde_json\u003A\u003aprivate\u003a:Number": "1"}}"#, "`m`"),
        ] {
            assert_eq!(message(body), Some(format!("{place} {rule}")), "{body}");
        }
        let deep = format!(
            r#"{{"x": {}1{}, "m": {{"$serde_json::private::RawValue": "x"}}}}"#,
            "[".repeat(200),
            "]".repeat(200)
        );
        for body in [&*deep, r#"{"x": 1e400, "m": {"$serde_json::private::RawValue": "x"}}"#] {
            let refused = message(body).unwrap();
            let start = format!("the body {rule}, and be JSON that can be searched: ");
            assert!(refused.starts_with(&start), "{refused}");
        }
    }

    #[test]
    fn other_names_and_all_texts_are_kept() {
        for body in [
            r#"{"a": "$serde_json::private::RawValue", "b": ["$serde_json::private::Number"]}"#,
            r#"{"a": "{\"$serde_json::private::RawValue\": \"1\"}"}"#,
            r#"{"serde_json::private::RawValue": 1.5, "$serde_json": -1, "\u0041": [true, null]}"#,
            r#"{"\u00e9": "\u00fc"}"#,
        ] {
            assert_eq!(message(body), None, "{body}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::super::error::Code;
    use super::super::object::Integer;
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Body {
        #[serde(borrow)]
        phone: Cow<'static, str>,
        expiry: Option<Integer>,
        nested: Option<Nested>,
    }

    #[derive(Debug, serde::Deserialize)]
    struct Nested {
        #[allow(dead_code, reason = "read for its type")]
        list: Vec<Integer>,
    }

    fn message(body: &'static str) -> String {
        let error = parse::<Body>(body.as_bytes()).unwrap_err();
        assert_eq!(error.code(), Code::ValidationError);
        error.message().to_owned()
    }

    #[test]
    fn what_is_right_is_read() {
        let body = br#" {"phone": "+1", "expiry": null, "other": [1, {"a": 2}], "more": 1e99} "#;
        let read: Body = parse(body).unwrap();
        assert_eq!((&*read.phone, read.expiry), ("+1", None));
        assert!(read.nested.is_none());
        for whole in ["7", "7.0", "70e-1", "0.7e1"] {
            let body = format!(r#"{{"phone":"","expiry":{whole}}}"#).leak();
            assert_eq!(parse::<Body>(body.as_bytes()).unwrap().expiry, Some(Integer(7)), "{whole}");
        }
    }

    #[test]
    fn of_a_provider_any_sign_is_read() {
        #[derive(serde::Deserialize)]
        struct Given {
            text: String,
        }
        for (body, text) in [
            (&br#"{"text": "STOP \ud83d", "\udc00": "\udc00"}"#[..], "STOP \u{fffd}"),
            (b"{\"text\": \"a\xffb\", \"x\": \"\xff\"}", "a\u{fffd}b"),
            (br#"{"text": "\ud83d\ude00"}"#, "\u{1f600}"),
        ] {
            assert_eq!(parse_given::<Given>(body).unwrap().text, text);
        }
        assert!(parse_given::<Given>(b"{\"text\": \xff}").is_err());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (body, expected) in [
            (r#"{}"#, "missing field `phone`"),
            (r#"{"phone": null}"#, "`phone`: invalid type: null, expected a string"),
            (r#"{"phone": 5}"#, "`phone`: invalid type: integer `5`, expected a string"),
            (r#"{"phone": "+1", "phone": "+1"}"#, "duplicate field `phone`"),
            (
                r#"{"phone": "", "expiry": 300.5}"#,
                "`expiry`: invalid type: floating point `300.5`, expected a whole number",
            ),
            (
                r#"{"phone": "", "expiry": "300"}"#,
                "`expiry`: invalid type: string \"300\", expected a whole number",
            ),
            (r#"{"phone": "", "expiry": 1e400}"#, "`expiry`: number out of range"),
            (r#"{"phone": "", "expiry": 9223372036854775808}"#, "`expiry`: is too large"),
            (r#"{"phone": "", "expiry": true}"#, "`expiry`: invalid type: boolean"),
            (
                r#"{"phone": "", "nested": {"list": [1, "2"]}}"#,
                "`nested.list[1]`: invalid type: string",
            ),
            (r#"{"phone": ""} x"#, "the body has something after its JSON object"),
            (r#"{"phone": "#, "the body is not complete JSON: EOF while parsing a value at line 1"),
            ("{", "the body is not complete JSON: EOF while parsing an object at line 1"),
            ("{x}", "the body is not JSON: key must be a string at line 1"),
            (r#"["+1", 300]"#, "the body must be a JSON object"),
            (r#""x""#, "the body must be a JSON object"),
            ("  ", "the body is empty"),
        ] {
            let message = message(body);
            assert!(message.starts_with(expected), "{body}: {message}");
        }
        let long = format!(r#"{{"phone": "", "expiry": "{}"}}"#, "é".repeat(5000));
        assert_eq!(message(long.leak()).chars().count(), MESSAGE_CHARS_MAX + 1);
    }
}

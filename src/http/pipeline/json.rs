//! Parses JSON bodies, and explains the errors of those that do not fit.

use postrider_actors::domain::json::mended;
use serde::de::{Deserialize, DeserializeOwned};

use super::error::ApiError;
use super::known_fields::BodyFields;
use super::{known_fields, names, unicode};

/// The maximum length of a message about an invalid body, in characters.
const MESSAGE_CHARS_MAX: usize = 200;

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
    let text = unicode::check(body)?;
    names::check(text).map_err(|message| ApiError::invalid(shortened(message)))
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

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::super::error::Code;
    use super::super::integer::Integer;
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

//! Pure: reads JSON with arbitrary names, and the JSON of providers, which may break the grammar.
//!
//! `serde_json` treats some names as instructions, such as `$serde_json::private::RawValue`: it
//! reads an object whose first name is one as another value, or refuses it. Here a name is a name.
//!
//! A provider's message must not be lost because of one invalid character. An unreadable part is
//! replaced, or left out, at its place.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The prefix of names that `serde_json` treats as instructions.
pub const PRIVATE: &str = "$serde_json::private::";

/// Returns whether an object in the value has a name with this prefix.
#[must_use]
pub fn has_private_name(value: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().any(has_private_name),
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| name.starts_with(PRIVATE) || has_private_name(value))
        }
        _ => false,
    }
}

/// Returns the value of a JSON text, or `None` if it is not JSON.
#[must_use]
pub fn tree(text: &str) -> Option<Value> {
    parse(text).ok()
}

/// Parses a JSON text.
///
/// # Errors
/// The errors of the parser: it is not JSON, or nested too deep.
pub(crate) fn parse(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).map(|Tree(value)| value)
}

struct Tree(Value);

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor).map(Self)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Tree(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some((name, Tree(value))) = object.next_entry()? {
            fields.insert(name, value);
        }
        Ok(fields.into())
    }
}

/// Passes every text that is a value in a JSON text, without building a tree. If the text is not
/// JSON, it passes the values before the error.
pub(crate) fn each_text(text: &str, take: &mut dyn FnMut(&str)) {
    let mut reader = serde_json::Deserializer::from_str(text);
    // A damaged text has no further values.
    drop(TextVisitor(take).deserialize(&mut reader));
}

struct TextVisitor<'a>(&'a mut dyn FnMut(&str));

impl<'de> DeserializeSeed<'de> for TextVisitor<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TextVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        (self.0)(value);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(TextVisitor(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        while object.next_key::<IgnoredAny>()?.is_some() {
            object.next_value_seed(TextVisitor(&mut *self.0))?;
        }
        Ok(())
    }
}

/// The escape of U+FFFD, which replaces invalid characters. It is as long as any other.
const REPLACEMENT: &[u8; 6] = br"\ufffd";
/// The maximum depth to which lists and objects are searched for readable parts.
const DEPTH_MAX: usize = 32;

/// Returns the text of a provider, with U+FFFD for each invalid character. Invalid are escapes of
/// half a surrogate pair, and bytes that are not UTF-8.
#[must_use]
pub fn mended(body: &[u8]) -> Cow<'_, [u8]> {
    // Valid text, the usual case, is checked faster than it is searched for what to replace.
    let mut text = match std::str::from_utf8(body) {
        Ok(_) => Cow::Borrowed(body),
        Err(_) => Cow::Owned(String::from_utf8_lossy(body).into_owned().into_bytes()),
    };
    let mut from = 0;
    while let Some(at) = half_pair(&text, from) {
        from = at + REPLACEMENT.len();
        if let Some(escape) = text.to_mut().get_mut(at..from) {
            escape.copy_from_slice(REPLACEMENT);
        }
    }
    text
}

/// Returns the place of an escape such as `\ud83d` without its other half, at or after `from`.
/// Escapes occur in texts only, so the rest of the JSON needs no parsing.
#[must_use]
pub fn half_pair(json: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(found) = json.get(at..).and_then(|rest| rest.iter().position(is_backslash)) {
        at += found;
        match escaped(json, at) {
            Some(0xd800..=0xdbff) if matches!(escaped(json, at + 6), Some(0xdc00..=0xdfff)) => {
                at += 12;
            }
            Some(0xd800..=0xdfff) => return Some(at),
            Some(_) => at += 6,
            // Another escape, such as `\\` or `\n`.
            None => at += 2,
        }
    }
    None
}

const fn is_backslash(byte: &u8) -> bool {
    *byte == b'\\'
}

/// Returns the code unit of the escape `\uXXXX` at `at`, if there is one.
fn escaped(json: &[u8], at: usize) -> Option<u32> {
    let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    digits.iter().try_fold(0, |unit, byte| Some(unit * 16 + digit(byte)?))
}

/// Returns the value of a part of a provider's JSON, or as much of it as is readable. Numbers
/// without a value and values that are nested too deep become null.
#[must_use]
pub fn readable(part: &RawValue) -> Value {
    serde_json::from_str(part.get()).unwrap_or_else(|_| salvaged(part, DEPTH_MAX))
}

/// Returns the value of a text that is JSON of a provider itself, or `None` if it is not JSON.
#[must_use]
pub fn given(text: &str) -> Option<Value> {
    let text = mended(text.as_bytes());
    let part: &RawValue = serde_json::from_slice(&text).ok()?;
    Some(tree(part.get()).unwrap_or_else(|| salvaged(part, DEPTH_MAX)))
}

#[cold]
fn salvaged(part: &RawValue, depth: usize) -> Value {
    if let Some(value) = tree(part.get()) {
        return value;
    }
    let Some(depth) = depth.checked_sub(1) else { return Value::Null };
    if let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(part.get()) {
        return list.into_iter().map(|value| salvaged(value, depth)).collect();
    }
    let fields = serde_json::from_str::<BTreeMap<String, &RawValue>>(part.get());
    let fields = fields.unwrap_or_default().into_iter();
    match part.get().starts_with('{') {
        true => fields.map(|(name, value)| (name, salvaged(value, depth))).collect(),
        false => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_name_is_a_name() {
        for name in ["RawValue", "Number", ""] {
            let name = format!("$serde_json::private::{name}");
            for value in [json!({ &name: "x" }), json!({"a": [{ &name: "1" }, {"b": 1, &name: 2}]})]
            {
                assert_eq!(tree(&value.to_string()), Some(value));
            }
        }
    }

    #[test]
    fn all_else_is_read_as_ever() {
        for text in [
            "null",
            "[true, false, -1, 18446744073709551615, 1.5e300, \"\\u00e9\\n\"]",
            r#"{"a": {"a": []}, "b": {}, "a": 2}"#,
        ] {
            assert_eq!(tree(text), Some(serde_json::from_str(text).unwrap()), "{text}");
        }
        for bad in ["", "{", "{} x", "[1e400]", &"[".repeat(1000)] {
            assert_eq!(tree(bad), None, "{bad}");
        }
    }

    #[test]
    fn halves_of_pairs_are_found() {
        for good in [r"", r"\", r"\u", r"\ud83d\ude00", r"\\ud83d", r"\u00e9\n\\\\udc00", r"\ud83"]
        {
            assert_eq!(half_pair(good.as_bytes(), 0), None, "{good}");
            assert_eq!(mended(good.as_bytes()), good.as_bytes());
        }
        for (bad, at) in [
            (r"\ud83d", 0),
            (r"\ude00", 0),
            (r"\uD83D\u0041", 0),
            (r"\\\ud83d", 2),
            (r"\ud83d\ude00\ude00", 12),
            (r"\ud83d\", 0),
        ] {
            assert_eq!(half_pair(bad.as_bytes(), 0), Some(at), "{bad}");
        }
    }

    #[test]
    fn a_sign_that_is_none_is_replaced_where_it_stands() {
        for (given, read) in [
            (&br#""a\ud83db""#[..], "a\u{fffd}b"),
            (br#""\ud83d\ud83d\ude00\uDE00""#, "\u{fffd}\u{1f600}\u{fffd}"),
            (b"\"a\xff\xed\xa0\xbdb\"", "a\u{fffd}\u{fffd}\u{fffd}\u{fffd}b"),
            ("\"é\\\\ud83d\"".as_bytes(), "é\\ud83d"),
        ] {
            assert_eq!(serde_json::from_slice::<String>(&mended(given)).unwrap(), read);
        }
        let named = br#"{"\udc00": 1}"#;
        let named: Value = serde_json::from_slice(&mended(named)).unwrap();
        assert_eq!(named, json!({"\u{fffd}": 1}));
    }

    /// Any text, with each of its UTF-16 units as an escape, is read as Unicode requires.
    #[test]
    fn fuzz_any_units_are_read_as_text() {
        let fuzzer = bolero::check!().with_iterations(20_000).with_type::<Vec<u16>>();
        fuzzer.for_each(|units: &Vec<u16>| {
            // Most units belong to no pair, so every second one becomes a half of one.
            let half = |unit: u16| if unit & 1 == 0 { unit } else { 0xd800 | (unit >> 5) };
            let units: Vec<u16> = units.iter().map(|unit| half(*unit)).collect();
            let escapes: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let body = format!(r#"{{"a": ["{escapes}"], "b": "STOP"}}"#);
            let read: Value = serde_json::from_slice(&mended(body.as_bytes())).unwrap();
            let text = String::from_utf16_lossy(&units);
            assert_eq!(read, json!({"a": [text], "b": "STOP"}));
            assert_eq!(half_pair(&mended(body.as_bytes()), 0), None);
        });
    }

    /// The output is text, and a second call changes nothing. Valid text stays unchanged.
    #[test]
    fn fuzz_what_is_mended_is_text() {
        let examples: [&[u8]; 3] = [
            br#"{"text": {"body": "STOP \ud83d"}, "name": "\ud83d\ude00"}"#,
            b"[\"\xed\xa0\xbd\", 1, {\"a\\\\\": \"\\n\"}]",
            "{\"é\": \"\u{1f600}\"}".as_bytes(),
        ];
        let fuzzer = bolero::check!().with_iterations(20_000);
        fuzzer.for_each(|script: &[u8]| {
            let given = crate::fuzz::edited(&examples, script);
            let read = mended(&given);
            assert!(std::str::from_utf8(&read).is_ok());
            assert_eq!(mended(&read), read);
            if serde_json::from_slice::<Value>(&given).is_ok() {
                assert_eq!(read, given);
            }
            if let Ok(part) = serde_json::from_slice::<&RawValue>(&read) {
                drop(readable(part));
            }
        });
    }

    #[test]
    fn of_what_cannot_be_read_the_rest_is() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let private = r#"{"$serde_json::private::RawValue": "{"}"#;
        for bad in ["1e999", &deep, "-1e999"] {
            let text = format!(r#"{{"a": [1, {bad}, {private}], "b": {bad}, "c": "STOP"}}"#);
            let part: &RawValue = serde_json::from_str(&text).unwrap();
            let read = readable(part);
            assert_eq!(read["c"], "STOP");
            assert_eq!((&read["a"][0], read["a"].as_array().unwrap().len()), (&json!(1), 3));
            assert_eq!(read["a"][2], json!({"$serde_json::private::RawValue": "{"}));
            assert!(!bad.contains('e') || read["b"].is_null());
        }
        assert_eq!(
            given(r#"{"a": "\ud83d", "b": 1e999}"#),
            Some(json!({"a": "\u{fffd}", "b": null}))
        );
        assert_eq!(given("{"), None);
        for whole in ["{}", "[]", "null", "\"x\"", r#"{"a": {"b": [1.5]}}"#] {
            let part: &RawValue = serde_json::from_str(whole).unwrap();
            assert_eq!(readable(part), serde_json::from_str::<Value>(whole).unwrap());
        }
    }
}

//! Refuses bodies with names that the JSON parser interprets as its own instructions.
//!
//! `serde_json` reads an object whose first name is one of these as another value. If such a name
//! were stored, the stored record would be unreadable.

use std::borrow::Cow;
use std::fmt;

use postrider_actors::domain::json::PRIVATE;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// The prefix of the escape of a character of these names.
const ESCAPE: &str = r"\u00";

/// Checks that no object in a body has such a name. The error is a message that names the object.
pub(super) fn check(body: &str) -> Result<(), String> {
    if !may_have_private(body) {
        return Ok(());
    }
    let mut deserializer = serde_json::Deserializer::from_str(body);
    match serde_path_to_error::deserialize::<_, Clean>(&mut deserializer) {
        Ok(Clean) => Ok(()),
        Err(error) => Err(refused(&error.path().to_string(), &error.into_inner())),
    }
}

#[cold]
fn refused(path: &str, error: &serde_json::Error) -> String {
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

/// Returns whether such a name is, or may be, in the body, perhaps written with escapes.
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

/// A value without such names.
struct Clean;

impl<'de> Deserialize<'de> for Clean {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Clean {
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
        while let Some(Name { is_private }) = map.next_key()? {
            if is_private {
                return Err(A::Error::custom("a private name"));
            }
            map.next_value::<Self>()?;
        }
        Ok(self)
    }
}

/// A name of an object.
struct Name {
    is_private: bool,
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Cow::<'de, str>::deserialize(deserializer)?;
        Ok(Self { is_private: name.starts_with(PRIVATE) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: &str) -> Option<String> {
        check(body).err()
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

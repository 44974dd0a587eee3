//! Pure: reads JSON with arbitrary names, and the JSON of providers.
//!
//! `serde_json` treats some names as instructions, such as `$serde_json::private::RawValue`: it
//! reads an object whose first name is one as another value, or refuses it. Here a name is a name.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};

mod given;

pub use given::{given, half_pair, mended, readable};

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
        deserializer.deserialize_any(Nodes).map(Self)
    }
}

struct Nodes;

impl<'de> Visitor<'de> for Nodes {
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
    drop(Texts(take).deserialize(&mut reader));
}

struct Texts<'a>(&'a mut dyn FnMut(&str));

impl<'de> DeserializeSeed<'de> for Texts<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Texts<'_> {
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
        while list.next_element_seed(Texts(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        while object.next_key::<IgnoredAny>()?.is_some() {
            object.next_value_seed(Texts(&mut *self.0))?;
        }
        Ok(())
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
}

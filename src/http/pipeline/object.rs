//! Parses fields of a body more strictly than serde does by default.
//!
//! For a struct serde also accepts an array of its fields in order. This module accepts only an
//! object, as for the body itself.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// Parses an object.
pub(crate) fn required<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    deserializer.deserialize_map(Object(PhantomData))
}

/// Parses an object or null. The field also needs `default`.
pub(crate) fn optional<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    deserializer.deserialize_option(Nullable(PhantomData))
}

/// Parses a field that may be null: `Some(None)` is null, and `None` is a missing field. The field
/// also needs `default`.
pub(crate) fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

struct Object<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

struct Nullable<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Nullable<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_none<E>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        required(deserializer).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use serde::Deserialize;

    use crate::http::pipeline::json;

    #[derive(Debug, Deserialize)]
    struct Body<'a> {
        #[serde(borrow, deserialize_with = "super::required")]
        one: Inner<'a>,
        #[serde(borrow, default, deserialize_with = "super::optional")]
        two: Option<Inner<'a>>,
    }

    #[derive(Debug, Deserialize)]
    struct Inner<'a> {
        #[serde(borrow)]
        name: Cow<'a, str>,
    }

    #[test]
    fn only_an_object_is_one() {
        let read = |text: &'static str| {
            let body = json::parse::<Body<'static>>(text.as_bytes());
            let body = body.map_err(|error| error.message().to_owned())?;
            assert!(matches!(body.one.name, Cow::Borrowed("a")));
            Ok::<_, String>(body.two.map(|two| two.name.into_owned()))
        };
        for (body, two) in [
            (r#"{"one": {"name": "a"}}"#, None),
            (r#"{"one": {"name": "a"}, "two": null}"#, None),
            (r#"{"one": {"name": "a", "x": 1}, "two": {"name": "b"}}"#, Some("b")),
        ] {
            assert_eq!(read(body).unwrap().as_deref(), two, "{body}");
        }
        for (body, expected) in [
            (r#"{"one": ["a"]}"#, "`one`: invalid type: sequence, expected an object"),
            (r#"{"one": null}"#, "`one`: invalid type: null, expected an object"),
            (r#"{"one": {"name": "a"}, "two": ["b"]}"#, "`two`: invalid type: sequence"),
            (r#"{"one": {"name": "a"}, "two": "b"}"#, "`two`: invalid type: string"),
            (r#"{"one": {"name": "a"}, "two": {"name": 1}}"#, "`two.name`: invalid type"),
            ("{}", "missing field `one`"),
        ] {
            let message = read(body).unwrap_err();
            assert!(message.starts_with(expected), "{body}: {message}");
        }
    }
}

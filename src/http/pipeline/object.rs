//! Parses objects, lists and whole numbers of a body more strictly than serde does by default.
//!
//! For a struct serde also accepts an array of its fields in order. This module accepts only an
//! object, as for the body itself.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::error::ApiError;

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

/// Parses an object whose values are objects, by their names.
pub(crate) fn values<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, T>, D::Error> {
    let values = BTreeMap::<String, Required<T>>::deserialize(deserializer)?;
    Ok(values.into_iter().map(|(name, Required(value))| (name, value)).collect())
}

/// Parses a list of which at most `N` elements are allowed: keeps one more, which the check of the
/// list then refuses, and no others. A list takes many times its text in memory.
pub(crate) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>, const N: usize>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(BoundedList::<T, N>(PhantomData))
}

/// Parses such a list or null. The field also needs `default`.
pub(crate) fn optional_list<'de, D: Deserializer<'de>, T: Deserialize<'de>, const N: usize>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let list = Option::<Bounded<T, N>>::deserialize(deserializer)?;
    Ok(list.map(|Bounded(list)| list))
}

/// Parses such a list that may be null, as [`nullable`] does.
pub(crate) fn nullable_list<'de, D: Deserializer<'de>, T: Deserialize<'de>, const N: usize>(
    deserializer: D,
) -> Result<Option<Option<Vec<T>>>, D::Error> {
    optional_list::<D, T, N>(deserializer).map(Some)
}

/// Parses a field that may be null: `Some(None)` is null, and `None` is a missing field. The field
/// also needs `default`.
pub(crate) fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

struct Bounded<T, const N: usize>(Vec<T>);

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for Bounded<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        list::<D, T, N>(deserializer).map(Self)
    }
}

struct BoundedList<T, const N: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for BoundedList<T, N> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut kept = Vec::new();
        while kept.len() <= N {
            match list.next_element()? {
                Some(element) => kept.push(element),
                None => return Ok(kept),
            }
        }
        // Not as ignored ones: those are fields that nobody knows.
        while list.next_element::<&RawValue>()?.is_some() {}
        Ok(kept)
    }
}

struct Required<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Required<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        required(deserializer).map(Self)
    }
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

/// An integer: 300 or 300.0, not 300.5 or "300".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Integer(pub(crate) i64);

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Integer;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Integer, E> {
                Ok(Integer(number))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Integer, E> {
                i64::try_from(number).map(Integer).map_err(|_| E::custom("is too large"))
            }

            // For JSON Schema 683.0 is an integer. Beyond 2^53 a float may represent several
            // integers.
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Integer, E> {
                let is_exact = number.fract() == 0.0 && number.abs() <= (1_u64 << 53) as f64;
                let invalid = || E::invalid_type(de::Unexpected::Float(number), &self);
                if is_exact { Ok(Integer(number as i64)) } else { Err(invalid()) }
            }
        }

        deserializer.deserialize_i64(Visitor)
    }
}

impl serde::Serialize for Integer {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.0)
    }
}

impl Integer {
    /// Checks that the number is from `min` to `max`. The refusal names `field`.
    pub(crate) fn within<T>(self, field: &str, min: T, max: T) -> Result<T, ApiError>
    where
        T: TryFrom<i64> + PartialOrd + fmt::Display,
    {
        match T::try_from(self.0) {
            Ok(number) if min <= number && number <= max => Ok(number),
            _ => Err(ApiError::field(
                field,
                format_args!("must be a whole number from {min} to {max}"),
            )),
        }
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

    #[derive(Debug, Deserialize)]
    struct Lists {
        #[serde(deserialize_with = "super::list::<_, _, 2>")]
        one: Vec<String>,
        #[serde(default, deserialize_with = "super::optional_list::<_, _, 2>")]
        two: Option<Vec<u8>>,
    }

    #[test]
    fn of_a_list_that_is_too_long_one_more_is_kept() {
        for (body, one, two) in [
            (r#"{"one": ["a"], "two": null}"#, 1, None),
            (r#"{"one": ["a", "b"], "two": [1]}"#, 2, Some(1)),
            (r#"{"one": ["a", "b", "c", 7, {"x": []}], "two": [1, 2, 3, 4]}"#, 3, Some(3)),
        ] {
            let lists = json::parse::<Lists>(body.as_bytes()).unwrap();
            assert_eq!((lists.one.len(), lists.two.map(|two| two.len())), (one, two), "{body}");
        }
        for body in [r#"{"one": {}}"#, r#"{"one": [1]}"#, r#"{"one": null}"#, r#"{"one": ["a"}"#] {
            assert!(json::parse::<Lists>(body.as_bytes()).is_err(), "{body}");
        }
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

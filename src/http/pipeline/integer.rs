//! Parses whole numbers of a body strictly, and checks their range.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer};

use super::error::ApiError;

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

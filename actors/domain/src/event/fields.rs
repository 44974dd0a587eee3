//! Pure: the JSON form of a payload's fields whose stored form is different.

use std::fmt::Display;

use serde::{Serialize, Serializer};

use crate::Phone;

/// Writes a phone or a time as its text. Records store both as integers.
pub(super) fn text<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Writes a phone as its text, and null if it is not known.
pub(super) fn phone<S: Serializer>(phone: &Phone, serializer: S) -> Result<S::Ok, S::Error> {
    optional_text(&phone.known(), serializer)
}

/// Writes the text of a value that may be absent. An absent value is null.
pub(super) fn optional_text<T: Display, S: Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.as_ref().map(ToString::to_string).serialize(serializer)
}

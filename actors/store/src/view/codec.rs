//! How records become bytes: JSON, so that fields can be added.

use serde::{Deserialize, Serialize};

use crate::error::StoreError;

/// A record's JSON.
pub fn encode<T: Serialize>(record: &T) -> Vec<u8> {
    // Records are structs of strings and numbers, which always have a JSON form.
    #[allow(clippy::expect_used)]
    let json = serde_json::to_vec(record).expect("a record has a JSON form");
    json
}

/// An event's JSON.
pub fn encode_text<T: Serialize>(event: &T) -> String {
    // Events are structs of strings and numbers too.
    #[allow(clippy::expect_used)]
    let json = serde_json::to_string(event).expect("an event has a JSON form");
    json
}

/// Reads a record's JSON.
///
/// # Errors
/// [`StoreError::Damaged`] when the bytes are not such a record.
pub fn decode<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, StoreError> {
    serde_json::from_slice(json)
        .map_err(|error| StoreError::Damaged(format!("a record is not what was written: {error}")))
}

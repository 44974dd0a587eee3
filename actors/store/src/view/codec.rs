//! Pure: most records are encoded as JSON, so that later versions can add fields.
//!
//! Frequent ones have a format of their own where they are defined: it is shorter.

use serde::{Deserialize, Serialize};

use crate::error::StoreError;

/// Encodes a record as JSON.
pub fn encode<T: Serialize>(record: &T) -> Vec<u8> {
    // Records are structs of strings and numbers, which always have a JSON form.
    #[allow(clippy::expect_used)]
    let json = serde_json::to_vec(record).expect("a record has a JSON form");
    json
}

/// Decodes a record from JSON.
///
/// # Errors
/// [`StoreError::Damaged`] when the bytes are not such a record.
pub fn decode<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, StoreError> {
    serde_json::from_slice(json)
        .map_err(|error| StoreError::Damaged(format!("a record is not what was written: {error}")))
}

//! Parses the notes of a caller about a sent item, which several requests have.

use std::borrow::Cow;
use std::collections::BTreeMap;

use postrider_actors::domain::{SenderNotes, printable};

use super::pipeline::ApiError;

/// The maximum length of a reference, in characters.
const REFERENCE_CHARS_MAX: usize = 128;
/// The maximum number of strings in `metadata`.
const METADATA_MAX: usize = 16;
/// The maximum length of a key in `metadata`, in characters.
const METADATA_KEY_CHARS_MAX: usize = 40;
/// The maximum length of a value in `metadata`, in characters.
const METADATA_VALUE_CHARS_MAX: usize = 256;

/// Checks the notes that a caller adds to its request.
pub(crate) fn sender_notes(
    reference: Option<Cow<'_, str>>,
    metadata: Option<BTreeMap<String, String>>,
) -> Result<SenderNotes, ApiError> {
    let metadata = metadata.unwrap_or_default();
    if let Some(reference) = &reference {
        check_chars("reference", reference, 1, REFERENCE_CHARS_MAX)?;
        if printable::has_control(reference) {
            return Err(ApiError::field("reference", "must have printable characters only"));
        }
    }
    if metadata.len() > METADATA_MAX {
        let rule = format_args!("must have at most {METADATA_MAX} entries");
        return Err(ApiError::field("metadata", rule));
    }
    for (key, value) in &metadata {
        check_chars("metadata", key, 0, METADATA_KEY_CHARS_MAX)?;
        check_chars(&format!("metadata.{key}"), value, 0, METADATA_VALUE_CHARS_MAX)?;
    }
    Ok(SenderNotes { reference: reference.map(Cow::into_owned), metadata })
}

/// Checks the number of characters of a text.
pub(crate) fn check_chars(field: &str, text: &str, min: usize, max: usize) -> Result<(), ApiError> {
    if (min..=max).contains(&text.chars().count()) {
        return Ok(());
    }
    let what = if field == "metadata" { "keys of " } else { "" };
    Err(ApiError::field(field, format_args!("must have {what}{min} to {max} characters")))
}

//! Cursors of lists in the order of their ids: the id before which a list continues.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{ApiError, Query};

/// Encodes a cursor of the format `version`.
pub(crate) fn encode(version: u8, before: &[u8; 16]) -> String {
    URL_SAFE_NO_PAD.encode([&[version][..], before].concat())
}

/// Returns the id that the parameter `cursor` of a request gives.
///
/// # Errors
/// [`ApiError`]: the cursor does not have this format.
pub(crate) fn of_query(query: &Query, version: u8) -> Result<Option<[u8; 16]>, ApiError> {
    let Some(text) = query.text("cursor")? else { return Ok(None) };
    let bad = || ApiError::field("cursor", "must be the `next_cursor` of an earlier answer");
    decode(text, version).map(Some).ok_or_else(bad)
}

fn decode(cursor: &str, version: u8) -> Option<[u8; 16]> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let (found, id) = bytes.split_first()?;
    (*found == version).then(|| id.try_into().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_gives_its_id_back() {
        let id = *b"0123456789abcdef";
        assert_eq!(decode(&encode(2, &id), 2), Some(id));
        for bad in ["", "AQ", "é", &encode(1, &id)] {
            assert_eq!(decode(bad, 2), None, "{bad}");
        }
    }
}

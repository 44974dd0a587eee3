//! Checks that a JSON body is text throughout, even in fields that no handler reads.

use postrider_actors::domain::json::half_pair;

use super::error::ApiError;

/// Checks that `body` is UTF-8 without escapes of half a surrogate pair, and returns it as text.
///
/// The JSON parser skips unknown fields without this check. They could thus contain text that no
/// other program can read.
pub(super) fn check(body: &[u8]) -> Result<&str, ApiError> {
    let text = std::str::from_utf8(body).map_err(|error| {
        ApiError::invalid(format!("the body is not UTF-8 after {} bytes", error.valid_up_to()))
    })?;
    if text.contains("\\u") && half_pair(body, 0).is_some() {
        let message = "the body has an escape of half a surrogate pair, such as \\ud800 alone";
        return Err(ApiError::invalid(message));
    }
    Ok(text)
}

//! Checks that a JSON body is text throughout, also in fields that no handler reads.

use super::error::ApiError;

/// Checks that `body` is UTF-8 and that its escapes name no half of a surrogate pair; gives it as
/// text.
///
/// The JSON parser skips unknown fields without this check, so that they could hold what no other
/// program can read.
pub(super) fn check(body: &[u8]) -> Result<&str, ApiError> {
    let text = std::str::from_utf8(body).map_err(|error| {
        ApiError::invalid(format!("the body is not UTF-8 after {} bytes", error.valid_up_to()))
    })?;
    if text.contains("\\u") && has_lone_surrogate(text.as_bytes()) {
        let message = "the body has an escape of half a surrogate pair, such as \\ud800 alone";
        return Err(ApiError::invalid(message));
    }
    Ok(text)
}

/// Whether an escape such as `\ud83d` stands without its other half. Escapes occur in texts only,
/// so the rest of the JSON needs no parsing.
fn has_lone_surrogate(json: &[u8]) -> bool {
    let mut at = 0;
    while let Some(found) = json.get(at..).and_then(|rest| rest.iter().position(is_backslash)) {
        at += found;
        match escaped(json, at) {
            Some(0xd800..=0xdbff) if matches!(escaped(json, at + 6), Some(0xdc00..=0xdfff)) => {
                at += 12;
            }
            Some(0xd800..=0xdfff) => return true,
            Some(_) => at += 6,
            // Another escape, such as `\\` or `\n`.
            None => at += 2,
        }
    }
    false
}

fn is_backslash(byte: &u8) -> bool {
    *byte == b'\\'
}

/// The code unit of the escape `\uXXXX` that begins at `at`, if there is one.
fn escaped(json: &[u8], at: usize) -> Option<u32> {
    let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    digits.iter().try_fold(0, |unit, byte| Some(unit * 16 + digit(byte)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_pairs_are_found() {
        for good in [r"", r"\", r"\u", r"\ud83d\ude00", r"\\ud83d", r"\u00e9\n\\\\udc00", r"\ud83"]
        {
            assert!(!has_lone_surrogate(good.as_bytes()), "{good}");
        }
        for bad in
            [r"\ud83d", r"\ude00", r"\uD83D\u0041", r"\\\ud83d", r"\ud83d\ude00\ude00", r"\ud83d\"]
        {
            assert!(has_lone_surrogate(bad.as_bytes()), "{bad}");
        }
    }
}

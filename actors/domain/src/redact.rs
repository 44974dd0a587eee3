//! Pure: removes possible secrets and phones from a provider's text.

/// The largest number of consecutive digits that is certainly no phone or account.
const DIGITS_MAX: usize = 6;
/// The number of characters from which on a word with letters and digits may be a token.
const TOKEN_CHARS_MIN: usize = 16;
/// The replacement for removed text.
const MARK: char = '…';

/// Returns the text with `…` for each possible token and each run of 7 digits or more.
#[must_use]
pub fn redacted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (part, after) = split(rest, of_token(first), of_token);
        if of_token(first) {
            add_word(part, &mut out)
        } else {
            out.push_str(part)
        }
        rest = after;
    }
    out
}

/// Splits off the characters at the start for which `of` returns `kind`.
fn split(text: &str, kind: bool, of: fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|char| of(char) != kind).unwrap_or(text.len()))
}

/// Returns whether a token may have this character.
fn of_token(char: char) -> bool {
    char.is_alphanumeric() || "-_.~/=|".contains(char)
}

fn add_word(word: &str, out: &mut String) {
    let has = |of: fn(char) -> bool| word.contains(of);
    let is_token = word.chars().count() >= TOKEN_CHARS_MIN
        && has(char::is_numeric)
        && has(char::is_alphabetic);
    if is_token {
        return out.push(MARK);
    }
    let mut rest = word;
    while let Some(first) = rest.chars().next() {
        let is_digits = first.is_numeric();
        let (part, after) = split(rest, is_digits, char::is_numeric);
        if is_digits && part.chars().count() > DIGITS_MAX {
            out.push(MARK);
        } else {
            out.push_str(part);
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_secret_is_taken_out() {
        for (text, expected) in [
            ("", ""),
            (
                "Message undeliverable (131026), wait 60 s.",
                "Message undeliverable (131026), wait 60 s.",
            ),
            ("details of message_template_language", "details of message_template_language"),
            ("token EAAGm0PX4ZCpsBA4Zb1 of +15551234567 has expired", "token … of +… has expired"),
            ("Bearer abc-123_def.456~ghi/789=", "Bearer …"),
            ("number 1234567, not 123456", "number …, not 123456"),
            ("a1234567b", "a…b"),
            ("é٠١٢٣٤٥٦", "é…"),
        ] {
            assert_eq!(redacted(text), expected);
        }
    }
}

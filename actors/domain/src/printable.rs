//! Pure: makes the texts of strangers fit to be shown and logged.
//!
//! Names lose the characters that would control the screen or page that shows them. A provider's
//! text loses possible secrets and phones.

use std::borrow::Cow;

/// Returns whether a text has a control character. Examples are a line break or the start of a
/// terminal's escape sequence.
#[must_use]
pub fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
}

/// Returns whether a character turns the direction of the text around it. Then the displayed text
/// differs from the stored text.
#[must_use]
pub const fn turns_text(char: char) -> bool {
    matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the text without characters that turn the direction of the text around them.
#[must_use]
pub fn without_turns(text: &str) -> Cow<'_, str> {
    if text.contains(turns_text) {
        text.chars().filter(|char| !turns_text(*char)).collect()
    } else {
        text.into()
    }
}

/// Makes a name from a stranger harmless. Control characters become U+FFFD, and characters that
/// turn the direction of the text are removed.
#[must_use]
pub fn harmless(name: &str) -> Cow<'_, str> {
    let name = without_turns(name);
    if has_control(&name) {
        name.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect()
    } else {
        name
    }
}

/// The largest number of consecutive digits that is certainly no phone or account.
const PLAIN_DIGITS_MAX: usize = 6;
/// The number of characters from which on a word with letters and digits may be a token.
const TOKEN_CHARS_MIN: usize = 16;
/// The replacement for removed text.
const MARK: char = '…';

/// Returns a provider's text with `…` for each possible token and each run of 7 digits or more.
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
        if is_digits && part.chars().count() > PLAIN_DIGITS_MAX {
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
    fn a_name_keeps_all_that_is_harmless() {
        for good in ["", "Ana Souza", "名字", "שלום \u{200f}", "👩‍👧"] {
            assert!(matches!(harmless(good), Cow::Borrowed(same) if same == good), "{good}");
        }
        assert_eq!(harmless("a\u{1b}[2J\n\u{85}\u{7f}"), "a\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}");
        assert_eq!(harmless("\u{202a}a\u{202e}b\u{2066}c\u{2069}"), "abc");
        assert_eq!(harmless("\u{2029}\u{202f}"), "\u{2029}\u{202f}");
    }

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

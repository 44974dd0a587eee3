//! Pure: keeps characters out of names that would control the screen or page that shows them.

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
}

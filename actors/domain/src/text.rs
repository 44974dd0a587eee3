//! Pure: the text of a message, with its length limit, and the folding by which texts are compared.

use std::sync::Arc;

use unicode_normalization::UnicodeNormalization;

/// The maximum number of characters of a text. The channel refuses longer ones.
pub const CHARS_MAX: usize = 4096;

/// A text of 1 to 4,096 characters. Its `Debug` shows only its length, so that logs hold no
/// content.
#[derive(Clone, PartialEq, Eq)]
pub struct MessageText(Arc<str>);

/// The text is empty or too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must have 1 to 4096 characters")]
pub struct MessageTextError;

impl MessageText {
    /// Returns the text itself.
    #[must_use]
    pub const fn as_str(&self) -> &Arc<str> {
        &self.0
    }
}

impl std::str::FromStr for MessageText {
    type Err = MessageTextError;

    fn from_str(text: &str) -> Result<Self, MessageTextError> {
        // Each character has at least one byte, so most texts need no counting.
        let fits = text.len() <= CHARS_MAX || text.chars().count() <= CHARS_MAX;
        if fits && !text.is_empty() { Ok(Self(text.into())) } else { Err(MessageTextError) }
    }
}

impl std::fmt::Debug for MessageText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MessageText({} bytes)", self.0.len())
    }
}

/// The form of a text in a record. Reading does not check it: it was checked when it was accepted.
/// A durable message must be sent even if the limit is lower now.
pub(crate) mod stored {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::MessageText;

    pub(crate) fn serialize<S: Serializer>(
        text: &MessageText,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&text.0)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<MessageText, D::Error> {
        Box::<str>::deserialize(deserializer).map(|text| MessageText(text.into()))
    }
}

/// The combining dot above, which remains when `İ` is put in lower case.
const DOT: char = '\u{307}';

/// Folds a text of any script, so that texts compare equal regardless of case and normalization.
///
/// Texts that differ only in case, composition or width become equal (Unicode's NFKC). The text is
/// first converted to upper case, because that unifies `ß` with `SS`, `ς` with `σ` and `ı` with
/// `i`.
#[must_use]
pub fn fold(text: &str) -> String {
    // People do not type the dot of `İ`, so the folded text has none.
    let lower = |char: char| char.to_lowercase().filter(move |lower| *lower != DOT || char == DOT);
    text.nfkc().flat_map(char::to_uppercase).flat_map(lower).nfkc().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_counted_and_not_bytes() {
        for good in ["a", "é", &"é".repeat(4096), " "] {
            assert!(good.parse::<MessageText>().is_ok());
        }
        for bad in ["", &"é".repeat(4097), &"a".repeat(4097)] {
            assert_eq!(bad.parse::<MessageText>(), Err(MessageTextError));
        }
    }

    #[test]
    fn texts_that_differ_in_case_are_the_same() {
        for (one, other) in [
            ("Ana", "aNA"),
            ("ÉCOLE", "école"),
            ("Straße", "STRASSE"),
            ("ΟΔΥΣΣΕΥΣ", "οδυσσευς"),
            ("ЖУК", "жук"),
            ("İstanbul", "istanbul"),
            ("ISTANBUL", "ıstanbul"),
            ("Ⴀ", "ⴀ"),
            ("ﬁt", "FIT"),
            ("Jos\u{e9}", "JOSE\u{301}"),
            ("Nguy\u{1ec5}n", "nguye\u{302}\u{303}n"),
            ("한국어", "\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}\u{110b}\u{1165}"),
            ("ＦＵＬＬ", "full"),
        ] {
            assert_eq!(fold(one), fold(other), "{one} {other}");
        }
        assert_ne!(fold("a"), fold("à"));
        assert_eq!(fold("王\u{307}"), "王\u{307}");
    }
}

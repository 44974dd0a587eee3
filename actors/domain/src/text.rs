//! Pure: the text of a message, with its length limit.

use std::sync::Arc;

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
}

//! Pure: the words with which a customer opts out of messages, and in again.

use serde::{Deserialize, Serialize};
use unicode_normalization::char::is_combining_mark;

use super::text::fold;

/// Opt-out and opt-in words, in any number of languages. A message counts only if it consists of
/// one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptOutWords {
    /// Folded words that opt out.
    out: Vec<String>,
    /// Folded words that opt in again.
    back: Vec<String>,
}

/// The meaning of such a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptOut {
    /// To receive no more messages.
    Out,
    /// To receive messages again.
    Back,
}

/// What opted somebody out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum OptOutSource {
    /// A message that they wrote.
    Word,
    /// A call of the API.
    Api,
    /// A choice that they made in the channel's app.
    Channel,
    /// The channel's refusal to send them marketing.
    Refusal,
}

impl OptOutSource {
    /// Returns the source as a response spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Word => "word",
            Self::Api => "api",
            Self::Channel => "channel",
            Self::Refusal => "refusal",
        }
    }

    /// Returns whether the source is the channel. Only then does the channel also withdraw the
    /// opt-out.
    #[must_use]
    pub const fn is_channel(self) -> bool {
        matches!(self, Self::Channel | Self::Refusal)
    }
}

impl OptOutWords {
    /// Takes the words that opt out and those that opt in again. Their case does not matter.
    #[must_use]
    pub fn new<T: AsRef<str>>(out: &[T], back: &[T]) -> Self {
        let folded = |words: &[T]| words.iter().map(|word| folded_words(word.as_ref())).collect();
        Self { out: folded(out), back: folded(back) }
    }

    /// Returns the meaning of a message, or `None` if it does not consist of one of the words. Case
    /// is ignored, and so is everything around the word that is neither a letter nor a digit.
    #[must_use]
    pub fn read(&self, text: &str) -> Option<OptOut> {
        let text = folded_words(text);
        let is_in = |words: &[String]| !text.is_empty() && words.contains(&text);
        if is_in(&self.out) {
            Some(OptOut::Out)
        } else if is_in(&self.back) {
            Some(OptOut::Back)
        } else {
            None
        }
    }
}

impl Default for OptOutWords {
    /// Returns `STOP` and `START`.
    fn default() -> Self {
        Self::new(&["stop"], &["start"])
    }
}

/// Folds a text for a comparison with a word. The result starts and ends with a letter (with its
/// marks) or a digit, and has one space between words.
fn folded_words(text: &str) -> String {
    let text = fold(&text.replace('\u{2019}', "'"));
    let Some(begin) = text.find(char::is_alphanumeric) else { return String::new() };
    let rest = &text[begin..];
    // Phones append variation selectors to emoji. They are combining marks, but of no letter.
    let is_mark =
        |char: char| is_combining_mark(char) && !('\u{fe00}'..='\u{fe0f}').contains(&char);
    let end = rest.rfind(char::is_alphanumeric).unwrap_or(0);
    let behind = rest[end..].char_indices().skip(1).find(|(_, char)| !is_mark(*char));
    let end = behind.map_or(rest.len(), |(at, _)| end + at);
    rest[..end].split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_nothing_else_is_a_word() {
        let words = OptOutWords::new(&["Stop", "opt out", "стоп", "退订"], &["START", "alta"]);
        for out in ["STOP", "stop", " Stop!\n", "\"stop\".", "OPT  OUT", "Стоп", "退订。"] {
            assert_eq!(words.read(out), Some(OptOut::Out), "{out}");
        }
        let others = OptOutWords::new(&["стоп", "रोकें", "إيقاف", "arrêt", "stop"], &["s'abonner"]);
        for out in [
            "“STOP”",
            "STOP…",
            "STOP—",
            "«стоп»",
            "रोकें।",
            "إيقاف؟",
            "\u{200f}إيقاف",
            "STOP\u{200b}",
            "STOP🛑",
            "STOP 🙏",
            "🙏\u{fe0f} stop ☝\u{fe0f}",
            "ＳＴＯＰ",
            "arre\u{302}t",
            "\u{a0}Stop\u{a0}",
        ] {
            assert_eq!(others.read(out), Some(OptOut::Out), "{out}");
        }
        assert_eq!(others.read("s’abonner"), Some(OptOut::Back));
        assert_eq!(others.read("रोके"), None, "a mark at the end is a part of the word");
        for back in ["start", "¡ALTA!"] {
            assert_eq!(words.read(back), Some(OptOut::Back), "{back}");
        }
        for neither in
            ["", " ", "!", "stop it", "please stop", "optout", "st op", "stopp", "starts"]
        {
            assert_eq!(words.read(neither), None, "{neither}");
        }
        assert_eq!(OptOutWords::new::<&str>(&["", "!"], &[]).read("!"), None);
    }
}

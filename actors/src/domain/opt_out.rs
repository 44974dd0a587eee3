//! The words with which a customer opts out of messages, and in again.

use super::fold::fold;

/// Words of one kind may be in several languages; a message is one when it is nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptOutWords {
    /// In one case.
    out: Vec<String>,
    /// In one case.
    back: Vec<String>,
}

/// What a customer wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptOut {
    /// No more messages.
    Out,
    /// Messages again.
    Back,
}

impl OptOutWords {
    /// These words; case does not matter.
    #[must_use]
    pub fn new<T: AsRef<str>>(out: &[T], back: &[T]) -> Self {
        let folded = |words: &[T]| words.iter().map(|word| plain(word.as_ref())).collect();
        Self { out: folded(out), back: folded(back) }
    }

    /// What a message that consists of one of the words means. Case, and spaces and punctuation
    /// around it, do not matter.
    #[must_use]
    pub fn read(&self, text: &str) -> Option<OptOut> {
        let text = plain(text);
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
    /// `STOP` and `START`.
    fn default() -> Self {
        Self::new(&["stop"], &["start"])
    }
}

/// A text in one case, with one space between its words and nothing around them.
fn plain(text: &str) -> String {
    let around = |char: char| {
        char.is_whitespace() || char.is_ascii_punctuation() || "¡¿。！、".contains(char)
    };
    let words: Vec<_> = text.trim_matches(around).split_whitespace().collect();
    fold(&words.join(" "))
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

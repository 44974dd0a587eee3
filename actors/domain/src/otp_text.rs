//! Pure: the texts of codes, by language.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A language as templates name it: `en` or `pt_BR`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Language(String);

/// The error for a text that is not a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be two or three lower-case letters, with an underscore and two capitals or without")]
pub struct NoLanguage;

impl Language {
    /// Returns the language as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the languages that serve it, best first: itself, then itself without a country.
    pub fn served_by(&self) -> impl Iterator<Item = &str> {
        let base = self.0.split_once('_').map(|(base, _)| base);
        std::iter::once(self.as_str()).chain(base)
    }
}

impl FromStr for Language {
    type Err = NoLanguage;

    fn from_str(text: &str) -> Result<Self, NoLanguage> {
        let (base, country) = match text.split_once('_') {
            Some((base, country)) => (base, Some(country)),
            None => (text, None),
        };
        let is_base = matches!(base.len(), 2 | 3) && base.bytes().all(|it| it.is_ascii_lowercase());
        let is_country =
            country.is_none_or(|it| it.len() == 2 && it.bytes().all(|it| it.is_ascii_uppercase()));
        if is_base && is_country { Ok(Self(text.to_owned())) } else { Err(NoLanguage) }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The texts of a code in one language. `{code}` and `{minutes}` are placeholders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtpText {
    /// An SMS.
    pub sms: String,
    /// The subject of a mail.
    pub email_subject: String,
    /// The text of a mail.
    pub email_text: String,
}

/// The reason for which a text cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OtpTextError {
    /// It is empty or too long.
    #[error("must have 1 to {0} characters")]
    Length(usize),
    /// It does not contain the code.
    #[error("must have {{code}}")]
    NoCode,
    /// It has braces around something else.
    #[error("may have {{code}} and {{minutes}} between braces, and nothing else")]
    Placeholder,
    /// It has control characters.
    #[error("must have printable characters only")]
    Control,
}

impl OtpText {
    /// The longest SMS, in characters.
    pub const SMS_CHARS_MAX: usize = 1_000;
    /// The longest subject, in characters.
    pub const SUBJECT_CHARS_MAX: usize = 200;
    /// The longest mail, in characters.
    pub const EMAIL_CHARS_MAX: usize = 10_000;

    /// Returns the built-in texts, in English.
    #[must_use]
    pub fn built_in() -> Self {
        let text = "{code} is your code. It is valid for {minutes} min.";
        Self { sms: text.into(), email_subject: "Your code".into(), email_text: text.into() }
    }

    /// Checks the texts.
    ///
    /// # Errors
    /// [`OtpTextError`] with the name of the field.
    pub fn check(&self) -> Result<(), (&'static str, OtpTextError)> {
        let Self { sms, email_subject, email_text } = self;
        check(sms, Self::SMS_CHARS_MAX, true).map_err(|why| ("sms", why))?;
        check(email_subject, Self::SUBJECT_CHARS_MAX, false)
            .map_err(|why| ("email_subject", why))?;
        if email_subject.chars().any(char::is_control) {
            return Err(("email_subject", OtpTextError::Control));
        }
        check(email_text, Self::EMAIL_CHARS_MAX, true).map_err(|why| ("email_text", why))
    }
}

fn check(text: &str, most: usize, needs_code: bool) -> Result<(), OtpTextError> {
    if !(1..=most).contains(&text.chars().count()) {
        return Err(OtpTextError::Length(most));
    }
    if needs_code && !text.contains("{code}") {
        return Err(OtpTextError::NoCode);
    }
    if text.replace("{code}", "").replace("{minutes}", "").contains(['{', '}']) {
        return Err(OtpTextError::Placeholder);
    }
    Ok(())
}

/// Returns a text with the code and the minutes in place.
#[must_use]
pub fn filled(text: &str, code: &str, minutes: u64) -> String {
    text.replace("{code}", code).replace("{minutes}", &minutes.to_string())
}

/// The text that a person writes to send a code, by language; the first is for all others.
const SENT: [(&str, &str); 7] = [
    ("en", "My code is {code}"),
    ("ar", "رمزي هو {code}"),
    ("de", "Mein Code ist {code}"),
    ("es", "Mi código es {code}"),
    ("fr", "Mon code est {code}"),
    ("it", "Il mio codice è {code}"),
    ("pt", "Meu código é {code}"),
];

/// Returns the text that a person sends, with the code. It is in the first of these languages that
/// has one.
#[must_use]
pub fn sent_text<'a>(code: &str, wanted: impl IntoIterator<Item = &'a str>) -> String {
    let language = sent_language(wanted);
    let found = SENT.iter().find(|(known, _)| *known == language).unwrap_or(&SENT[0]);
    filled(found.1, code, 0)
}

/// Returns the first of these languages, with or without its country, that has such a text.
pub fn sent_language<'a>(wanted: impl IntoIterator<Item = &'a str>) -> &'static str {
    let base = |language: &'a str| language.split_once('_').map_or(language, |(base, _)| base);
    let of = |base: &str| SENT.iter().find(|(known, _)| *known == base).map(|(known, _)| *known);
    wanted.into_iter().find_map(|language| of(base(language))).unwrap_or(SENT[0].0)
}

/// The texts of a workspace, by language.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OtpTexts(pub BTreeMap<String, OtpText>);

impl OtpTexts {
    /// The maximum number of languages.
    pub const MAX: usize = 50;
    /// The built-in language.
    pub const BUILT_IN: &str = "en";

    /// Returns the texts in force: the workspace's own, and the built-in ones.
    #[must_use]
    pub fn in_force(&self) -> BTreeMap<String, OtpText> {
        let mut all = self.0.clone();
        all.entry(Self::BUILT_IN.to_owned()).or_insert_with(OtpText::built_in);
        all
    }

    /// Returns the first of these languages that has a text, or else the built-in one.
    pub fn language_of<'a>(&self, wanted: impl IntoIterator<Item = &'a str>) -> &'a str {
        wanted.into_iter().find(|language| self.has(language)).unwrap_or(Self::BUILT_IN)
    }

    /// Returns whether a language has a text.
    #[must_use]
    pub fn has(&self, language: &str) -> bool {
        language == Self::BUILT_IN || self.0.contains_key(language)
    }

    /// Returns the text in a language, or the built-in one if there is none.
    #[must_use]
    pub fn text(&self, language: &str) -> OtpText {
        let found = self.0.get(language).or_else(|| self.0.get(Self::BUILT_IN));
        found.cloned().unwrap_or_else(OtpText::built_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_served_by_itself_and_its_base() {
        let served = |text: &str| {
            let language: Language = text.parse().unwrap();
            language.served_by().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(served("pt_BR"), ["pt_BR", "pt"]);
        assert_eq!(served("fil"), ["fil"]);
        for wrong in ["", "p", "PT", "pt_", "pt_br", "pt-BR", "pt_BRA", "port", "pt_BR_x"] {
            assert_eq!(wrong.parse::<Language>(), Err(NoLanguage), "{wrong}");
        }
    }

    #[test]
    fn a_text_needs_the_code_and_no_other_braces() {
        assert_eq!(OtpText::built_in().check(), Ok(()));
        let with = |sms: &str| OtpText { sms: sms.into(), ..OtpText::built_in() }.check();
        assert_eq!(with("{code}{code}"), Ok(()));
        assert_eq!(with("code"), Err(("sms", OtpTextError::NoCode)));
        assert_eq!(with("{code} {name}"), Err(("sms", OtpTextError::Placeholder)));
        assert_eq!(with(""), Err(("sms", OtpTextError::Length(1_000))));
        let subject = OtpText { email_subject: "a\nb".into(), ..OtpText::built_in() };
        assert_eq!(subject.check(), Err(("email_subject", OtpTextError::Control)));
        assert_eq!(filled("{code}, {minutes}", "0123", 5), "0123, 5");
    }

    #[test]
    fn a_person_sends_a_code_in_the_first_language_that_is_known() {
        assert_eq!(sent_text("0123", ["pt_BR", "de"]), "Meu código é 0123");
        assert_eq!(sent_text("0123", ["fil", "de_AT"]), "Mein Code ist 0123");
        assert_eq!(sent_text("0123", ["fil"]), "My code is 0123");
        for (language, text) in SENT {
            assert!(language.parse::<Language>().is_ok() && text.ends_with(" {code}"), "{text}");
        }
    }

    #[test]
    fn the_first_language_that_has_a_text_is_taken() {
        let mut texts = OtpTexts::default();
        assert_eq!(texts.language_of(["pt_BR", "pt"]), "en");
        texts.0.insert("pt".into(), OtpText { sms: "{code}!".into(), ..OtpText::built_in() });
        assert_eq!(texts.language_of(["pt_BR", "pt"]), "pt");
        assert_eq!((texts.text("pt").sms, texts.in_force().len()), ("{code}!".to_owned(), 2));
        assert_eq!(texts.text("fr"), OtpText::built_in());
    }
}

//! Pure: templates are messages that the channel approved, with placeholders for parameters.
//!
//! A template with codes may have a button that takes the code besides its body.

pub mod components;
pub mod parameters;
mod placeholders;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::words::words;
use placeholders::Placeholders;

pub use crate::words::UnknownWord;

/// The maximum number of characters of a template's name.
pub const NAME_CHARS_MAX: usize = 512;
/// The maximum number of characters of a template's language.
const LANGUAGE_CHARS_MAX: usize = 20;

/// A value that breaks a rule of templates.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` {rule}")]
pub struct Misfit {
    /// The path of the value, such as `components[0].parameters`.
    pub path: String,
    /// The broken rule, such as "must be a list".
    pub rule: String,
}

impl Misfit {
    fn new(path: impl Into<String>, rule: impl Into<String>) -> Self {
        Self { path: path.into(), rule: rule.into() }
    }
}

/// The name of a template in one language. Stored messages and events have its fields in this order
/// and without their names, so none can be added, moved or left out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TemplateName {
    /// Its name, such as `order_update`.
    pub name: Box<str>,
    /// Its language as the channel writes it, such as `en` or `en_US`.
    pub language: Box<str>,
}

words! {
    /// The purpose of a template.
    TemplateCategory {
        /// Something that the recipient asked for or takes part in.
        Utility = "utility",
        /// Anything that promotes.
        Marketing = "marketing",
        /// One-time passwords.
        Authentication = "authentication",
    }
}

words! {
    /// The approval status of a template with the channel.
    TemplateStatus {
        /// It may be sent.
        Approved = "approved",
        /// The channel has not decided yet.
        Pending = "pending",
        /// The channel refused it.
        Rejected = "rejected",
        /// The channel pauses it for some time, because recipients complained.
        Paused = "paused",
        /// The channel disabled it permanently.
        Disabled = "disabled",
        /// The channel reviews an appeal against its rejection.
        InAppeal = "in_appeal",
        /// It is being deleted.
        PendingDeletion = "pending_deletion",
        /// It was deleted.
        Deleted = "deleted",
        /// The account has too many templates.
        LimitExceeded = "limit_exceeded",
    }
}

words! {
    /// The channel's rating of a template, from what its recipients do with it.
    TemplateQuality {
        /// Nothing speaks against it.
        Green = "green",
        /// Some recipients object to it.
        Yellow = "yellow",
        /// Many recipients object to it: it may be paused soon.
        Red = "red",
        /// The channel has not rated it.
        Unknown = "unknown",
    }
}

impl TemplateQuality {
    /// Returns the quality for the channel's own word, such as `GREEN`. An unknown word is
    /// [`Unknown`](Self::Unknown).
    #[must_use]
    pub fn from_channel(word: &str) -> Self {
        word.to_ascii_lowercase().parse().unwrap_or(Self::Unknown)
    }
}

impl TemplateStatus {
    /// Returns the status for the channel's own word, such as `APPROVED`. It is `None` for words
    /// that do not decide whether the template may be sent.
    #[must_use]
    pub fn from_channel(word: &str) -> Option<Self> {
        match word.to_ascii_lowercase().as_str() {
            "reinstated" | "unlocked" | "unarchived" => Some(Self::Approved),
            "locked" | "archived" => Some(Self::Disabled),
            known => known.parse().ok(),
        }
    }
}

/// Checks a template's name: 1 to 512 of `a-z`, `0-9` and `_`.
pub fn check_name(name: &str) -> Result<(), Misfit> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if (1..=NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(allowed) {
        Ok(())
    } else {
        let rule = format!("must be 1 to {NAME_CHARS_MAX} characters of a-z, 0-9 and _");
        Err(Misfit::new("name", rule))
    }
}

/// Checks a language as the channel writes it, such as `en` or `en_US`.
pub fn check_language(language: &str) -> Result<(), Misfit> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if (2..=LANGUAGE_CHARS_MAX).contains(&language.len()) && language.bytes().all(allowed) {
        Ok(())
    } else {
        Err(Misfit::new("language", "must be a language of the channel, such as en or en_US"))
    }
}

/// The button of a template that takes the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeButton {
    /// The button of this index, from 0.
    At(u8),
    /// No button takes it.
    Absent,
}

impl Default for CodeButton {
    /// Returns the assumption about a template whose components are not known.
    fn default() -> Self {
        Self::At(0)
    }
}

impl CodeButton {
    /// Returns the button of a template with these components, in the channel's JSON. It is the
    /// first one that copies a code, or that opens an address with a place for it.
    #[must_use]
    pub fn of(components: &[Value]) -> Self {
        if components.is_empty() {
            return Self::default();
        }
        let is_buttons = |component: &&Value| word(component, "type") == "BUTTONS";
        let buttons = components.iter().find(is_buttons).and_then(|it| it.get("buttons"));
        let takes_code = |button: &Value| match word(button, "type").as_str() {
            "OTP" => true,
            "URL" => {
                let url = button.get("url").and_then(Value::as_str);
                url.is_none_or(|url| Placeholders::of(url).count() > 0)
            }
            _ => false,
        };
        let index = buttons.and_then(Value::as_array).and_then(|it| it.iter().position(takes_code));
        index.and_then(|index| u8::try_from(index).ok()).map_or(Self::Absent, Self::At)
    }
}

fn word(object: &Value, name: &str) -> String {
    object.get(name).and_then(Value::as_str).unwrap_or_default().to_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_and_languages_have_a_form() {
        for good in ["a", "otp_code", "sale_2026", &"x".repeat(512)] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for bad in ["", "Sale", "a-b", "a b", "a\0b", "ä", &"x".repeat(513)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        for good in ["en", "en_US", "zh_HK"] {
            assert_eq!(check_language(good), Ok(()), "{good}");
        }
        for bad in ["", "e", "en-US", "en\0", &"x".repeat(21)] {
            assert!(check_language(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_channels_words_are_understood() {
        for (word, status) in [
            ("APPROVED", Some(TemplateStatus::Approved)),
            ("REINSTATED", Some(TemplateStatus::Approved)),
            ("PAUSED", Some(TemplateStatus::Paused)),
            ("IN_APPEAL", Some(TemplateStatus::InAppeal)),
            ("FLAGGED", None),
            ("", None),
        ] {
            assert_eq!(TemplateStatus::from_channel(word), status, "{word}");
        }
        for word in TemplateStatus::WORDS {
            assert_eq!(word.parse::<TemplateStatus>().map(TemplateStatus::as_str), Ok(*word));
        }
        for (word, quality) in [
            ("GREEN", TemplateQuality::Green),
            ("yellow", TemplateQuality::Yellow),
            ("RED", TemplateQuality::Red),
            ("UNKNOWN", TemplateQuality::Unknown),
            ("MAUVE", TemplateQuality::Unknown),
        ] {
            assert_eq!(TemplateQuality::from_channel(word), quality, "{word}");
        }
        let error = "sale".parse::<TemplateCategory>().unwrap_err();
        assert_eq!(error.to_string(), "must be one of utility, marketing, authentication");
    }

    #[test]
    fn the_code_goes_to_the_button_that_takes_it() {
        let body = json!({"type": "BODY", "add_security_recommendation": true});
        let with =
            |buttons: Value| vec![body.clone(), json!({"type": "BUTTONS", "buttons": buttons})];
        let copy =
            json!({"type": "URL", "url": "https://www.whatsapp.com/otp/code/?code=otp{{1}}"});
        let fixed = json!({"type": "URL", "url": "https://acme.example/help"});
        let table = [
            (vec![], CodeButton::At(0)),
            (vec![body.clone()], CodeButton::Absent),
            (with(json!([{"type": "OTP", "otp_type": "ZERO_TAP"}])), CodeButton::At(0)),
            (with(json!([copy])), CodeButton::At(0)),
            (with(json!([{"type": "url", "text": "Copy"}])), CodeButton::At(0)),
            (with(json!([{"type": "QUICK_REPLY"}, copy])), CodeButton::At(1)),
            (with(json!([fixed, {"type": "OTP"}])), CodeButton::At(1)),
            (with(json!([fixed])), CodeButton::Absent),
            (with(json!([])), CodeButton::Absent),
            (with(json!("broken")), CodeButton::Absent),
        ];
        for (components, expected) in table {
            assert_eq!(CodeButton::of(&components), expected, "{components:?}");
        }
    }
}

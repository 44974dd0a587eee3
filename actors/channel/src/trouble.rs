//! The reason why a number cannot send: brief for the log, in the provider's words for operators.

use postrider_domain::redact::redacted;

use crate::Failure;

/// The reason why a provider accepts nothing at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The cause for the log: an error code, a status or the connection's fault.
    ///
    /// It has no text of a provider, because that may repeat phones and tokens.
    pub cause: Box<str>,
    /// The provider's own words; empty if it gave none.
    pub details: Box<str>,
}

impl Trouble {
    /// Returns the trouble of a refusal.
    #[must_use]
    pub fn of(failure: &Failure) -> Self {
        let cause = match failure.code {
            Some(code) => format!("error {code}").into(),
            None => "a refusal without a code".into(),
        };
        Self { cause, details: failure.details.clone() }
    }

    /// Returns the cause and the provider's words, with phones and tokens redacted.
    #[must_use]
    pub fn explanation(&self) -> String {
        match &*self.details {
            "" => self.cause.to_string(),
            details => format!("{}: {}", self.cause, redacted(details)),
        }
    }
}

//! Says why a number cannot send: briefly for the log, in the provider's words for operators.

use postrider_domain::redact::redacted;

use crate::Failure;

/// Why a provider accepts nothing at the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// For the log: an error code, a status or the connection's fault, and nothing that a provider
    /// wrote, because that may repeat phones and tokens.
    pub cause: Box<str>,
    /// The provider's own words; empty if it gave none.
    pub details: Box<str>,
}

impl Trouble {
    /// The trouble that a refusal is.
    #[must_use]
    pub fn of(failure: &Failure) -> Self {
        let cause = match failure.code {
            Some(code) => format!("error {code}").into(),
            None => "a refusal without a code".into(),
        };
        Self { cause, details: failure.details.clone() }
    }

    /// The cause and the provider's words, without what looks like a phone or a token.
    #[must_use]
    pub fn explanation(&self) -> String {
        match &*self.details {
            "" => self.cause.to_string(),
            details => format!("{}: {}", self.cause, redacted(details)),
        }
    }
}

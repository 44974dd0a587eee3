//! Pure: the outcomes of messages: of one attempt, with refusals and limits, and the final one.

use std::time::Duration;

use postrider_domain::PartyNames;
use postrider_domain::redact::redacted;
use postrider_domain::template::TemplateStatus;
use serde::{Deserialize, Serialize};

use crate::Origin;

/// The outcome of one attempt to send a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The provider accepted it.
    Sent,
    /// The provider accepted it, and reports more.
    SentAs(Acceptance),
    /// The provider refused it; it must not be sent again as it is.
    Failed(Failure),
    /// The provider limits the rate.
    ///
    /// The message certainly was not accepted, through no fault of its own. It must be sent again
    /// after a wait.
    Throttled {
        /// The scope of the limit.
        scope: Throttle,
        /// The wait that the provider asked for, if it did.
        after: Option<Duration>,
    },
    /// The message certainly was not accepted and must be sent again after a wait.
    ///
    /// The provider could not be reached, or reported so.
    Retry {
        /// The wait that the provider asked for, if it did.
        after: Option<Duration>,
    },
    /// The message may have been accepted: no answer arrived. It must not be sent again.
    Unknown,
}

/// The provider's report on a message that it accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acceptance {
    /// The other phone number by which it knows the recipient, if any, and its own id of the
    /// recipient.
    pub known_as: PartyNames,
    /// The provider's id of the message.
    pub provider_id: Option<Box<str>>,
    /// Set if the provider holds the message back for now: it may send it later, or drop it.
    pub held: bool,
}

/// The scope of a provider's rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Throttle {
    /// All numbers of the provider's app.
    App,
    /// All numbers of the account.
    Account,
    /// The number.
    Number,
    /// The recipient only.
    Recipient,
}

/// A provider's refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The required consequence of the refusal.
    pub class: FailureClass,
    /// The provider's own error code, if it gave one.
    pub code: Option<u32>,
    /// The provider's explanation for an operator; empty if it gave none.
    pub details: Box<str>,
}

/// The required consequence of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureClass {
    /// The number or its account cannot send: the number must stop, and its queue waits.
    Account,
    /// This message to this recipient will never be accepted.
    Permanent,
    /// No message to the recipient's country is accepted.
    Country,
    /// The conversation window is closed: only a template is accepted.
    WindowClosed,
    /// Marketing to this recipient is not accepted for a day.
    MarketingHeldBack,
    /// The recipient has opted out of marketing.
    OptedOut,
    /// The template does not exist or is blocked: no message with it will be accepted.
    Template,
    /// The template is paused.
    TemplatePaused,
    /// The template is disabled.
    TemplateDisabled,
    /// Recipients mark the number's messages as spam: its broadcasts must pause.
    SpamLimit,
    /// The template is limited for a while, though it is approved.
    TemplateLimited,
    /// The refusal is treated as permanent, because the provider's code is not known.
    Unrecognized,
    /// The parameters do not fit the template: no message with these will be accepted.
    Parameters,
}

impl Failure {
    /// Returns the template status that the refusal implies, if it implies one.
    #[must_use]
    pub const fn template_status(&self) -> Option<TemplateStatus> {
        match self.class {
            FailureClass::TemplatePaused => Some(TemplateStatus::Paused),
            FailureClass::TemplateDisabled => Some(TemplateStatus::Disabled),
            _ => None,
        }
    }

    /// Creates a permanent refusal of this message, without an explanation.
    #[must_use]
    pub fn permanent(code: Option<u32>) -> Self {
        Self { class: FailureClass::Permanent, code, details: Box::default() }
    }
}

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

/// The final outcome of a message. Delivery reports may still follow for one that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinalOutcome {
    /// The channel accepted it.
    Sent,
    /// The channel accepted it, and has this id of it. It is no code.
    SentAs(Box<str>),
    /// The channel accepted it and holds it back. The id is the channel's, if it is no code.
    Held(Option<Box<str>>),
    /// The channel refused it, or its number was disconnected.
    Failed(Failure),
    /// It may have been accepted: no answer arrived.
    Unknown,
    /// It expired before the channel accepted it.
    NotSentInTime,
}

impl FinalOutcome {
    /// Returns the outcome of an accepted message.
    ///
    /// The ids of codes are dropped, because nobody answers a code.
    #[must_use]
    pub fn accepted(origin: Origin, Acceptance { provider_id, held, .. }: Acceptance) -> Self {
        let id = provider_id.filter(|_| !matches!(origin, Origin::Otp { .. }));
        match id {
            id if held => Self::Held(id),
            Some(id) => Self::SentAs(id),
            None => Self::Sent,
        }
    }
}

//! The port to a provider, and the channels that implement it: sandbox, Cloud API and e-mail.
//!
//! Not an API: `postrider-actors` re-exports the parts for embedders, and this crate promises no
//! stability. Only this crate calls a provider or a mail server.

pub mod callback;
pub mod cloud_api;
pub mod email;
#[cfg(test)]
mod fuzz;
pub mod inbound_content;
pub mod number_facts;
pub mod outcome;
pub mod sandbox;
mod trouble;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use postrider_domain::code::CodeLength;
use postrider_domain::{
    BroadcastId, CodeKey, MessageId, NumberId, OtpCode, PartyId, PartyNames, RequestId, Timestamp,
    WorkspaceId,
};

use postrider_domain::template::TemplateStatus;
use postrider_runtime::trace::Subject;

// These types are part of the port, so an implementer of a channel finds them here.
pub use postrider_domain::content::{RenderedContent, TemplateContent};
pub use postrider_domain::template::{CodeButton, TemplateName};

/// A message that is ready to be sent, and already durable.
///
/// Its `Debug` shows no code and no full phone number.
#[derive(Debug, Clone)]
pub struct Outbound {
    /// Our id of the message. A channel that can carry it returns it in callbacks.
    pub message_id: MessageId,
    /// The origin of the message, which receives its outcome.
    pub origin: Origin,
    /// The number through which it is sent.
    pub number: NumberId,
    /// The workspace to which it belongs.
    pub workspace: WorkspaceId,
    /// The recipient. A one-time password goes only to a phone.
    pub to: PartyId,
    /// The time at which it expires: it must not be sent from then on.
    pub give_up_at: Timestamp,
    /// Its content.
    pub content: Content,
    /// The channel's id of the message that it answers, if it answers one.
    pub answers: Option<Box<str>>,
    /// Set if it is sent only through this number, because its sender has named the number.
    pub pinned: bool,
}

/// The origin of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A request for a one-time password.
    Otp {
        /// The request.
        request_id: RequestId,
        /// Which of its messages: 1 is the first, 2 that of the first resend, and so on.
        number: u8,
    },
    /// A single message.
    Message(MessageId),
    /// A recipient of a broadcast.
    Broadcast {
        /// The broadcast.
        broadcast: BroadcastId,
        /// The recipient's place in its audience.
        index: u32,
    },
}

/// The priority of a message where not all can be sent at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// One-time passwords and single messages, which are sent before all others.
    First,
    /// Messages of broadcasts, which use what the first lane leaves.
    Bulk,
}

impl Origin {
    /// Returns the lane in which its messages are sent.
    #[must_use]
    pub const fn lane(self) -> Lane {
        match self {
            Self::Otp { .. } | Self::Message(_) => Lane::First,
            Self::Broadcast { .. } => Lane::Bulk,
        }
    }

    /// Returns the subject with which a trace of its request continues.
    ///
    /// The messages of a broadcast have none.
    #[must_use]
    pub fn trace_subject(self) -> Option<Subject> {
        match self {
            Self::Otp { request_id, .. } => Some(Subject::from(*request_id.as_bytes())),
            Self::Message(id) => Some(Subject::from(*id.as_bytes())),
            Self::Broadcast { .. } => None,
        }
    }
}

/// The content of a message that is ready to be sent.
#[derive(Debug, Clone)]
pub enum Content {
    /// A one-time password, as an authentication template.
    Otp {
        /// The request for the code.
        request_id: RequestId,
        /// The number of digits of the code.
        length: CodeLength,
        /// The key from which the code is derived.
        code_key: Arc<CodeKey>,
        /// The template that carries it.
        template: Arc<TemplateName>,
        /// The button of the template that takes the code too.
        button: CodeButton,
        /// Set if another channel follows unless the delivery is reported.
        chained: bool,
    },
    /// Any other message. It is shared: recipients of a broadcast may have the same content.
    Message(Arc<RenderedContent>),
}

impl Content {
    /// Returns the text that the recipient reads; `None` for a one-time password, whose code is
    /// secret.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Otp { .. } => None,
            Self::Message(content) => Some(content.text()),
        }
    }
}

impl Outbound {
    /// Returns the code of a one-time password; `None` for other messages. Each call derives it.
    #[must_use]
    pub fn code(&self) -> Option<OtpCode> {
        match &self.content {
            Content::Otp { request_id, length, code_key, .. } => {
                Some(code_key.code(*request_id, self.to.phone()?, *length))
            }
            Content::Message(_) => None,
        }
    }
}

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
    /// Another phone number by which it knows the recipient, and its own id of them.
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

pub use trouble::Trouble;

/// The earlier name of [`AttemptOutcome`].
pub use AttemptOutcome as Outcome;

/// A future that resolves to the outcome of one attempt.
pub type Sending = Pin<Box<dyn Future<Output = AttemptOutcome> + Send>>;

/// A way to send messages through a provider. Calls run concurrently; each resolves once.
pub trait Channel: Send + Sync + 'static {
    /// Hands one message to the provider.
    ///
    /// The channel must not retry: the number does. It must resolve to [`AttemptOutcome::Unknown`]
    /// whenever the provider may have accepted the message. A call that panics counts as that.
    fn send(&self, message: Outbound) -> Sending;

    /// Returns why the provider did not accept a message the last time.
    ///
    /// It is asked when the number stops calling the channel for a while.
    fn trouble(&self) -> Option<Trouble> {
        None
    }
}

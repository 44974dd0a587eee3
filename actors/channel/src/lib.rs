//! The port to a provider, and the channels that implement it: sandbox, Cloud API and e-mail.
//!
//! Not an API: `postrider-actors` re-exports what embedders use, and this crate promises no
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

// They are part of the port, so whoever implements a channel finds them here.
pub use postrider_domain::content::{RenderedContent, TemplateContent};
pub use postrider_domain::template::{CodeButton, TemplateName};

/// A message that is ready to be sent. It is durable already; its `Debug` shows no code and no full
/// phone number.
#[derive(Debug, Clone)]
pub struct Outbound {
    /// Our id of the message. A channel that can carry it returns it in callbacks.
    pub message_id: MessageId,
    /// What the message belongs to, which receives its outcome.
    pub origin: Origin,
    /// The number that it is sent through.
    pub number: NumberId,
    /// The workspace that it belongs to.
    pub workspace: WorkspaceId,
    /// The recipient. A one-time password goes to a phone only.
    pub to: PartyId,
    /// When it expires: it must not be sent from then on.
    pub give_up_at: Timestamp,
    /// Its content.
    pub content: Content,
    /// The channel's id of the message that it answers, if it answers one.
    pub answers: Option<Box<str>>,
    /// Whether it leaves through this number only, because its sender has named the number.
    pub pinned: bool,
}

/// What a message belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A request for a one-time password.
    Otp {
        /// Which request.
        request_id: RequestId,
        /// Which of its messages: 1 is the first, 2 that of the first resend, and so on. 0 is the
        /// newest one, for callbacks that do not say.
        number: u8,
    },
    /// A single message.
    Message(MessageId),
    /// A recipient of a broadcast.
    Broadcast {
        /// Which broadcast.
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
    /// The lane in which its messages are sent.
    #[must_use]
    pub const fn lane(self) -> Lane {
        match self {
            Self::Otp { .. } | Self::Message(_) => Lane::First,
            Self::Broadcast { .. } => Lane::Bulk,
        }
    }

    /// What a trace of its request goes on with. A broadcast's messages are followed by none.
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
        /// The request that it is for.
        request_id: RequestId,
        /// How many digits the code has.
        length: CodeLength,
        /// The key from which the code is derived.
        code_key: Arc<CodeKey>,
        /// The template that carries it.
        template: Arc<TemplateName>,
        /// Which of its buttons takes the code too.
        button: CodeButton,
        /// Whether another channel follows unless its delivery is reported.
        chained: bool,
    },
    /// Any other message. It is shared: recipients of a broadcast may have the same content.
    Message(Arc<RenderedContent>),
}

impl Content {
    /// The text that the recipient reads. `None` for a one-time password, whose code is secret.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Otp { .. } => None,
            Self::Message(content) => Some(content.text()),
        }
    }
}

impl Outbound {
    /// The code of a one-time password; `None` for other messages. It is derived on each call.
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
    /// The provider limits the rate. The message surely was not accepted, through no fault of its
    /// own, and must be sent again after a wait.
    Throttled {
        /// What must be sent less.
        scope: Throttle,
        /// How long the provider asked to wait, if it did.
        after: Option<Duration>,
    },
    /// The message surely was not accepted and must be sent again after a wait: the provider could
    /// not be reached, or said so.
    Retry {
        /// How long the provider asked to wait, if it did.
        after: Option<Duration>,
    },
    /// The message may have been accepted: no answer arrived. It must not be sent again.
    Unknown,
}

/// What a provider reports of a message that it accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acceptance {
    /// Another phone number by which it knows the recipient, and its own id of them.
    pub known_as: PartyNames,
    /// The provider's id of the message.
    pub provider_id: Option<Box<str>>,
    /// Whether it holds the message back for now: it may send it later, or drop it.
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
    /// What must follow from it.
    pub class: FailureClass,
    /// The provider's own error code, if it gave one.
    pub code: Option<u32>,
    /// The provider's explanation for an operator; empty if it gave none.
    pub details: Box<str>,
}

/// What must follow from a refusal.
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
    /// Permanent as far as is known: nobody knows the provider's code.
    Unrecognized,
    /// The parameters do not fit the template: no message with these will be accepted.
    Parameters,
}

impl Failure {
    /// The status that the refusal says a message's template has; `None` if it says none.
    #[must_use]
    pub const fn template_status(&self) -> Option<TemplateStatus> {
        match self.class {
            FailureClass::TemplatePaused => Some(TemplateStatus::Paused),
            FailureClass::TemplateDisabled => Some(TemplateStatus::Disabled),
            _ => None,
        }
    }

    /// A permanent refusal of this message, without an explanation.
    #[must_use]
    pub fn permanent(code: Option<u32>) -> Self {
        Self { class: FailureClass::Permanent, code, details: Box::default() }
    }
}

pub use trouble::Trouble;

/// The earlier name of [`AttemptOutcome`].
pub use AttemptOutcome as Outcome;

/// Resolves to the outcome of one attempt.
pub type Sending = Pin<Box<dyn Future<Output = AttemptOutcome> + Send>>;

/// A way to send messages through a provider. Calls run concurrently; each resolves once.
pub trait Channel: Send + Sync + 'static {
    /// Hands one message to the provider.
    ///
    /// The channel must not retry: the number does. It must resolve to
    /// [`AttemptOutcome::Unknown`] whenever the provider may have accepted the message; a call that
    /// panics counts as that.
    fn send(&self, message: Outbound) -> Sending;

    /// Why the provider did not accept a message the last time, when the number stops calling the
    /// channel for a while.
    fn trouble(&self) -> Option<Trouble> {
        None
    }
}

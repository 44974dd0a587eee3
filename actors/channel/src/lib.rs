//! The port to a provider, and the channels that there are.
//!
//! Not an API: `postrider-actors` re-exports what embedders use, and this crate promises no
//! stability. Only this crate calls a provider or a mail server.

pub mod callback;
pub mod cloud_api;
pub mod email;
pub mod outcome;
pub mod sandbox;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use postrider_domain::code::CodeLength;
use postrider_domain::{
    BroadcastId, CodeKey, MessageId, NumberId, OtpCode, Phone, RequestId, Timestamp, WorkspaceId,
};

/// A message on its way out. It is durable, so it may be handed over; its `Debug` shows no code
/// and no full phone number.
#[derive(Debug, Clone)]
pub struct Outbound {
    /// What we call the message; a channel that can carry it gives it back in callbacks.
    pub message_id: MessageId,
    /// What the outcome is told to.
    pub origin: Origin,
    /// The number that it leaves through.
    pub number: NumberId,
    /// Whose it is.
    pub workspace: WorkspaceId,
    /// Who gets it.
    pub to: Phone,
    /// After this it is not worth sending.
    pub give_up_at: Timestamp,
    /// What it says.
    pub content: Content,
}

/// What a message belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A request for a one-time password.
    Otp {
        /// Which request.
        request_id: RequestId,
        /// Which of its messages: 1 is the first, 2 that of its first resend, and so on. 0, where a
        /// callback does not say, is the newest.
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

/// What goes first where not everything can go at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// One-time passwords and single messages.
    First,
    /// What has time.
    Bulk,
}

impl Origin {
    /// The lane that its messages take.
    #[must_use]
    pub const fn lane(self) -> Lane {
        match self {
            Self::Otp { .. } | Self::Message(_) => Lane::First,
            Self::Broadcast { .. } => Lane::Bulk,
        }
    }
}

/// What a message says.
#[derive(Debug, Clone)]
pub enum Content {
    /// A one-time password, as an authentication template.
    Otp {
        /// The request that it is for.
        request_id: RequestId,
        /// How many digits the code has.
        length: CodeLength,
        /// What the code is derived with.
        code_key: Arc<CodeKey>,
        /// The template that carries it.
        template: Arc<TemplateName>,
    },
    /// A template with its parameters.
    Template(Arc<TemplateContent>),
    /// Free text.
    Text(Arc<str>),
}

impl Content {
    /// What the recipient reads; nothing of a code.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Otp { .. } => None,
            Self::Template(content) => Some(&content.text),
            Self::Text(text) => Some(text),
        }
    }
}

/// Which template.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TemplateName {
    /// Its name, such as `order_update`.
    pub name: Box<str>,
    /// Its language as the channel writes it, such as `en` or `en_US`.
    pub language: Box<str>,
}

/// A template with parameters that fit it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateContent {
    /// Which one.
    pub template: TemplateName,
    /// The parameters: a JSON array in the channel's own form, `[{"type": "body", "parameters":
    /// [{"type": "text", "text": "Ada"}]}]`.
    pub components: Box<str>,
    /// What the recipient reads, as far as it is text.
    pub text: Box<str>,
}

impl Outbound {
    /// The one-time code that the message carries, if it carries one.
    #[must_use]
    pub fn code(&self) -> Option<OtpCode> {
        match &self.content {
            Content::Otp { request_id, length, code_key, .. } => {
                Some(code_key.code(*request_id, self.to, *length))
            }
            Content::Template(_) | Content::Text(_) => None,
        }
    }
}

/// What became of handing a message over: of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The provider took it.
    Sent,
    /// The provider took it, and knows whoever has that phone by this other number.
    SentAs(Phone),
    /// The provider refused it.
    Failed(Failure),
    /// The provider asks to be sent less; it surely was not taken, and that is no fault of its own.
    Throttled {
        /// What is sent too much.
        scope: Throttle,
        /// How long the provider asked to wait, if it did.
        after: Option<Duration>,
    },
    /// It surely was not taken, and may be later: the provider could not be reached or said so.
    Retry {
        /// How long the provider asked to wait, if it did.
        after: Option<Duration>,
    },
    /// It may have been taken: no answer came.
    Unknown,
}

/// What a provider's throttle holds for.
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
    /// What it means for what comes next.
    pub class: FailureClass,
    /// The provider's own error code, where it gave one.
    pub code: Option<u32>,
    /// The provider's explanation for an operator; empty where it gave none.
    pub details: Box<str>,
}

/// What a refusal means for what comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureClass {
    /// The number or its account cannot send: it stops, and what it holds waits.
    Account,
    /// This message to this recipient will never be taken.
    Permanent,
    /// Nothing is taken for the recipient's country.
    Country,
    /// The conversation window is closed: only a template is taken.
    WindowClosed,
    /// Marketing to this recipient is not taken for a day.
    MarketingHeldBack,
    /// The recipient wants no marketing.
    OptedOut,
    /// The template is not what was sent: no message with it will be taken.
    Template,
    /// The template is paused.
    TemplatePaused,
    /// The template is disabled.
    TemplateDisabled,
    /// The number sends what recipients mark as spam: its broadcasts pause.
    SpamLimit,
}

impl Failure {
    /// A refusal of this message for good.
    #[must_use]
    pub fn permanent(code: Option<u32>) -> Self {
        Self { class: FailureClass::Permanent, code, details: Box::default() }
    }
}

/// The earlier name of [`AttemptOutcome`].
pub use AttemptOutcome as Outcome;

/// Resolves to what became of a message.
pub type Sending = Pin<Box<dyn Future<Output = AttemptOutcome> + Send>>;

/// Something that hands messages to a provider. Calls run side by side; each resolves once.
pub trait Channel: Send + Sync + 'static {
    /// Hands one message over.
    fn send(&self, message: Outbound) -> Sending;

    /// Why the channel could not be reached the last time, for an operator: the number's log says it
    /// when it is left alone for a while.
    fn trouble(&self) -> Option<Box<str>> {
        None
    }
}

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

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use postrider_domain::code::CodeLength;
use postrider_domain::{
    BroadcastId, CodeKey, MessageId, NumberId, OtpCode, PartyId, RequestId, Timestamp, WorkspaceId,
};
use postrider_runtime::trace::Subject;

// These types are part of the port, so an implementer of a channel finds them here.
pub use outcome::{Acceptance, AttemptOutcome, Failure, FailureClass, Throttle, Trouble};
pub use postrider_domain::content::{RenderedContent, TemplateContent};
pub use postrider_domain::template::{CodeButton, TemplateName};

/// The earlier name of [`AttemptOutcome`].
pub use outcome::AttemptOutcome as Outcome;

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

/// The origin of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A request for a one-time password.
    Otp {
        /// The request.
        request_id: RequestId,
        /// The number of the message: 1 for the first message, 2 for the first resend, and so on.
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

/// The priority of a message where not all can be sent at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// One-time passwords and single messages, which are sent before all others.
    First,
    /// Messages of broadcasts, which use what the first lane leaves.
    Bulk,
}

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

/// A future that resolves to the outcome of one attempt.
pub type Sending = Pin<Box<dyn Future<Output = AttemptOutcome> + Send>>;

//! The port to a provider: what hands messages to the outside.

pub mod sandbox;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::code::CodeLength;
use crate::domain::{
    CodeKey, MessageId, NumberId, OtpCode, Phone, RequestId, Timestamp, WorkspaceId,
};

/// A message on its way out. It is durable, so it may be handed over; its `Debug` shows no code
/// and no full phone number.
#[derive(Debug, Clone)]
pub struct Outbound {
    /// What we call the message; a channel that can carry it gives it back in callbacks.
    pub message_id: MessageId,
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

/// What a message says.
#[derive(Debug, Clone)]
pub enum Content {
    /// A one-time password.
    Otp {
        /// The request that it is for.
        request_id: RequestId,
        /// How many digits the code has.
        length: CodeLength,
        /// What the code is derived with.
        code_key: Arc<CodeKey>,
    },
}

impl Outbound {
    /// The request that the message belongs to.
    pub(crate) const fn request(&self) -> RequestId {
        let Content::Otp { request_id, .. } = &self.content;
        *request_id
    }

    /// The one-time code that the message carries.
    #[must_use]
    pub fn code(&self) -> OtpCode {
        let Content::Otp { request_id, length, code_key } = &self.content;
        code_key.code(*request_id, self.to, *length)
    }
}

/// What became of handing a message over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The provider took it.
    Sent,
    /// The provider refused it for good.
    Failed {
        /// The provider's own error code, where it gave one.
        error_code: Option<u32>,
    },
    /// It surely was not taken, and may be later: the provider could not be reached or said so.
    Retry {
        /// How long the provider asked to wait, if it did.
        after: Option<Duration>,
    },
    /// It may have been taken: no answer came.
    Unknown,
}

/// Resolves to what became of a message.
pub type Sending = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Something that hands messages to a provider. Calls run side by side; each resolves once.
pub trait Channel: Send + Sync + 'static {
    /// Hands one message over.
    fn send(&self, message: Outbound) -> Sending;
}

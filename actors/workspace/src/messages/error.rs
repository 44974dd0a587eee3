//! The reasons to refuse a message, and a reply in a conversation.

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{MediaId, MessageKind, NumberId};

use crate::core::settings::UseTemplateError;

/// The reason why a message was not accepted. It cost nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendMessageError {
    /// The workspace has no messaging number.
    #[error("the workspace has no active messaging number")]
    NotConnected,
    /// It is to leave through a number that the workspace does not have.
    #[error("the workspace has no such number")]
    UnknownNumber,
    /// Free text, and the recipient has not written to a connected number in the last 24 hours.
    #[error(
        "the recipient has not written to a connected number in the last 24 hours: only a template \
         may be sent"
    )]
    WindowClosed,
    /// The template cannot be sent.
    #[error(transparent)]
    Template(#[from] UseTemplateError),
    /// The template is marketing, and the recipient has opted out of it.
    #[error("the recipient has opted out of marketing")]
    OptedOut,
    /// The template is for authentication, and the recipient is not given by phone.
    #[error("an authentication template goes to a phone only")]
    RecipientNeedsPhone,
    /// It is about a message that is not of the conversation, or of which the channel has no id.
    #[error("no such message in the conversation with the recipient")]
    UnknownMessage,
    /// There is no such file, or one of another kind.
    #[error("must be the id of an uploaded file that can be sent as {}", .kind.as_str())]
    UnknownMedia {
        /// The kind of the message.
        kind: MessageKind,
    },
    /// The channel does not have the file for this number. The sender has it uploaded.
    #[error("the file must be uploaded first")]
    NotUploaded {
        /// The number.
        number: NumberId,
        /// The file.
        media: MediaId,
    },
    /// The workspace cannot pay for it.
    #[error("not enough credits: {needed} needed, {available} available")]
    InsufficientCredits {
        /// The price.
        needed: u64,
        /// The balance.
        available: u64,
    },
    /// The message cannot be taken now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// The reason why a reply was not accepted. It cost nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The workspace has no such conversation.
    #[error("no such conversation")]
    NotFound,
    /// The contact has no phone any more.
    #[error("the contact has no phone")]
    NoPhone,
    /// It is a conversation by e-mail, which takes text only.
    #[error("a reply by e-mail must be text")]
    TextOnly,
    /// It is a conversation by e-mail, and there is no mail server.
    #[error("no mail server is set up: see [email] in the settings")]
    NoMailServer,
    /// The message was refused.
    #[error(transparent)]
    Refused(#[from] SendMessageError),
}

impl From<Unavailable> for ReplyError {
    fn from(why: Unavailable) -> Self {
        Self::Refused(why.into())
    }
}

//! The reasons to refuse a reply in a conversation.

use postrider_domain::Unavailable;

use crate::messages::SendMessageError;

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

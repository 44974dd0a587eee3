//! Why something about people was not done.

use std::time::Duration;

use postrider_domain::unavailable::Unavailable;
use postrider_store::writer::CommitError;

/// Why something about people was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeopleError {
    /// What was shown signs nobody in. Nothing tells which part of it is wrong.
    #[error("the link, password or token is wrong, used or too old")]
    Refused,
    /// Too many wrong tries for this account.
    #[error("too many tries for this account")]
    Wait(Duration),
    /// Too many sign-ins are under way.
    #[error("too many sign-ins are under way; nothing was done")]
    Busy,
    /// They may not sign in.
    #[error("this user is disabled")]
    Disabled,
    /// There is nobody of this id.
    #[error("no such person")]
    NoSuchPerson,
    /// There is no such session of this person.
    #[error("no such session")]
    NoSuchSession,
    /// It cannot be done now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl From<CommitError> for PeopleError {
    fn from(error: CommitError) -> Self {
        Self::Unavailable(error.into())
    }
}

impl From<crate::password::Busy> for PeopleError {
    fn from(_: crate::password::Busy) -> Self {
        Self::Busy
    }
}

//! Why something about people was not done.

use std::time::Duration;

use postrider_domain::unavailable::Unavailable;
use postrider_store::writer::CommitError;

/// Why something about people was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeopleError {
    /// What was shown signs nobody in. Nothing shows which part of it is wrong.
    #[error("the link, password or token is wrong, used or too old")]
    Refused,
    /// The session ended before its turn came.
    #[error("the session has ended; sign in again")]
    SessionEnded,
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
    /// The password is right; the code of the authenticator is missing or wrong.
    #[error("the authenticator's code is needed")]
    TotpRequired,
    /// The code that should confirm an authenticator is not its.
    #[error("it is not the code that the authenticator shows now")]
    WrongCode,
    /// No authenticator is being set up, or there is none.
    #[error("no authenticator is being set up, or it took longer than ten minutes")]
    NoAuthenticator,
    /// There is one already.
    #[error("there is an authenticator already; remove it first")]
    HasAuthenticator,
    /// Whoever is invited has an account, and did not show that it is theirs.
    #[error("an account of this e-mail address is there: sign in with it first, then join")]
    SignInFirst,
    /// They are a member of the workspace already.
    #[error("they are a member of the workspace already")]
    AlreadyMember,
    /// The workspace would have nobody left who owns it.
    #[error("the workspace would have no owner left")]
    LastOwner,
    /// Only who may manage owners makes or unmakes one.
    #[error("only an owner makes or unmakes owners")]
    OwnersOnly,
    /// There is no such invite in the workspace.
    #[error("no such invite")]
    NoSuchInvite,
    /// There is no such workspace.
    #[error("no such workspace")]
    NoSuchWorkspace,
    /// The workspace has as many open invites as it may have.
    #[error("the workspace has {0} open invites, as many as it may have")]
    TooManyInvites(usize),
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

//! The reasons for which an operation on people fails.

use std::time::Duration;

use postrider_domain::unavailable::Unavailable;
use postrider_store::writer::CommitError;

/// The reason for which an operation on people failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeopleError {
    /// The credentials are not valid. The error does not reveal which part is wrong.
    #[error("the link, password or token is wrong, used or too old")]
    Refused,
    /// The session ended before the operation's turn.
    #[error("the session has ended; sign in again")]
    SessionEnded,
    /// There were too many wrong tries for this account.
    #[error("too many tries for this account")]
    Wait(Duration),
    /// Too many sign-ins are in progress.
    #[error("too many sign-ins are under way; nothing was done")]
    Busy,
    /// The person may not sign in.
    #[error("this user is disabled")]
    Disabled,
    /// There is no person of this id.
    #[error("no such person")]
    NoSuchPerson,
    /// The person has no such session.
    #[error("no such session")]
    NoSuchSession,
    /// The password is right, but the code of the authenticator is missing or wrong.
    #[error("the authenticator's code is needed")]
    TotpRequired,
    /// The code that should confirm an authenticator is not one of its codes.
    #[error("it is not the code that the authenticator shows now")]
    WrongCode,
    /// No authenticator is being set up, or the person has none.
    #[error("no authenticator is being set up, or it took longer than ten minutes")]
    NoAuthenticator,
    /// The person has an authenticator already.
    #[error("there is an authenticator already; remove it first")]
    HasAuthenticator,
    /// The invited person has an account, and did not prove that it is theirs.
    #[error("an account of this e-mail address is there: sign in with it first, then join")]
    SignInFirst,
    /// The person is a member of the workspace already.
    #[error("they are a member of the workspace already")]
    AlreadyMember,
    /// The workspace would have no owner left.
    #[error("the workspace would have no owner left")]
    LastOwner,
    /// The caller may not make or unmake owners.
    #[error("only an owner makes or unmakes owners")]
    OwnersOnly,
    /// There is no such invite in the workspace.
    #[error("no such invite")]
    NoSuchInvite,
    /// There is no such workspace.
    #[error("no such workspace")]
    NoSuchWorkspace,
    /// The workspace has the maximum number of open invites.
    #[error("the workspace has {0} open invites, as many as it may have")]
    TooManyInvites(usize),
    /// The operation cannot run now.
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

//! People: who may sign in, which roles they have in which workspace, and their sessions.
//!
//! Not an API: `postrider-actors` re-exports the items that embedders use, and this crate promises
//! no stability. All people and sessions are in memory as well as in the store. So a request's
//! session is found without an actor and without a read. Times are real time; see
//! [`Clock`](postrider_runtime::Clock).

mod attempt;
mod authenticator;
mod changes;
mod checking;
mod device;
mod directory;
mod enrolments;
mod error;
#[cfg(test)]
mod golden;
mod invite;
mod joining;
mod link;
mod members;
mod options;
mod password;
mod permission;
mod person;
mod remote_session;
mod role;
mod session;
mod sign_in;
mod signed_in;
mod strict;
#[cfg(test)]
mod tests;
mod token;
mod tries;

pub use changes::{NewLink, PersonChange};
pub use directory::People;
pub use enrolments::Authenticators;
pub use error::PeopleError;
pub use invite::Invite;
pub use joining::Joining;
pub use members::{Manager, Members, NewInvite};
pub use options::{PeopleOptions, TokenWorks};
pub use password::{Password, PasswordError};
pub use permission::{Permission, Permissions, Recent};
pub use person::{Login, Membership, Person};
pub use remote_session::RemoteSession;
pub use role::{Role, RoleError};
pub use session::{Session, SessionHolder, SessionRecord};
pub use sign_in::{Arrival, NewSession};
pub use signed_in::SignedIn;
pub use token::TokenHash;

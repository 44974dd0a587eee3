//! People: who may sign in, which roles they have in which workspace, and their sessions.
//!
//! Not an API: `postrider-actors` re-exports the items that embedders use, and this crate promises
//! no stability. All people and sessions are in memory as well as in the store. So a request's
//! session is found without an actor and without a read. Times are real time; see
//! [`Clock`](postrider_runtime::Clock).

mod authenticator;
mod changes;
mod directory;
mod enrolments;
mod error;
#[cfg(test)]
mod golden;
mod link;
mod members;
mod password;
mod permission;
mod person;
mod session;
mod sign_in;
mod sign_in_attempts;
#[cfg(test)]
mod tests;
mod token;

pub use changes::{NewLink, PersonChange};
pub use directory::{People, PeopleOptions, TokenWorks};
pub use enrolments::Authenticators;
pub use error::PeopleError;
pub use link::Invite;
pub use members::{Joining, Manager, Members, NewInvite};
pub use password::{Password, PasswordError};
pub use permission::{Permission, Permissions, Recent, Role, RoleError};
pub use person::{Login, Membership, Person};
pub use session::{RemoteSession, Session, SessionHolder, SessionRecord, SignedIn};
pub use sign_in::{Arrival, NewSession};
pub use token::TokenHash;

//! A signed-in person, as one engine reports them to an engine without people.

use std::sync::Arc;

use postrider_domain::PersonId;
use serde::{Deserialize, Serialize};

use crate::person::{Membership, Person};
use crate::session::{Session, SessionRecord};
use crate::signed_in::SignedIn;

/// A session and its person, without the password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteSession {
    session: SessionRecord,
    person: Option<Person>,
}

impl SignedIn {
    /// Returns the session and the person in the form that another engine needs.
    #[must_use]
    pub fn remote(&self) -> RemoteSession {
        let person = self.person.as_ref();
        let person = person.map(|person| Person { password: None, ..(**person).clone() });
        RemoteSession { session: self.session.current(), person }
    }
}

impl Person {
    /// Returns the person without password and authenticator.
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        Self { password: None, authenticator: None, ..self.clone() }
    }
}

impl RemoteSession {
    /// Returns the reported session and its person.
    #[must_use]
    pub fn signed_in(self) -> SignedIn {
        let Self { session, person } = self;
        SignedIn { session: Arc::new(Session::remote(session)), person: person.map(Arc::new) }
    }

    /// Updates a remote session from its current state; `None` says that it has ended. The session
    /// also ends if its holder's rights have changed: a reader has to connect again.
    pub fn refresh(now: Option<Self>, known: &SignedIn) {
        match now {
            Some(now) if now.person.as_ref().map(rights) == known.person.as_deref().map(rights) => {
                known.session.seen_again(&now.session);
            }
            _ => known.session.end(),
        }
    }
}

/// Returns the fields that decide what a person may do. The name and the last use of the
/// authenticator do not.
fn rights(person: &Person) -> (PersonId, [bool; 3], &[Membership]) {
    let marks = [person.operator, person.disabled, person.has_authenticator()];
    (person.id, marks, &person.memberships)
}

#[cfg(test)]
mod tests {
    use postrider_domain::{MasterKeys, Timestamp};

    use super::*;
    use crate::authenticator::{Authenticator, SECRET_BYTES};
    use crate::person::Login;
    use crate::role::Role;
    use crate::session::SessionHolder;
    use crate::token::TokenHash;

    fn session(person: &Person) -> RemoteSession {
        let at = Timestamp::from_millis(1_000);
        let session = SessionRecord {
            id: postrider_runtime::random::session_id(at),
            holder: SessionHolder::Person(person.id),
            hash: TokenHash::of("token"),
            created_at: at,
            seen_at: at,
            ends_at: Timestamp::from_millis(1_000_000),
            user_agent: "test".into(),
            address: "192.0.2.7".into(),
            elevated_until: None,
        };
        RemoteSession { session, person: Some(person.clone()) }
    }

    fn with_code_of(person: Person, step: u64) -> Person {
        let keys = MasterKeys::single([7; 32]);
        let (authenticator, _) = Authenticator::new(&keys, person.id, &[1; SECRET_BYTES], step);
        Person { authenticator: Some(authenticator), ..person }
    }

    #[test]
    fn a_session_ends_when_its_holder_may_do_something_else_and_not_when_a_code_was_used() {
        let (at, email) = (Timestamp::from_millis(1_000), Login::new("ada@acme.com").unwrap());
        let ada = Person::new(postrider_runtime::random::person_id(at), email, at);
        let acme = "acme".parse().unwrap();
        let ada = with_code_of(ada.with_role(&acme, Some(Role::Agent)), 1);
        let goes_on = |now: Option<Person>| {
            let known = session(&ada).signed_in();
            RemoteSession::refresh(now.as_ref().map(session), &known);
            known.session.goes_on(at, std::time::Duration::from_secs(60))
        };
        assert!(goes_on(Some(ada.clone())));
        assert!(goes_on(Some(with_code_of(ada.clone(), 2))));
        assert!(goes_on(Some(Person { name: "Ada".into(), ..ada.clone() })));
        for other in [
            ada.clone().with_role(&acme, Some(Role::Owner)),
            ada.clone().with_role(&acme, None),
            Person { operator: true, ..ada.clone() },
            Person { disabled: true, ..ada.clone() },
            Person { authenticator: None, ..ada.clone() },
        ] {
            assert!(!goes_on(Some(other)));
        }
        assert!(!goes_on(None));
    }
}

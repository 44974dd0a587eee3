//! Sets authenticators up, and removes them.

use std::sync::Arc;

use postrider_domain::{AuditContext, AuditEntry};
use postrider_runtime::random;
use postrider_runtime::sealed::Secret;
use postrider_runtime::task::detached;

use crate::authenticator::{self, Authenticator};
use crate::changes::Update;
use crate::directory::People;
use crate::error::PeopleError;
use crate::person::Person;
use crate::session::SignedIn;
use crate::sign_in;

/// People's authenticators.
#[derive(Debug)]
pub struct Authenticators(People);

impl Authenticators {
    /// Returns the authenticators of these people.
    #[must_use]
    pub fn of(people: &People) -> Self {
        Self(people.clone())
    }

    /// Returns a new secret for a person, in Base32. It counts once [`confirm`](Self::confirm) has
    /// verified a code of it.
    ///
    /// # Errors
    /// [`PeopleError`]: the person has an authenticator, or their session has ended.
    pub fn begin(&self, who: &SignedIn) -> Result<Secret, PeopleError> {
        let person = self.0.current_person(who)?;
        if person.has_authenticator() {
            return Err(PeopleError::HasAuthenticator);
        }
        let (now, secret) = (self.0.inner.clock.real(), random::bytes());
        self.0.inner.enrolments.lock().show(person.id, secret, now);
        Ok(Secret::new(authenticator::base32(&secret)))
    }

    /// Confirms the last secret by a code of it. Returns the recovery codes, which are shown here
    /// and never again.
    ///
    /// # Errors
    /// [`PeopleError`]: the code is wrong, there were too many tries, no authenticator is being set
    /// up, or the change cannot be made now.
    pub async fn confirm(
        &self,
        who: &SignedIn,
        code: &str,
        by: Arc<AuditContext>,
    ) -> Result<Vec<Secret>, PeopleError> {
        let (people, who, code) = (self.0.clone(), who.clone(), code.to_owned());
        detached(async move {
            let _changing = people.hold().await;
            let now = people.inner.clock.real();
            let person = people.current_person(&who)?;
            let id = person.id;
            let secret = people.inner.enrolments.lock().shown(id, now);
            let secret = secret.ok_or(PeopleError::NoAuthenticator)?;
            sign_in::note_code_try(&people, &person)?;
            let step = authenticator::step_of(&secret, &code, now);
            let step = step.ok_or(PeopleError::WrongCode)?;
            sign_in::clear_code_tries(&people, &person);
            let keys = &people.inner.keys;
            let (authenticator, codes) = Authenticator::new(keys, id, &secret, step);
            let person = Person { authenticator: Some(authenticator), ..(*person).clone() };
            let entry = AuditEntry::new("totp.create").target(id);
            people.commit(Update::of(person).entry(entry), &by).await?;
            people.inner.enrolments.lock().confirmed(id);
            Ok(codes)
        })
        .await
    }

    /// Removes a person's authenticator.
    ///
    /// # Errors
    /// [`PeopleError`]: the person has none, or the change cannot be made now.
    pub async fn remove(&self, who: &SignedIn, by: Arc<AuditContext>) -> Result<(), PeopleError> {
        let (people, who) = (self.0.clone(), who.clone());
        detached(async move {
            let _changing = people.hold().await;
            let person = people.current_person(&who)?;
            let id = person.id;
            if !person.has_authenticator() {
                return Err(PeopleError::NoAuthenticator);
            }
            let person = Person { authenticator: None, ..(*person).clone() };
            let entry = AuditEntry::new("totp.delete").target(id);
            people.commit(Update::of(person).entry(entry), &by).await?;
            Ok(())
        })
        .await
    }
}

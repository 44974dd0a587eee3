//! Setting authenticators up, and proving by one who somebody is.

use std::sync::Arc;

use postrider_domain::{AuditContext, AuditEntry};
use postrider_runtime::random;
use postrider_runtime::secret::Secret;
use postrider_runtime::task::detached;

use crate::authenticator::{self, Authenticator};
use crate::changes::Update;
use crate::checking;
use crate::directory::People;
use crate::error::PeopleError;
use crate::person::Person;
use crate::signed_in::SignedIn;

/// People's authenticators.
#[derive(Debug)]
pub struct Authenticators(People);

impl Authenticators {
    /// Those of these people.
    #[must_use]
    pub fn of(people: &People) -> Self {
        Self(people.clone())
    }

    /// Shows somebody a new secret, in Base32. It counts once [`confirm`](Self::confirm) has seen a
    /// code of it.
    ///
    /// # Errors
    /// [`PeopleError`]: they have one, or their session has ended.
    pub fn begin(&self, who: &SignedIn) -> Result<Secret, PeopleError> {
        let person = self.0.present(who)?;
        if person.has_authenticator() {
            return Err(PeopleError::HasAuthenticator);
        }
        let (now, secret) = (self.0.inner.clock.real(), random::bytes());
        self.0.inner.enrolments.lock().show(person.id, secret, now);
        Ok(Secret::new(authenticator::base32(&secret)))
    }

    /// Confirms the secret that was shown last by a code of it. Gives the recovery codes, which are
    /// shown here and never again.
    ///
    /// # Errors
    /// [`PeopleError`]: the code is wrong, too many were, none is being set up, or not now.
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
            let person = people.present(&who)?;
            let id = person.id;
            let secret = people.inner.enrolments.lock().shown(id, now);
            let secret = secret.ok_or(PeopleError::NoAuthenticator)?;
            checking::note_code(&people, &person)?;
            let step = authenticator::step_of(&secret, &code, now);
            let step = step.ok_or(PeopleError::WrongCode)?;
            checking::right_code(&people, &person);
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

    /// Removes somebody's authenticator.
    ///
    /// # Errors
    /// [`PeopleError`]: they have none, or not now.
    pub async fn remove(&self, who: &SignedIn, by: Arc<AuditContext>) -> Result<(), PeopleError> {
        let (people, who) = (self.0.clone(), who.clone());
        detached(async move {
            let _changing = people.hold().await;
            let person = people.present(&who)?;
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

//! Making people, their memberships, links and passwords.

use std::sync::Arc;

use postrider_domain::{AuditContext, AuditEntry, PersonId, Timestamp, WorkspaceId};
use postrider_runtime::random;
use postrider_runtime::secret::Secret;
use postrider_runtime::task::detached;
use postrider_store::Change;
use postrider_store::view::audit::record_change;
use tokio::sync::MutexGuard;

use crate::directory::{People, SignedIn};
use crate::error::PeopleError;
use crate::link::{Link, WORKS_FOR};
use crate::password::Password;
use crate::person::{Login, Person};
use crate::role::Role;
use crate::session::SessionHolder;
use crate::token::{self, TokenHash};

/// A link that was made. Its token is shown here and never again.
#[derive(Debug, Clone)]
pub struct NewLink {
    /// Whom it signs in.
    pub person: PersonId,
    /// What it carries.
    pub token: Secret,
    /// When it stops working, in real time.
    pub expires_at: Timestamp,
}

impl People {
    /// Makes a link that signs somebody in, once, within 15 minutes. The link before does not work
    /// any more. Who is not there is made. `operator` makes them one, and `member` gives them a
    /// role in a workspace, which the caller has checked to be there.
    ///
    /// # Errors
    /// [`PeopleError`]: they are disabled, or not now.
    pub async fn create_link(
        &self,
        email: Login,
        operator: bool,
        member: Option<(WorkspaceId, Role)>,
        by: Arc<AuditContext>,
    ) -> Result<NewLink, PeopleError> {
        let people = self.clone();
        detached(async move {
            let _changing = people.inner.changes.lock().await;
            let (real, now) = (people.inner.clock.real(), people.inner.clock.now());
            let known = people.of_email(&email);
            let mut person = match &known {
                Some(known) if known.disabled => return Err(PeopleError::Disabled),
                Some(known) => (**known).clone(),
                None => Person::new(random::person_id(real), email, now),
            };
            let mut entries = Vec::new();
            let before = person.clone();
            if operator && !person.operator {
                person.operator = true;
                let entry = AuditEntry::new("user.update").target(person.id);
                entries.extend(known.is_some().then(|| entry.change("operator", true)));
            }
            if known.is_none() {
                entries.push(person.created_entry());
            }
            if let Some((workspace, role)) = member
                && person.role_in(&workspace) != Some(role)
            {
                let entry = AuditEntry::new("member.set").target(person.id).workspace(&workspace);
                entries.push(entry.change("role", role));
                person = person.with_role(&workspace, Some(role));
            }
            let token = token::create();
            let expires_at = real.plus(WORKS_FOR);
            let hash = TokenHash::of(token.reveal());
            let link = Link { person: person.id, hash, ends_at: expires_at };
            entries.push(AuditEntry::new("link.create").target(person.id));
            let mut changes = vec![person.put(), link.put()];
            // Whoever may do more has to sign in again.
            let is_changed = known.is_some() && person != before;
            let holder = SessionHolder::Person(person.id);
            let ended = if is_changed { people.sessions_of(&holder) } else { Vec::new() };
            changes.extend(ended.iter().map(|session| session.record().delete()));
            changes.extend(
                entries
                    .into_iter()
                    .map(|entry| record_change(now, &entry.record(random::audit_id(now), &by))),
            );
            people.inner.writer.commit(changes).await?;
            people.inner.links.insert(person.id, link);
            let id = person.id;
            people.insert(person);
            ended.iter().for_each(|session| people.forget_session(session.id()));
            Ok(NewLink { person: id, token, expires_at })
        })
        .await
    }

    /// Disables somebody, or no longer. The sessions and the link of who is disabled end at once.
    ///
    /// # Errors
    /// [`PeopleError`]: there is nobody of this id, or not now.
    pub async fn set_disabled(
        &self,
        id: PersonId,
        disabled: bool,
        by: Arc<AuditContext>,
    ) -> Result<Arc<Person>, PeopleError> {
        let people = self.clone();
        detached(async move {
            let _changing = people.inner.changes.lock().await;
            let now = people.inner.clock.now();
            let person = people.person(id).ok_or(PeopleError::NoSuchPerson)?;
            let person = Person { disabled, ..(*person).clone() };
            let entry = AuditEntry::new("user.update").target(id).change("disabled", disabled);
            let entry = entry.record(random::audit_id(now), &by);
            let mut changes = vec![person.put(), record_change(now, &entry)];
            let holder = SessionHolder::Person(id);
            let ended = if disabled { people.sessions_of(&holder) } else { Vec::new() };
            changes.extend(ended.iter().map(|session| session.record().delete()));
            let link = people.inner.links.get(&id).map(|link| *link).filter(|_| disabled);
            changes.extend(link.iter().map(Link::delete));
            people.inner.writer.commit(changes).await?;
            people.insert(person);
            ended.iter().for_each(|session| people.forget_session(session.id()));
            if link.is_some() {
                people.inner.links.remove(&id);
            }
            people.person(id).ok_or(PeopleError::NoSuchPerson)
        })
        .await
    }

    /// Sets the password of somebody who is signed in, and ends their other sessions. Who has one
    /// gives it, unless they signed in recently.
    ///
    /// # Errors
    /// [`PeopleError`]: the current one is wrong, too many were, or not now.
    pub async fn set_password(
        &self,
        who: &SignedIn,
        current: Option<&str>,
        new: Password,
        by: Arc<AuditContext>,
    ) -> Result<(), PeopleError> {
        let person = who.person.clone().ok_or(PeopleError::NoSuchPerson)?;
        match current {
            Some(current) => self.elevate(who, current).await?,
            None if self.is_elevated(&who.session) => {}
            None => return Err(PeopleError::Refused),
        }
        let hash = self.inner.hashing.hash(new).await?;
        let (people, id, kept) = (self.clone(), person.id, who.session.id());
        detached(async move {
            let _changing = people.inner.changes.lock().await;
            let now = people.inner.clock.now();
            let person = people.person(id).ok_or(PeopleError::NoSuchPerson)?;
            let person = Person { password: Some(hash), ..(*person).clone() };
            let entry = AuditEntry::new("password.set").target(id);
            let entry = entry.record(random::audit_id(now), &by);
            let mut changes = vec![person.put(), record_change(now, &entry)];
            let own = people.sessions_of(&SessionHolder::Person(id));
            let ended: Vec<_> = own.into_iter().filter(|session| session.id() != kept).collect();
            changes.extend(ended.iter().map(|session| session.record().delete()));
            people.inner.writer.commit(changes).await?;
            people.insert(person);
            ended.iter().for_each(|session| people.forget_session(session.id()));
            Ok(())
        })
        .await
    }

    /// Holds back every change of people, for a commit that changes them with something else.
    pub async fn hold(&self) -> MutexGuard<'_, ()> {
        self.inner.changes.lock().await
    }

    /// The changes that end everybody's membership of a workspace that is deleted. Needs
    /// [`hold`](Self::hold).
    #[must_use]
    pub fn deletions_of(&self, workspace: &WorkspaceId) -> Vec<Change> {
        self.without(workspace).iter().map(Person::put).collect()
    }

    /// Nobody is a member of a workspace that was deleted.
    pub fn forget_all_of(&self, workspace: &WorkspaceId) {
        self.without(workspace).into_iter().for_each(|person| self.insert(person));
    }

    fn without(&self, workspace: &WorkspaceId) -> Vec<Person> {
        let members = self.list().into_iter().filter(|it| it.role_in(workspace).is_some());
        members.map(|person| (*person).clone().with_role(workspace, None)).collect()
    }
}

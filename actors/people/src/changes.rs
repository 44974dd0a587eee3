//! Creates and changes people, their memberships, links and passwords.

use std::sync::Arc;

use postrider_domain::{AuditContext, AuditEntry, PersonId, SessionId, Timestamp, WorkspaceId};
use postrider_runtime::random;
use postrider_runtime::sealed::Secret;
use postrider_runtime::task::detached;
use postrider_store::Change;
use postrider_store::audit_chain::record_change;
use tokio::sync::MutexGuard;

use crate::authenticator::totp_requirement;
use crate::directory::People;
use crate::error::PeopleError;
use crate::link::{LINK_WORKS_FOR, Link};
use crate::password::Password;
use crate::permission::Role;
use crate::person::{Login, Person};
use crate::session::{Session, SessionHolder, SignedIn};
use crate::sign_in;
use crate::sign_in_attempts::SignInAttempt;
use crate::token::{self, TokenHash};

/// A new link. Its token is shown here and never again.
#[derive(Debug, Clone)]
pub struct NewLink {
    /// The person whom the link signs in.
    pub person: PersonId,
    /// The link's token.
    pub token: Secret,
    /// The time at which the link expires, in real time.
    pub expires_at: Timestamp,
}

/// The changes to a person. A field that is `None` keeps its value.
#[derive(Debug, Clone, Default)]
pub struct PersonChange {
    /// The name that others see.
    pub name: Option<Box<str>>,
    /// Set if the person may do everything on this server.
    pub operator: Option<bool>,
    /// Set if the person may not sign in.
    pub disabled: Option<bool>,
}

/// The changes to a person in one commit.
pub(crate) struct Update {
    person: Person,
    entries: Vec<AuditEntry>,
    ended: Vec<Arc<Session>>,
    other_changes: Vec<Change>,
}

impl Update {
    pub(crate) const fn of(person: Person) -> Self {
        Self { person, entries: Vec::new(), ended: Vec::new(), other_changes: Vec::new() }
    }

    pub(crate) fn entry(mut self, entry: AuditEntry) -> Self {
        self.entries.push(entry);
        self
    }

    pub(crate) fn entries(mut self, entries: impl IntoIterator<Item = AuditEntry>) -> Self {
        self.entries.extend(entries);
        self
    }

    pub(crate) fn ends(self, ended: Vec<Arc<Session>>) -> Self {
        Self { ended, ..self }
    }

    pub(crate) fn with(mut self, changes: impl Iterator<Item = Change>) -> Self {
        self.other_changes.extend(changes);
        self
    }
}

impl People {
    /// Makes a link that signs a person in once, within 15 minutes. Their earlier link stops
    /// working.
    ///
    /// If there is no person of this address, the call makes one. `operator` makes the person an
    /// operator. `member` gives them a role in a workspace, which the caller has checked to exist.
    /// A person who gains a role in this way may have an address for which only an invite has
    /// vouched. Such a person loses the password and the authenticator.
    ///
    /// # Errors
    /// [`PeopleError`]: the person is disabled, or the change cannot be made now.
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
            if person != before && person.unproven {
                person = person.vouched_for();
                entries.push(AuditEntry::new("password.delete").target(person.id));
            }
            let token = token::create();
            let expires_at = real.plus(LINK_WORKS_FOR);
            let hash = TokenHash::of(token.reveal());
            let link = Link { person: person.id, hash, ends_at: expires_at };
            entries.push(AuditEntry::new("link.create").target(person.id));
            // A person whose permissions change has to sign in again.
            let is_changed = known.is_some() && person != before;
            let ended =
                if is_changed { people.sessions_except(person.id, None) } else { Vec::new() };
            let (id, put) = (person.id, [link.put()]);
            let update = Update { person, entries, ended, other_changes: put.into() };
            people.commit(update, &by).await?;
            people.inner.links.insert(id, link);
            Ok(NewLink { person: id, token, expires_at })
        })
        .await
    }

    /// Changes a person. The sessions and the link of a disabled person end at once.
    ///
    /// A person who becomes an operator, or stops being one, signs in again, but not in the session
    /// `kept`. An operator loses the password and the authenticator if only an invite has vouched
    /// for the address.
    ///
    /// # Errors
    /// [`PeopleError`]: there is no person of this id, or the change cannot be made now.
    pub async fn update(
        &self,
        id: PersonId,
        change: PersonChange,
        kept: Option<SessionId>,
        by: Arc<AuditContext>,
    ) -> Result<Arc<Person>, PeopleError> {
        let people = self.clone();
        detached(async move {
            let _changing = people.inner.changes.lock().await;
            let before = people.person(id).ok_or(PeopleError::NoSuchPerson)?;
            let PersonChange { name, operator, disabled } = change;
            let person = Person {
                name: name.clone().unwrap_or_else(|| before.name.clone()),
                operator: operator.unwrap_or(before.operator),
                disabled: disabled.unwrap_or(before.disabled),
                ..(*before).clone()
            };
            if person == *before {
                return Ok(before);
            }
            let is_vouched_for = person.operator && person.unproven;
            let person = if is_vouched_for { person.vouched_for() } else { person };
            let entry = AuditEntry::new("user.update").target(id);
            let entry = entry.change_if_some("name", name).change_if_some("operator", operator);
            let mut entry = entry.change_if_some("disabled", disabled);
            entry.replaces("name", &before.name);
            entry.replaces("operator", before.operator);
            entry.replaces("disabled", before.disabled);
            let ended = match (person.disabled, person.operator == before.operator) {
                (true, _) => people.sessions_except(id, None),
                (false, false) => people.sessions_except(id, kept),
                (false, true) => Vec::new(),
            };
            let link = people.inner.links.get(&id).map(|link| *link).filter(|_| person.disabled);
            let dropped = AuditEntry::new("password.delete").target(id);
            let dropped = is_vouched_for.then_some(dropped);
            let update = Update::of(person).entry(entry).entries(dropped).ends(ended);
            let changed = people.commit(update.with(link.iter().map(Link::delete)), &by).await?;
            if link.is_some() {
                people.inner.links.remove(&id);
            }
            Ok(changed)
        })
        .await
    }

    /// Sets the password of a person who is signed in, and ends their other sessions. A person with
    /// a password gives the current one, unless they signed in recently.
    ///
    /// # Errors
    /// [`PeopleError`]: the current password is wrong, there were too many tries, or the change
    /// cannot be made now.
    pub async fn set_password(
        &self,
        who: &SignedIn,
        current: Option<&str>,
        new: Password,
        by: Arc<AuditContext>,
    ) -> Result<(), PeopleError> {
        let person = who.person.as_ref().and_then(|person| self.person(person.id));
        let person = person.ok_or(PeopleError::NoSuchPerson)?;
        let attempt = SignInAttempt::in_session(who.session.id());
        match current {
            Some(current) => {
                let current = Password::typed(current);
                sign_in::check_password(self, &attempt, Some(&person), current).await?;
                if !person.has_authenticator() {
                    self.elevate_now(&who.session);
                }
            }
            None if self.is_elevated(&who.session) => {}
            None => return Err(PeopleError::Refused),
        }
        let hash = self.inner.hashing.place(&attempt.asker)?.hash(new).await?;
        let (people, who) = (self.clone(), who.clone());
        detached(async move {
            let _changing = people.inner.changes.lock().await;
            let person = people.current_person(&who)?;
            let id = person.id;
            let person = Person { password: Some(hash), ..(*person).clone() };
            let update = Update::of(person).entry(AuditEntry::new("password.set").target(id));
            let ended = people.sessions_except(id, Some(who.session.id()));
            people.commit(update.ends(ended), &by).await.map(|_| ())
        })
        .await
    }

    /// Commits the changes to a person, then applies them in memory. Needs [`hold`](Self::hold).
    pub(crate) async fn commit(
        &self,
        update: Update,
        by: &AuditContext,
    ) -> Result<Arc<Person>, PeopleError> {
        let Update { person, entries, ended, other_changes } = update;
        let now = self.inner.clock.now();
        let mut changes = vec![person.put()];
        changes.extend(other_changes);
        changes.extend(ended.iter().map(|session| session.record().delete()));
        let records = entries.into_iter().map(|it| it.record(random::audit_id(now), by));
        changes.extend(records.map(|record| record_change(now, &record)));
        self.inner.writer.commit(changes).await?;
        let id = person.id;
        self.insert(person);
        ended.iter().for_each(|session| self.forget_session(session.id()));
        self.person(id).ok_or(PeopleError::NoSuchPerson)
    }

    /// Returns the person's sessions except one.
    pub(crate) fn sessions_except(
        &self,
        id: PersonId,
        kept: Option<SessionId>,
    ) -> Vec<Arc<Session>> {
        let own = self.sessions_of(&SessionHolder::Person(id)).into_iter();
        own.filter(|session| Some(session.id()) != kept).collect()
    }

    /// Locks all changes of people, for a commit that changes them with something else.
    pub async fn hold(&self) -> MutexGuard<'_, ()> {
        self.inner.changes.lock().await
    }

    /// Returns the changes that end all memberships of a deleted workspace. Needs
    /// [`hold`](Self::hold).
    #[must_use]
    pub fn deletions_of(&self, workspace: &WorkspaceId) -> Vec<Change> {
        let mut changes: Vec<_> =
            self.without_membership_in(workspace).iter().map(Person::put).collect();
        let invites = self.inner.invites.iter().filter(|it| it.workspace == *workspace);
        changes.extend(invites.map(|it| it.delete()));
        changes.push(totp_requirement(workspace, false));
        changes
    }

    /// Removes all memberships of a deleted workspace from memory.
    pub fn forget_all_of(&self, workspace: &WorkspaceId) {
        self.without_membership_in(workspace).into_iter().for_each(|person| self.insert(person));
        self.inner.invites.retain(|_, invite| invite.workspace != *workspace);
        self.inner.strict.remove(workspace);
    }

    /// Ends all memberships of another engine's workspace, and its invites, if it does not exist.
    ///
    /// The call awaits `is_there` only if the workspace has members, and while no person can become
    /// one. If the workspace does not exist, these members belonged to an earlier workspace of this
    /// name. Returns `false` if it is unknown whether the workspace exists; then nothing changes.
    ///
    /// # Errors
    /// [`PeopleError`]: the change cannot be made now.
    pub async fn forget_workspace(
        &self,
        workspace: WorkspaceId,
        is_there: impl Future<Output = Option<bool>> + Send + 'static,
    ) -> Result<bool, PeopleError> {
        let people = self.clone();
        detached(async move {
            let _changing = people.hold().await;
            if !people.has_members_or_invites(&workspace) {
                return Ok(true);
            }
            match is_there.await {
                None => return Ok(false),
                Some(true) => return Ok(true),
                Some(false) => {}
            }
            people.inner.writer.commit(people.deletions_of(&workspace)).await?;
            people.forget_all_of(&workspace);
            Ok(true)
        })
        .await
    }

    fn has_members_or_invites(&self, workspace: &WorkspaceId) -> bool {
        let inner = &self.inner;
        inner.people.iter().any(|it| it.role_in(workspace).is_some())
            || inner.invites.iter().any(|it| it.workspace == *workspace)
    }

    fn without_membership_in(&self, workspace: &WorkspaceId) -> Vec<Person> {
        let members = self.list().into_iter().filter(|it| it.role_in(workspace).is_some());
        members.map(|person| (*person).clone().with_role(workspace, None)).collect()
    }
}

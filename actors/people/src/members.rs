//! Members of a workspace: their roles, the invites that make them, and joining by an invite.
//!
//! A person joins with a new account or an existing one.

use std::sync::Arc;

use postrider_domain::{
    AuditContext, AuditEntry, InviteId, PersonId, SessionId, Timestamp, WorkspaceId,
};
use postrider_runtime::random;
use postrider_runtime::sealed::Secret;
use postrider_runtime::task::detached;
use postrider_store::audit_chain::record_change;

use crate::authenticator::totp_requirement;
use crate::changes::Update;
use crate::directory::People;
use crate::error::PeopleError;
use crate::link::{INVITE_WORKS_FOR, Invite};
use crate::password::{Password, PasswordHash};
use crate::permission::{Permission, Role};
use crate::person::{Login, Person};
use crate::session::{SessionHolder, SignedIn};
use crate::sign_in::{self, Arrival, NewSession, Proof};
use crate::token::{self, TokenHash};

/// The maximum number of open invites of a workspace.
const INVITES_MAX: usize = 200;

/// The person or token that manages the members of a workspace.
#[derive(Debug, Clone)]
pub struct Manager {
    /// The manager's identity in the audit log.
    pub context: Arc<AuditContext>,
    /// Set if the manager may make and unmake owners.
    pub owners: bool,
    /// Set if the manager acts as the server's operator, or with an admin token.
    pub operates: bool,
    /// The manager's id, if a person manages.
    pub person: Option<PersonId>,
    /// The manager's own session, which none of the changes ends.
    pub session: Option<SessionId>,
}

/// A new invite. Its token is shown here and never again.
#[derive(Debug, Clone)]
pub struct NewInvite {
    /// The invite.
    pub invite: Invite,
    /// The invite's token.
    pub token: Secret,
}

/// The request of a person who accepts an invite.
#[derive(Debug, Clone)]
pub struct Joining {
    /// The invite's token.
    pub token: String,
    /// The name that others will see.
    pub name: Box<str>,
    /// The password: a new one, or the one of the existing account.
    pub password: Password,
    /// The person who is signed in already in the same browser.
    pub signed_in: Option<SignedIn>,
    /// The browser and the network address of the request.
    pub arrival: Arrival,
}

/// The members of workspaces.
#[derive(Debug)]
pub struct Members(People);

impl Members {
    /// Returns the members among these people.
    #[must_use]
    pub fn of(people: &People) -> Self {
        Self(people.clone())
    }

    /// Returns the members of a workspace with their roles, in the order of their creation.
    #[must_use]
    pub fn list(&self, workspace: &WorkspaceId) -> Vec<(Arc<Person>, Role)> {
        let all = self.0.list().into_iter();
        all.filter_map(|person| person.role_in(workspace).map(|role| (person, role))).collect()
    }

    /// Returns the open invites to a workspace, in the order of their creation.
    #[must_use]
    pub fn invites(&self, workspace: &WorkspaceId) -> Vec<Invite> {
        let now = self.0.inner.clock.real();
        let open = |it: &Invite| it.workspace == *workspace && self.is_open(it, now);
        let all = self.0.inner.invites.iter().filter(|it| open(it));
        let mut all: Vec<_> = all.map(|it| it.clone()).collect();
        all.sort_unstable_by_key(|it| it.id);
        all
    }

    /// Gives a member another role; `None` ends the membership. A member with another role signs in
    /// again. If an operator gives more permissions, and only an invite has vouched for the
    /// address, the password and the authenticator are removed.
    ///
    /// # Errors
    /// [`PeopleError`]: the person is no member or the last owner, the manager lacks the
    /// permission, or the change cannot be made now.
    pub async fn set_role(
        &self,
        workspace: WorkspaceId,
        id: PersonId,
        role: Option<Role>,
        by: Manager,
    ) -> Result<Arc<Person>, PeopleError> {
        let people = self.0.clone();
        detached(async move {
            let _changing = people.hold().await;
            let person = people.person(id).ok_or(PeopleError::NoSuchPerson)?;
            let before = person.role_in(&workspace).ok_or(PeopleError::NoSuchPerson)?;
            if Some(before) == role {
                return Ok(person);
            }
            let is_of_owners = before == Role::Owner || role == Some(Role::Owner);
            if is_of_owners && !by.owners {
                return Err(PeopleError::OwnersOnly);
            }
            if before == Role::Owner && !Self(people.clone()).has_owner_beside(&workspace, id) {
                return Err(PeopleError::LastOwner);
            }
            let action = if role.is_some() { "member.set" } else { "member.delete" };
            let entry = AuditEntry::new(action).target(id).workspace(&workspace);
            let mut entry = entry.change_if_some("role", role);
            entry.replaces("role", before);
            let ended = match role {
                Some(_) => people.sessions_except(id, by.session),
                // A member who leaves loses access to this workspace only; the sessions stay for
                // the others.
                None => Vec::new(),
            };
            let changed = (*person).clone().with_role(&workspace, role);
            let rises = role.is_some_and(|role| role.may_more_than(before));
            let is_vouched_for = by.operates && rises && person.unproven;
            let changed = if is_vouched_for { changed.vouched_for() } else { changed };
            let dropped = AuditEntry::new("password.delete").target(id);
            let entries = [Some(entry), is_vouched_for.then_some(dropped)].into_iter().flatten();
            people.commit(Update::of(changed).entries(entries).ends(ended), &by.context).await
        })
        .await
    }

    fn has_owner_beside(&self, workspace: &WorkspaceId, id: PersonId) -> bool {
        let mut others = self.list(workspace).into_iter().filter(|(person, _)| person.id != id);
        others.any(|(person, role)| role == Role::Owner && !person.disabled)
    }

    /// Invites a person to a workspace. The address's earlier invite to the workspace stops
    /// working. `is_there` says whether the workspace still exists.
    ///
    /// # Errors
    /// [`PeopleError`]: the person is a member, there are too many invites, the manager lacks the
    /// permission, or the change cannot be made now.
    pub async fn invite(
        &self,
        workspace: WorkspaceId,
        email: Login,
        role: Role,
        is_there: impl Fn(&WorkspaceId) -> bool + Send + 'static,
        by: Manager,
    ) -> Result<NewInvite, PeopleError> {
        if role == Role::Owner && !by.owners {
            return Err(PeopleError::OwnersOnly);
        }
        let people = self.0.clone();
        detached(async move {
            let _changing = people.hold().await;
            if !is_there(&workspace) {
                return Err(PeopleError::NoSuchWorkspace);
            }
            let known = people.of_email(&email);
            if known.is_some_and(|known| known.role_in(&workspace).is_some()) {
                return Err(PeopleError::AlreadyMember);
            }
            let open = Self(people.clone()).invites(&workspace);
            let (before, others): (Vec<_>, Vec<_>) =
                open.into_iter().partition(|it| it.email == email);
            if !by.owners && before.iter().any(|it| it.role == Role::Owner) {
                return Err(PeopleError::OwnersOnly);
            }
            if others.len() >= INVITES_MAX {
                return Err(PeopleError::TooManyInvites(INVITES_MAX));
            }
            let (real, now) = (people.inner.clock.real(), people.inner.clock.now());
            let token = token::create();
            let invite = Invite {
                id: random::invite_id(real),
                workspace,
                role,
                email,
                ends_at: real.plus(INVITE_WORKS_FOR),
                hash: TokenHash::of(token.reveal()),
                by: by.person,
            };
            let entry = AuditEntry::new("invite.create").target(invite.id);
            let entry = entry.workspace(&invite.workspace).change("role", role);
            let entry = entry.change("email", invite.email.as_str());
            let mut changes: Vec<_> = before.iter().map(Invite::delete).collect();
            changes.push(invite.put());
            let record = entry.record(random::audit_id(now), &by.context);
            changes.push(record_change(now, &record));
            people.inner.writer.commit(changes).await?;
            before.iter().for_each(|it| drop(people.inner.invites.remove(&it.id)));
            people.inner.invites.insert(invite.id, invite.clone());
            Ok(NewInvite { invite, token })
        })
        .await
    }

    /// Revokes an invite.
    ///
    /// # Errors
    /// [`PeopleError`]: the workspace has no invite of this id, or the change cannot be made now.
    pub async fn revoke(
        &self,
        workspace: WorkspaceId,
        id: InviteId,
        by: Manager,
    ) -> Result<(), PeopleError> {
        let people = self.0.clone();
        detached(async move {
            let _changing = people.hold().await;
            let now = people.inner.clock.now();
            let found = people.inner.invites.get(&id).map(|it| it.clone());
            let found = found.filter(|it| it.workspace == workspace);
            let invite = found.ok_or(PeopleError::NoSuchInvite)?;
            if invite.role == Role::Owner && !by.owners {
                return Err(PeopleError::OwnersOnly);
            }
            let entry = AuditEntry::new("invite.delete").target(id).workspace(&workspace);
            let record = entry.record(random::audit_id(now), &by.context);
            let changes = vec![invite.delete(), record_change(now, &record)];
            people.inner.writer.commit(changes).await?;
            people.inner.invites.remove(&id);
            Ok(())
        })
        .await
    }

    /// Returns the workspace of an invite, or `None` if the invite is unknown, used or too old.
    #[must_use]
    pub fn invited_to(&self, token: &str) -> Option<WorkspaceId> {
        self.open_invite(TokenHash::of(token)).map(|invite| invite.workspace)
    }

    fn open_invite(&self, hash: TokenHash) -> Option<Invite> {
        let now = self.0.inner.clock.real();
        let mut all = self.0.inner.invites.iter();
        all.find(|it| it.hash == hash && self.is_open(it, now)).map(|it| it.clone())
    }

    /// Returns whether an invite works: it is not too old, and its creator may still invite.
    fn is_open(&self, invite: &Invite, now: Timestamp) -> bool {
        let may = |person: &Person| {
            let role = person.role_in(&invite.workspace);
            let may = role.map(|role| role.permissions(false)).unwrap_or_default();
            let needed = match invite.role {
                Role::Owner => Permission::OwnersManage,
                _ => Permission::PeopleManage,
            };
            !person.disabled && (person.operator || may.contains(needed))
        };
        let by = invite.by.map(|id| self.0.person(id));
        now < invite.ends_at && by.is_none_or(|by| by.is_some_and(|by| may(&by)))
    }

    /// Makes the person with an invite a member, and signs them in.
    ///
    /// If the address has no account, the call makes one. The person with an existing account
    /// proves that it is theirs. An invite alone proves nothing of an address, as the inviter sees
    /// it too. If only invites have vouched for the address, its other sessions end.
    ///
    /// # Errors
    /// [`PeopleError`]: the invite is unknown, used or too old, the account is another person's, or
    /// the change cannot be made now.
    pub async fn join(&self, joining: Joining) -> Result<NewSession, PeopleError> {
        let people = self.0.clone();
        detached(async move {
            let hash = TokenHash::of(&joining.token);
            let members = Self(people.clone());
            let invite = members.open_invite(hash).ok_or(PeopleError::Refused)?;
            let known = people.of_email(&invite.email);
            let password = match &known {
                Some(known) => {
                    prove_ownership(&people, known, &joining).await?;
                    None
                }
                None => {
                    let account = invite.email.as_str();
                    let attempt =
                        sign_in::password_attempt(&people, None, account, &joining.arrival);
                    let place = people.inner.hashing.place(&attempt.asker)?;
                    Some(place.hash(joining.password.clone()).await?)
                }
            };
            let _changing = people.hold().await;
            // The invite may have been used, or the account changed, during the check of the
            // password.
            let invite = members.open_invite(hash).ok_or(PeopleError::Refused)?;
            let before = people.of_email(&invite.email);
            if before.is_some() != known.is_some() || before != known {
                return Err(PeopleError::Refused);
            }
            if let Some(who) = proving_session(&joining, before.as_deref()) {
                people.current_person(who)?;
            }
            add_member(&people, &invite, before, password, joining).await
        })
        .await
    }

    /// Sets whether the members of a workspace need an authenticator.
    ///
    /// # Errors
    /// [`PeopleError::Unavailable`]
    pub async fn require_totp(
        &self,
        workspace: WorkspaceId,
        required: bool,
        by: Arc<AuditContext>,
    ) -> Result<(), PeopleError> {
        let people = self.0.clone();
        detached(async move {
            let _changing = people.hold().await;
            if people.requires_totp(&workspace) == required {
                return Ok(());
            }
            let now = people.inner.clock.now();
            let entry = AuditEntry::new("workspace.require_totp").target(&workspace);
            let entry = entry.workspace(&workspace).change("require_totp", required);
            let record = entry.record(random::audit_id(now), &by);
            let changes = vec![totp_requirement(&workspace, required), record_change(now, &record)];
            people.inner.writer.commit(changes).await?;
            if required {
                people.inner.strict.insert(workspace);
            } else {
                people.inner.strict.remove(&workspace);
            }
            Ok(())
        })
        .await
    }
}

/// Checks that the account is the joining person's, by a session or by the password.
async fn prove_ownership(
    people: &People,
    known: &Person,
    joining: &Joining,
) -> Result<(), PeopleError> {
    if known.disabled {
        return Err(PeopleError::Refused);
    }
    if let Some(who) = proving_session(joining, Some(known)) {
        // The new session is as recent as this one, so a found session must be recent itself.
        return if people.is_elevated(&who.session) {
            Ok(())
        } else {
            Err(PeopleError::SignInFirst)
        };
    }
    if !known.has_password() || known.has_authenticator() {
        return Err(PeopleError::SignInFirst);
    }
    let attempt =
        sign_in::password_attempt(people, Some(known), known.email.as_str(), &joining.arrival);
    sign_in::check_password(people, &attempt, Some(known), joining.password.clone()).await
}

/// Returns the session that proves that the account is theirs, if there is one.
fn proving_session<'a>(joining: &'a Joining, known: Option<&Person>) -> Option<&'a SignedIn> {
    let who = joining.signed_in.as_ref()?;
    let is_theirs = who.person.as_ref().zip(known).is_some_and(|(who, known)| who.id == known.id);
    is_theirs.then_some(who)
}

/// Makes the person a member and starts their session, in one commit. Needs [`People::hold`].
async fn add_member(
    people: &People,
    invite: &Invite,
    before: Option<Arc<Person>>,
    password: Option<PasswordHash>,
    joining: Joining,
) -> Result<NewSession, PeopleError> {
    let (real, now) = (people.inner.clock.real(), people.inner.clock.now());
    let is_new = before.is_none();
    let recent =
        proving_session(&joining, before.as_deref()).map(|who| who.session.elevated_until());
    let recent_until = recent.flatten();
    let unproven = before.as_ref().filter(|known| known.unproven).map(|known| known.id);
    let ended = unproven.map(|id| people.sessions_except(id, None)).unwrap_or_default();
    let person = match before {
        Some(known) if known.role_in(&invite.workspace).is_some() => {
            return Err(PeopleError::AlreadyMember);
        }
        Some(known) => (*known).clone(),
        None => {
            let new = Person::new(random::person_id(real), invite.email.clone(), now);
            Person { name: joining.name, password, unproven: true, ..new }
        }
    };
    let person = person.with_role(&invite.workspace, Some(invite.role));
    let by = person.context(&joining.arrival.context);
    let joined = AuditEntry::new("member.set").target(person.id).workspace(&invite.workspace);
    let joined = joined.change("role", invite.role).change("invite", invite.id);
    let entries = is_new.then(|| person.created_entry()).into_iter().chain([joined]);
    let records = entries.map(|it| record_change(now, &it.record(random::audit_id(now), &by)));
    let mut spent = vec![invite.delete(), person.put()];
    spent.extend(records);
    spent.extend(ended.iter().map(|session| session.record().delete()));
    let shared = Arc::new(person.clone());
    let holder = SessionHolder::Person(person.id);
    let (person_shown, method) = (Some(shared), "invite");
    let proof = Proof { holder, person: person_shown, method, recent_until, spent };
    let session = people.start_session(proof, joining.arrival).await?;
    people.insert(person);
    ended.iter().for_each(|session| people.forget_session(session.id()));
    people.inner.invites.remove(&invite.id);
    Ok(session)
}

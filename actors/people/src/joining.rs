//! Joins a workspace by an invite, with a new account or an existing one.

use std::sync::Arc;

use postrider_domain::AuditEntry;
use postrider_runtime::random;
use postrider_store::view::audit::record_change;

use crate::checking;
use crate::directory::People;
use crate::error::PeopleError;
use crate::invite::Invite;
use crate::password::{Password, PasswordHash};
use crate::person::Person;
use crate::session::SessionHolder;
use crate::sign_in::{Arrival, NewSession, Proof};
use crate::signed_in::SignedIn;

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

/// Checks that the account is the joining person's, by a session or by the password.
pub(crate) async fn owns(
    people: &People,
    known: &Person,
    joining: &Joining,
) -> Result<(), PeopleError> {
    if known.disabled {
        return Err(PeopleError::Refused);
    }
    if let Some(who) = by_session(joining, Some(known)) {
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
    let attempt = checking::attempt(people, Some(known), known.email.as_str(), &joining.arrival);
    checking::check(people, &attempt, Some(known), joining.password.clone()).await
}

/// Returns the session that proves that the account is theirs, if there is one.
pub(crate) fn by_session<'a>(joining: &'a Joining, known: Option<&Person>) -> Option<&'a SignedIn> {
    let who = joining.signed_in.as_ref()?;
    let is_theirs = who.person.as_ref().zip(known).is_some_and(|(who, known)| who.id == known.id);
    is_theirs.then_some(who)
}

/// Makes the person a member and starts their session, in one commit. Needs [`People::hold`].
pub(crate) async fn enter(
    people: &People,
    invite: &Invite,
    before: Option<Arc<Person>>,
    password: Option<PasswordHash>,
    joining: Joining,
) -> Result<NewSession, PeopleError> {
    let (real, now) = (people.inner.clock.real(), people.inner.clock.now());
    let is_new = before.is_none();
    let recent = by_session(&joining, before.as_deref()).map(|who| who.session.elevated_until());
    let recent_until = recent.flatten();
    let unproven = before.as_ref().filter(|known| known.unproven).map(|known| known.id);
    let ended = unproven.map(|id| people.sessions_but(id, None)).unwrap_or_default();
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
    let session = people.begin(proof, joining.arrival).await?;
    people.insert(person);
    ended.iter().for_each(|session| people.forget_session(session.id()));
    people.inner.invites.remove(&invite.id);
    Ok(session)
}

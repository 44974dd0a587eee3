//! Accounts that a stranger may have taken in the owner's place, and how the stranger loses them.

use super::members::{joining, manager};
use super::*;
use crate::authenticator::code_of;
use crate::{Authenticators, Joining, Manager, SignedIn};

impl World {
    /// Gives a person an authenticator.
    async fn enrol(&self, who: &SignedIn) {
        let authenticators = Authenticators::of(&self.people);
        let secret = authenticators.begin(who).unwrap();
        let secret = data_encoding::BASE32_NOPAD.decode(secret.reveal().as_bytes()).unwrap();
        let code = code_of(&secret, self.clock.real().as_millis() / 30_000);
        authenticators.confirm(who, &code, by()).await.unwrap();
    }
}

/// The change that an operator makes for a person.
#[derive(Debug, Clone, Copy)]
enum Given {
    Elsewhere,
    Higher,
    LinkOfOperator,
    Operator,
    LinkThatIsUsed,
}

#[tokio::test]
async fn what_an_operator_gives_reaches_nobody_who_took_the_address_by_an_invite() {
    use Given::{Elsewhere, Higher, LinkOfOperator, LinkThatIsUsed, Operator};
    for given in [Elsewhere, Higher, LinkOfOperator, Operator, LinkThatIsUsed] {
        let mut world = World::new().await;
        let (token, _) = world.invite("ada@acme.com", Role::Agent).await.unwrap();
        let taken = world.members().join(joining(&token, "of the inviter")).await.unwrap();
        let id = taken.signed_in.person.as_ref().unwrap().id;
        let again = world.tries("ada@acme.com", "of the inviter").await.unwrap();
        world.enrol(&taken.signed_in).await;
        world.restart().await;
        let link = |operator, member| {
            let (people, email) = (world.people.clone(), Login::new("ada@acme.com").unwrap());
            async move { people.create_link(email, operator, member, by()).await.unwrap() }
        };
        let other: WorkspaceId = "other".parse().unwrap();
        let made = match given {
            Elsewhere => Some(link(false, Some((other, Role::Owner))).await),
            Higher => Some(link(false, Some((acme(), Role::Owner))).await),
            LinkOfOperator => Some(link(true, None).await),
            LinkThatIsUsed => Some(link(false, None).await),
            Operator => {
                let change = PersonChange { operator: Some(true), ..PersonChange::default() };
                world.people.update(id, change, None, by()).await.unwrap();
                None
            }
        };
        let owner = match &made {
            Some(link) if matches!(given, LinkThatIsUsed) => {
                assert!(world.knows(&taken), "a link that nobody has used gives nothing");
                Some(world.people.sign_in_by_link(link.token.reveal(), arrival()).await.unwrap())
            }
            _ => None,
        };
        for restarts in 0..2 {
            assert!(!world.knows(&taken) && !world.knows(&again), "{given:?} {restarts}");
            let tried = world.tries("ada@acme.com", "of the inviter").await.map(|_| ());
            assert_eq!(tried, Err(PeopleError::Refused), "{given:?} {restarts}");
            let person = world.people.person(id).unwrap();
            assert!(!person.has_password() && !person.has_authenticator(), "{given:?}");
            assert!(person.role_in(&acme()).is_some());
            world.restart().await;
        }
        let owner = match (owner, made) {
            (Some(owner), _) => owner,
            (None, Some(link)) => {
                world.people.sign_in_by_link(link.token.reveal(), arrival()).await.unwrap()
            }
            (None, None) => world.enter("ada@acme.com", Role::Agent).await,
        };
        assert!(world.knows(&owner));
        // The owner's password stays, whatever role they get next.
        let new = Password::new("of the owner").unwrap();
        world.people.set_password(&owner.signed_in, None, new, by()).await.unwrap();
        world.link("ada@acme.com", Role::Marketer).await;
        assert!(world.tries("ada@acme.com", "of the owner").await.is_ok(), "{given:?}");
    }
}

#[tokio::test]
async fn an_invite_to_another_workspace_ends_the_sessions_of_who_took_the_address() {
    let world = World::new().await;
    let (token, _) = world.invite("ada@acme.com", Role::Agent).await.unwrap();
    let first = world.members().join(joining(&token, "a long password")).await.unwrap();
    let (email, there) = (Login::new("ada@acme.com").unwrap(), |_: &WorkspaceId| true);
    let other: WorkspaceId = "other".parse().unwrap();
    let made =
        world.members().invite(other.clone(), email, Role::Owner, there, manager(true)).await;
    let token = made.unwrap().token.reveal().to_owned();
    let stranger = world.members().join(joining(&token, "of a stranger")).await.map(|_| ());
    assert_eq!(stranger, Err(PeopleError::Refused), "an invite gives no other role of the account");
    let joined = world.members().join(joining(&token, "a long password")).await.unwrap();
    assert!(world.knows(&joined) && !world.knows(&first));
    assert_eq!(joined.signed_in.person.unwrap().role_in(&other), Some(Role::Owner));
}

impl World {
    /// Returns the session of a person whose account an invite made, with a password.
    async fn taken(&self) -> NewSession {
        let (token, _) = self.invite("ada@acme.com", Role::Agent).await.unwrap();
        self.members().join(joining(&token, "of the inviter")).await.unwrap()
    }

    async fn invited_elsewhere(&self, email: &str) -> String {
        let (email, there) = (Login::new(email).unwrap(), |_: &WorkspaceId| true);
        let other = "other".parse().unwrap();
        let made = self.members().invite(other, email, Role::Agent, there, manager(true)).await;
        made.unwrap().token.reveal().to_owned()
    }
}

/// Requests that were admitted before a session ended run after that.
#[tokio::test]
async fn whatever_was_under_way_when_a_session_ended_is_not_done() {
    let world = World::new().await;
    let taken = world.taken().await.signed_in;
    let all = Authenticators::of(&world.people);
    let secret = all.begin(&taken).unwrap();
    let secret = data_encoding::BASE32_NOPAD.decode(secret.reveal().as_bytes()).unwrap();
    let code = code_of(&secret, world.clock.real().as_millis() / 30_000);
    let invite = world.invited_elsewhere("ada@acme.com").await;
    world.link("ada@acme.com", Role::Owner).await;
    let ended = Some(PeopleError::SessionEnded);
    let new = || Password::new("of the inviter").unwrap();
    let set = world.people.set_password(&taken, None, new(), by()).await;
    assert_eq!(set.err(), Some(PeopleError::Refused), "it is elevated no more");
    let elevated = world.people.elevate(&taken, Some("of the inviter"), None).await;
    assert_eq!(elevated.err(), Some(PeopleError::Refused), "it is not the password any more");
    assert_eq!(all.begin(&taken).err(), ended);
    assert_eq!(all.confirm(&taken, &code, by()).await.err(), ended);
    assert_eq!(all.remove(&taken, by()).await.err(), ended);
    let late = Joining { signed_in: Some(taken.clone()), ..joining(&invite, "of the inviter") };
    assert_eq!(world.members().join(late).await.err(), Some(PeopleError::SignInFirst));
    let person = world.people.of_email(&Login::new("ada@acme.com").unwrap()).unwrap();
    assert!(!person.has_password() && !person.has_authenticator());
}

/// The change waits for the hash of the new password while the session ends.
#[tokio::test]
async fn a_password_that_is_hashed_while_the_session_ends_is_not_set() {
    let world = World::new().await;
    let taken = world.taken().await.signed_in;
    let held = world.people.hold().await;
    let (people, who) = (world.people.clone(), taken.clone());
    let setting = tokio::spawn(async move {
        let new = Password::new("another password").unwrap();
        people.set_password(&who, Some("of the inviter"), new, by()).await
    });
    taken.session.end();
    drop(held);
    assert_eq!(setting.await.unwrap().err(), Some(PeopleError::SessionEnded));
    assert!(world.tries("ada@acme.com", "another password").await.is_err());
}

#[tokio::test]
async fn who_joins_with_an_old_session_signs_in_first() {
    let world = World::new().await;
    let ada = world.enter("ada@acme.com", Role::Owner).await.signed_in;
    let invite = world.invited_elsewhere("ada@acme.com").await;
    let join = async || {
        let signed_in = Some(ada.clone());
        world.members().join(Joining { signed_in, ..joining(&invite, "whatever it is") }).await
    };
    world.clock.pass(10 * MINUTE);
    assert_eq!(join().await.err(), Some(PeopleError::SignInFirst));
    world.people.elevate_now(&ada.session);
    world.clock.pass(9 * MINUTE);
    let joined = join().await.unwrap();
    assert!(world.people.is_elevated(&joined.signed_in.session));
    world.clock.pass(MINUTE);
    assert!(!world.people.is_elevated(&joined.signed_in.session), "as recent as the other");
}

#[tokio::test]
async fn an_operator_who_raises_a_role_vouches_for_the_address() {
    for (operates, role, stays) in [
        (true, Role::Owner, false),
        (true, Role::Admin, false),
        (true, Role::Analyst, true),
        (false, Role::Owner, true),
    ] {
        let world = World::new().await;
        world.enter("boss@acme.com", Role::Owner).await;
        let (token, _) = world.invite("ada@acme.com", Role::Marketer).await.unwrap();
        let taken = world.members().join(joining(&token, "of the inviter")).await.unwrap();
        let id = taken.signed_in.person.as_ref().unwrap().id;
        let by = Manager { operates, ..manager(true) };
        let set = world.members().set_role(acme(), id, Some(role), by).await.unwrap();
        assert_eq!(set.has_password(), stays, "{operates} {role}");
        let tried = world.tries("ada@acme.com", "of the inviter").await;
        assert_eq!(tried.is_ok(), stays, "{operates} {role}");
    }
}

#[tokio::test]
async fn an_invite_ends_with_the_right_to_make_it() {
    for (role, ends) in
        [("demoted", true), ("removed", true), ("disabled", true), ("renamed", false)]
    {
        let mut world = World::new().await;
        world.enter("owner@acme.com", Role::Owner).await;
        let boss = world.enter("boss@acme.com", Role::Admin).await;
        let id = boss.signed_in.person.as_ref().unwrap().id;
        let (email, there) = (Login::new("bob@acme.com").unwrap(), |_: &WorkspaceId| true);
        let by_boss = Manager { person: Some(id), ..manager(false) };
        let made = world.members().invite(acme(), email, Role::Admin, there, by_boss).await;
        let token = made.unwrap().token.reveal().to_owned();
        let change = PersonChange {
            disabled: (role == "disabled").then_some(true),
            name: (role == "renamed").then(|| "Boss".into()),
            ..PersonChange::default()
        };
        match role {
            "demoted" | "removed" => {
                let to = (role == "demoted").then_some(Role::Agent);
                world.members().set_role(acme(), id, to, manager(true)).await.unwrap();
            }
            _ => drop(world.people.update(id, change, None, by()).await.unwrap()),
        }
        for _ in 0..2 {
            assert_eq!(world.members().invites(&acme()).is_empty(), ends, "{role}");
            assert_eq!(world.members().invited_to(&token).is_none(), ends, "{role}");
            world.restart().await;
        }
        let joined = world.members().join(joining(&token, "a long password")).await;
        assert_eq!(joined.err(), ends.then_some(PeopleError::Refused), "{role}");
    }
}

#[tokio::test]
async fn an_admin_does_not_take_back_an_invite_of_an_owner() {
    let world = World::new().await;
    let (token, _) = world.invite("ada@acme.com", Role::Owner).await.unwrap();
    let (email, there) = (Login::new("ada@acme.com").unwrap(), |_: &WorkspaceId| true);
    let made = world.members().invite(acme(), email, Role::Agent, there, manager(false)).await;
    assert_eq!(made.err(), Some(PeopleError::OwnersOnly));
    assert!(world.members().invited_to(&token).is_some());
}

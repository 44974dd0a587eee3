//! Tests of roles, invites and joining.

use super::*;
use crate::{Joining, Manager, Members};

pub(super) fn manager(owners: bool) -> Manager {
    Manager { context: by(), owners, operates: false, person: None, session: None }
}

pub(super) fn joining(token: &str, password: &str) -> Joining {
    Joining {
        token: token.to_owned(),
        name: "Bob".into(),
        password: Password::new(password).unwrap(),
        signed_in: None,
        arrival: arrival(),
    }
}

impl World {
    pub(super) fn members(&self) -> Members {
        Members::of(&self.people)
    }

    pub(super) async fn invite(
        &self,
        email: &str,
        role: Role,
    ) -> Result<(String, crate::Invite), PeopleError> {
        let email = Login::new(email).unwrap();
        let made = self.members().invite(acme(), email, role, |_| true, manager(true)).await?;
        Ok((made.token.reveal().to_owned(), made.invite))
    }
}

#[tokio::test]
async fn a_workspace_keeps_an_owner() {
    let world = World::new().await;
    let ada = world.enter("ada@acme.com", Role::Owner).await;
    let bob = world.enter("bob@acme.com", Role::Agent).await;
    let id = |session: &NewSession| session.signed_in.person.as_ref().unwrap().id;
    let set = async |who: &NewSession, role, owners| {
        let set = world.members().set_role(acme(), id(who), role, manager(owners)).await;
        set.map(|person| person.role_in(&acme()))
    };
    for role in [None, Some(Role::Admin)] {
        assert_eq!(set(&ada, role, false).await, Err(PeopleError::OwnersOnly));
        assert_eq!(set(&ada, role, true).await, Err(PeopleError::LastOwner));
    }
    assert_eq!(set(&bob, Some(Role::Owner), false).await, Err(PeopleError::OwnersOnly));
    assert_eq!(set(&bob, Some(Role::Agent), false).await, Ok(Some(Role::Agent)));
    assert!(world.knows(&bob), "nothing was changed");
    assert_eq!(set(&bob, Some(Role::Owner), true).await, Ok(Some(Role::Owner)));
    assert!(!world.knows(&bob), "who may do more signs in again");
    // A disabled owner does not count as an owner who is left.
    let disabled = |disabled| PersonChange { disabled: Some(disabled), ..Default::default() };
    world.people.update(id(&bob), disabled(true), None, by()).await.unwrap();
    assert_eq!(set(&ada, None, true).await, Err(PeopleError::LastOwner));
    world.people.update(id(&bob), disabled(false), None, by()).await.unwrap();
    assert_eq!(set(&ada, None, true).await, Ok(None));
    assert!(world.knows(&ada));
    assert_eq!(set(&ada, Some(Role::Agent), true).await, Err(PeopleError::NoSuchPerson));
    assert_eq!(world.members().list(&acme()).len(), 1);
}

#[tokio::test]
async fn an_invite_works_once_and_for_72_hours() {
    let mut world = World::new().await;
    let (first, _) = world.invite("bob@acme.com", Role::Agent).await.unwrap();
    let (second, invite) = world.invite("Bob@acme.com", Role::Marketer).await.unwrap();
    assert_eq!(world.members().invites(&acme()), [invite]);
    let join = async |world: &World, token: &str| {
        let joined = world.members().join(joining(token, "a long password")).await;
        joined.map(|session| session.signed_in.person.unwrap())
    };
    assert_eq!(join(&world, &first).await, Err(PeopleError::Refused));
    world.restart().await;
    world.clock.pass(71 * HOUR);
    let bob = join(&world, &second).await.unwrap();
    assert_eq!((&*bob.name, bob.role_in(&acme())), ("Bob", Some(Role::Marketer)));
    assert_eq!(join(&world, &second).await, Err(PeopleError::Refused));
    world.restart().await;
    assert!(world.tries("bob@acme.com", "a long password").await.is_ok());
    assert_eq!(world.invite("bob@acme.com", Role::Agent).await, Err(PeopleError::AlreadyMember));
    let (late, _) = world.invite("late@acme.com", Role::Agent).await.unwrap();
    let (taken, invite) = world.invite("taken@acme.com", Role::Agent).await.unwrap();
    let revoke = async |workspace: &str| {
        let workspace = workspace.parse().unwrap();
        world.members().revoke(workspace, invite.id, manager(false)).await
    };
    assert_eq!(revoke("other").await, Err(PeopleError::NoSuchInvite));
    assert_eq!(revoke("acme").await, Ok(()));
    assert_eq!(join(&world, &taken).await, Err(PeopleError::Refused));
    world.clock.pass(72 * HOUR);
    assert_eq!(join(&world, &late).await, Err(PeopleError::Refused));
    assert_eq!(world.members().invites(&acme()), []);
}

#[tokio::test]
async fn an_invite_gives_nobody_the_account_of_another() {
    let world = World::new().await;
    let link = world.link("ada@acme.com", Role::Owner).await;
    let ada = world.people.sign_in_by_link(link.token.reveal(), arrival()).await.unwrap();
    let other: WorkspaceId = "other".parse().unwrap();
    let email = Login::new("ada@acme.com").unwrap();
    let there = |_: &WorkspaceId| true;
    let members = world.members();
    let made = members.invite(other.clone(), email, Role::Agent, there, manager(false)).await;
    let token = made.unwrap().token.reveal().to_owned();
    let join = async |joining: Joining| world.members().join(joining).await.map(|_| ());
    let stranger = || joining(&token, "of the stranger");
    // She has no password, so only her session proves her identity.
    assert_eq!(join(stranger()).await, Err(PeopleError::SignInFirst));
    let new = Password::new("a long password").unwrap();
    world.people.set_password(&ada.signed_in, None, new, by()).await.unwrap();
    assert_eq!(join(stranger()).await, Err(PeopleError::Refused));
    let bob = world.enter("bob@acme.com", Role::Agent).await.signed_in;
    assert_eq!(
        join(Joining { signed_in: Some(bob), ..stranger() }).await,
        Err(PeopleError::Refused)
    );
    assert_eq!(join(joining(&token, "a long password")).await, Ok(()));
    let ada = world.people.of_email(&Login::new("ada@acme.com").unwrap()).unwrap();
    assert_eq!(ada.role_in(&other), Some(Role::Agent));
    assert_eq!(ada.role_in(&acme()), Some(Role::Owner));
    assert_eq!(&*ada.name, "ada@acme.com", "who is there keeps the name");
    let deleted = |_: &WorkspaceId| false;
    let email = Login::new("eve@acme.com").unwrap();
    let made = world.members().invite(acme(), email, Role::Agent, deleted, manager(false)).await;
    assert_eq!(made.map(|_| ()), Err(PeopleError::NoSuchWorkspace));
}

#[tokio::test]
async fn only_a_workspace_that_is_not_there_loses_its_members() {
    let world = World::new().await;
    let ada = world.enter("ada@acme.com", Role::Owner).await;
    world.invite("bob@acme.com", Role::Agent).await.unwrap();
    let counts = || (world.members().list(&acme()).len(), world.members().invites(&acme()).len());
    for (is_there, is_done) in [(None, false), (Some(true), true)] {
        let asked = async move { is_there };
        assert_eq!(world.people.forget_workspace(acme(), asked).await, Ok(is_done));
        assert_eq!(counts(), (1, 1), "{is_there:?}");
    }
    // Nobody becomes a member between the check and the change.
    let people = world.people.clone();
    let looked = async move {
        assert!(people.inner.changes.try_lock().is_err(), "others change people meanwhile");
        Some(false)
    };
    assert_eq!(world.people.forget_workspace(acme(), looked).await, Ok(true));
    assert_eq!(counts(), (0, 0));
    assert!(world.knows(&ada));
    // The call does not await the answer for a workspace without members.
    let asked = async { panic!("it is asked") };
    assert_eq!(world.people.forget_workspace(acme(), asked).await, Ok(true));
}

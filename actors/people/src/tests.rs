//! Tests of signing in and out, on a manual clock, with a store that outlives its engine.

use std::sync::Arc;
use std::time::Duration;

use postrider_domain::{AuditContext, MasterKeys, Timestamp, WorkspaceId};
use postrider_runtime::clock::Clock;
use postrider_store::writer::WriterOptions;
use postrider_store::{MemoryStore, View, Writer};

use crate::{
    Arrival, Login, NewLink, NewSession, Password, People, PeopleError, PeopleOptions, Permission,
    PersonChange, Role, SessionHolder, TokenHash, TokenWorks,
};

mod authenticators;
mod members;
mod unproven;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

struct World {
    store: MemoryStore,
    clock: Clock,
    people: People,
}

impl World {
    async fn new() -> Self {
        let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
        let store = MemoryStore::new();
        let people = load(&store, &clock).await;
        Self { store, clock, people }
    }

    async fn restart(&mut self) {
        self.people = load(&self.store, &self.clock).await;
    }

    async fn link(&self, email: &str, role: Role) -> NewLink {
        let member = Some(("acme".parse().unwrap(), role));
        let email = Login::new(email).unwrap();
        self.people.create_link(email, false, member, by()).await.unwrap()
    }

    async fn enter(&self, email: &str, role: Role) -> NewSession {
        let link = self.link(email, role).await;
        self.people.sign_in_by_link(link.token.reveal(), arrival()).await.unwrap()
    }

    fn knows(&self, session: &NewSession) -> bool {
        self.people.signed_in(session.token.reveal()).is_some()
    }

    async fn tries(&self, email: &str, password: &str) -> Result<NewSession, PeopleError> {
        self.people.sign_in_by_password(email, password, None, arrival()).await
    }
}

async fn load(store: &MemoryStore, clock: &Clock) -> People {
    load_with(store, clock, MasterKeys::single([7; 32])).await
}

async fn load_with(store: &MemoryStore, clock: &Clock, keys: MasterKeys) -> People {
    let writer = Writer::start(Arc::new(store.clone()), WriterOptions::default()).unwrap();
    let view: Arc<dyn View> = Arc::new(store.clone());
    let options = PeopleOptions {
        admin_token: Some(TokenHash::of("of the settings")),
        ..PeopleOptions::default()
    };
    let works: TokenWorks = Arc::new(|id| id == "tok_good");
    People::load(view, writer, clock.clone(), keys, (options, works)).await.unwrap()
}

fn by() -> Arc<AuditContext> {
    Arc::new(AuditContext::system())
}

fn arrival() -> Arrival {
    Arrival { user_agent: "test".to_owned(), context: by(), device: None }
}

fn acme() -> WorkspaceId {
    "acme".parse().unwrap()
}

#[tokio::test]
async fn a_link_works_once_and_for_15_minutes() {
    let mut world = World::new().await;
    let first = world.link("ada@acme.com", Role::Agent).await;
    let second = world.link("ada@acme.com", Role::Agent).await;
    let enter = |token: String| {
        let people = world.people.clone();
        async move { people.sign_in_by_link(&token, arrival()).await.map(|_| ()) }
    };
    let refused = Err(PeopleError::Refused);
    assert_eq!(enter(first.token.reveal().into()).await, refused, "a newer one was made");
    assert_eq!(enter(second.token.reveal().into()).await, Ok(()));
    assert_eq!(enter(second.token.reveal().into()).await, refused);
    let third = world.link("ada@acme.com", Role::Agent).await;
    world.clock.pass(15 * MINUTE);
    let late = world.people.sign_in_by_link(third.token.reveal(), arrival()).await;
    assert_eq!(late.map(|_| ()), refused);
    // A sandbox that moves time changes nothing, and a restart forgets nothing.
    let fourth = world.link("ada@acme.com", Role::Agent).await;
    world.clock.advance(24 * HOUR);
    world.restart().await;
    let session = world.people.sign_in_by_link(fourth.token.reveal(), arrival()).await.unwrap();
    world.clock.advance(24 * HOUR);
    assert!(world.knows(&session));
    let name = world.people.data_name();
    world.restart().await;
    assert!(world.knows(&session));
    assert_eq!(world.people.data_name(), name, "cookies go on");
    let again = world.people.sign_in_by_link(fourth.token.reveal(), arrival()).await;
    assert_eq!(again.map(|_| ()), refused);
}

#[tokio::test]
async fn a_session_ends_when_it_is_idle_and_when_it_is_old() {
    let mut world = World::new().await;
    let [idle, used] =
        [world.enter("a@b.com", Role::Agent).await, world.enter("a@b.com", Role::Agent).await];
    for hours in 0..7 * 24 {
        assert!(world.knows(&used), "after {hours} hours");
        let signed_in = world.people.signed_in(used.token.reveal()).unwrap();
        assert_eq!(world.people.admit(&signed_in.session).0, None);
        assert_eq!(world.knows(&idle), hours < 12, "after {hours} hours");
        world.clock.pass(HOUR);
    }
    assert!(!world.knows(&used));
    world.restart().await;
    assert!(!world.knows(&used) && !world.knows(&idle));
    let rows = world.people.sessions_of(&SessionHolder::Person(idle_person(&idle)));
    assert_eq!(rows.len(), 0);
}

fn idle_person(session: &NewSession) -> postrider_domain::PersonId {
    session.signed_in.person.as_ref().unwrap().id
}

#[tokio::test]
async fn an_operator_has_all_permissions_and_an_hour() {
    let world = World::new().await;
    let email = Login::new("owner@localhost").unwrap();
    let link = world.people.create_link(email, true, None, by()).await.unwrap();
    let session = world.people.sign_in_by_link(link.token.reveal(), arrival()).await.unwrap();
    assert!(session.signed_in.is_operator());
    let permissions = session.signed_in.permissions_in(&acme(), false).unwrap();
    assert!(permissions.contains(Permission::WorkspaceDelete));
    world.clock.pass(HOUR);
    assert!(!world.knows(&session));
    let agent = world.enter("a@b.com", Role::Agent).await.signed_in;
    let permissions = agent.permissions_in(&acme(), true).unwrap();
    assert!(permissions.contains(Permission::InboxWrite));
    assert!(!permissions.contains(Permission::KeysManage));
    assert_eq!(agent.permissions_in(&"other".parse().unwrap(), true), None);
    let token = world
        .people
        .sign_in_by_admin_token("of the settings", (None, None), arrival())
        .await
        .unwrap();
    assert!(token.signed_in.is_operator() && world.knows(&token));
    world.clock.pass(30 * MINUTE);
    assert!(!world.knows(&token));
}

#[tokio::test]
async fn who_is_disabled_or_changed_is_signed_out_at_once() {
    let world = World::new().await;
    let session = world.enter("ada@acme.com", Role::Agent).await;
    let id = idle_person(&session);
    // The same role again changes nothing.
    world.link("ada@acme.com", Role::Agent).await;
    assert!(world.knows(&session));
    let link = world.link("ada@acme.com", Role::Owner).await;
    assert!(!world.knows(&session), "another role ends the session");
    let session = world.people.sign_in_by_link(link.token.reveal(), arrival()).await.unwrap();
    let waiting = world.link("ada@acme.com", Role::Owner).await;
    let disabled = PersonChange { disabled: Some(true), ..PersonChange::default() };
    world.people.update(id, disabled, None, by()).await.unwrap();
    assert!(!world.knows(&session) && !world.people.goes_on(&session.signed_in));
    let late = world.people.sign_in_by_link(waiting.token.reveal(), arrival()).await;
    assert_eq!(late.map(|_| ()), Err(PeopleError::Refused));
    let email = Login::new("ada@acme.com").unwrap();
    let made = world.people.create_link(email, false, None, by()).await;
    assert_eq!(made.map(|_| ()), Err(PeopleError::Disabled));
}

#[tokio::test]
async fn sessions_are_ended_by_their_holder_only() {
    let mut world = World::new().await;
    let ada = world.enter("ada@acme.com", Role::Agent).await;
    let [bob, other] = [
        world.enter("b@acme.com", Role::Agent).await,
        world.enter("b@acme.com", Role::Agent).await,
    ];
    let holder = SessionHolder::Person(idle_person(&bob));
    let ended = world.people.end_session(&holder, ada.signed_in.session.id(), by()).await;
    assert_eq!(ended, Err(PeopleError::NoSuchSession));
    world.people.end_other_sessions(&holder, bob.signed_in.session.id(), by()).await.unwrap();
    assert!(world.knows(&ada) && world.knows(&bob) && !world.knows(&other));
    world.people.end_session(&holder, bob.signed_in.session.id(), by()).await.unwrap();
    world.restart().await;
    assert!(world.knows(&ada) && !world.knows(&bob) && !world.knows(&other));
}

/// A request that was admitted before its session ended may note its use after that.
#[tokio::test]
async fn what_ended_is_not_brought_back_by_a_late_record_of_its_use() {
    for way in 0..4 {
        let mut world = World::new().await;
        let ada = world.enter("ada@acme.com", Role::Agent).await;
        let signed_in = world.people.signed_in(ada.token.reveal()).unwrap();
        let (id, person) = (signed_in.session.id(), idle_person(&ada));
        world.clock.pass(6 * MINUTE);
        let holder = SessionHolder::Person(person);
        let disabled = PersonChange { disabled: Some(true), ..PersonChange::default() };
        match way {
            0 => world.people.end_session(&holder, id, by()).await.unwrap(),
            1 => {
                let other = world.enter("ada@acme.com", Role::Agent).await.signed_in.session.id();
                world.people.end_other_sessions(&holder, other, by()).await.unwrap();
            }
            2 => drop(world.people.update(person, disabled, None, by()).await.unwrap()),
            _ => {}
        }
        let (refused, _) = world.people.admit(&signed_in.session);
        assert_eq!(refused, None);
        // A change staged after it is settled after it.
        tokio::task::yield_now().await;
        world.enter("bob@acme.com", Role::Agent).await;
        world.restart().await;
        let stored = world.people.sessions_of(&holder).iter().any(|session| session.id() == id);
        assert_eq!(stored, way == 3, "{way}");
    }
}

#[tokio::test]
async fn the_sixth_wrong_password_waits() {
    let world = World::new().await;
    let right = "correct horse battery";
    let session = world.enter("ada@acme.com", Role::Agent).await;
    let other = world.enter("ada@acme.com", Role::Agent).await;
    let new = Password::new(right).unwrap();
    world.people.set_password(&session.signed_in, None, new, by()).await.unwrap();
    assert!(world.knows(&session) && !world.knows(&other));
    for email in ["ada@acme.com", "nobody@acme.com"] {
        for _ in 0..5 {
            assert_eq!(world.tries(email, "wrong").await.map(|_| ()), Err(PeopleError::Refused));
        }
        let sixth = world.tries(email, right).await.map(|_| ());
        assert_eq!(sixth, Err(PeopleError::Wait(Duration::from_secs(2))), "{email}");
    }
    world.clock.pass(Duration::from_secs(2));
    let session = world.tries("Ada@Acme.com", right).await.unwrap();
    assert!(world.knows(&session));
    assert_eq!(world.tries("ada@acme.com", "wrong").await.map(|_| ()), Err(PeopleError::Refused));
}

#[tokio::test]
async fn tries_of_strangers_make_nobody_else_wait() {
    let world = World::new().await;
    let right = "correct horse battery";
    let session = world.enter("ada@acme.com", Role::Agent).await;
    let new = Password::new(right).unwrap();
    world.people.set_password(&session.signed_in, None, new, by()).await.unwrap();
    let sign_in = async |password: &str, address: &str, device: Option<&str>| {
        let context = AuditContext { address: Some(address.into()), ..AuditContext::system() };
        let context = Arc::new(context);
        let device = device.map(str::to_owned);
        let arrival = Arrival { user_agent: String::new(), context, device };
        world.people.sign_in_by_password("ada@acme.com", password, None, arrival).await
    };
    let waits = |tried: Result<NewSession, PeopleError>| matches!(tried, Err(PeopleError::Wait(_)));
    for _ in 0..20 {
        assert!(sign_in("wrong", "192.0.2.1", None).await.is_err());
    }
    assert!(waits(sign_in(right, "192.0.2.1", None).await), "nobody knows who it is");
    let elsewhere = sign_in(right, "192.0.2.2", None).await.unwrap();
    // A browser in which she has signed in before is known, also beside the stranger.
    let device = elsewhere.device.as_ref().unwrap().reveal();
    assert!(world.people.knows_device("Ada@acme.com", device));
    assert!(!world.people.knows_device("bob@acme.com", device));
    sign_in(right, "192.0.2.1", Some(device)).await.unwrap();
    assert!(waits(sign_in(right, "192.0.2.1", Some("another")).await));
    // Confirmations in a session are not delayed either.
    world.people.elevate(&session.signed_in, Some(right), None).await.unwrap();
    for _ in 0..5 {
        assert!(sign_in("wrong", "192.0.2.3", Some(device)).await.is_err());
    }
    assert!(waits(sign_in(right, "192.0.2.3", Some(device)).await), "a browser may be stolen");
    // Very many networks wait together; her browsers and sessions do not.
    for network in 0..100 {
        for _ in 0..3 {
            assert!(sign_in("wrong", &format!("198.51.100.{network}"), None).await.is_err());
        }
    }
    assert!(waits(sign_in(right, "203.0.113.1", None).await));
    let device = session.device.as_ref().unwrap().reveal();
    sign_in(right, "203.0.113.1", Some(device)).await.unwrap();
    world.people.elevate(&session.signed_in, Some(right), None).await.unwrap();
}

#[tokio::test]
async fn a_password_is_changed_with_the_current_one_or_soon_after_a_sign_in() {
    let world = World::new().await;
    let session = world.enter("ada@acme.com", Role::Agent).await.signed_in;
    let set = |current, new: &str| {
        let (people, session, new) = (&world.people, &session, Password::new(new).unwrap());
        async move { people.set_password(session, current, new, by()).await }
    };
    assert_eq!(set(None, "the first of them").await, Ok(()));
    world.clock.pass(10 * MINUTE);
    assert_eq!(set(None, "the second of them").await, Err(PeopleError::Refused));
    assert_eq!(set(Some("not it at all"), "the second of them").await, Err(PeopleError::Refused));
    assert_eq!(set(Some("the first of them"), "the second of them").await, Ok(()));
    assert!(world.people.is_elevated(&session.session));
    world.clock.pass(10 * MINUTE);
    assert!(!world.people.is_elevated(&session.session));
    assert_eq!(
        world.people.elevate(&session, Some("the first of them"), None).await,
        Err(PeopleError::Refused)
    );
    assert_eq!(world.people.elevate(&session, Some("the second of them"), None).await, Ok(()));
}

#[tokio::test]
async fn a_session_has_its_own_requests() {
    let world = World::new().await;
    let [one, other] =
        [world.enter("a@b.com", Role::Agent).await, world.enter("c@d.com", Role::Agent).await];
    for _ in 0..600 {
        assert_eq!(world.people.admit(&one.signed_in.session).0, None);
    }
    assert!(world.people.admit(&one.signed_in.session).0.is_some());
    let (refused, bucket) = world.people.admit(&other.signed_in.session);
    assert_eq!((refused, bucket.map(|it| it.remaining)), (None, Some(599)));
}

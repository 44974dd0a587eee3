//! Tests of authenticators: how people set them up, and what a sign-in needs then.

use super::*;
use crate::Authenticators;
use crate::authenticator::code_of;

const PASSWORD: &str = "a long password";

/// Returns the session of a person with password and authenticator, the secret, and the recovery
/// codes.
async fn enrolled(world: &World) -> (NewSession, Vec<u8>, Vec<String>) {
    let session = world.enter("ada@acme.com", Role::Agent).await;
    let new = Password::new(PASSWORD).unwrap();
    world.people.set_password(&session.signed_in, None, new, by()).await.unwrap();
    let all = Authenticators::of(&world.people);
    assert_eq!(
        all.confirm(&session.signed_in, "000000", by()).await.err(),
        Some(PeopleError::NoAuthenticator)
    );
    let secret = all.begin(&session.signed_in).unwrap();
    let secret = data_encoding::BASE32_NOPAD.decode(secret.reveal().as_bytes()).unwrap();
    let code = code_of(&secret, step(world));
    let wrong = if code == "000000" { "000001" } else { "000000" };
    assert_eq!(
        all.confirm(&session.signed_in, wrong, by()).await.err(),
        Some(PeopleError::WrongCode)
    );
    let codes = all.confirm(&session.signed_in, &code, by()).await.unwrap();
    assert_eq!(all.begin(&session.signed_in).err(), Some(PeopleError::HasAuthenticator));
    (session, secret, codes.iter().map(|code| code.reveal().to_owned()).collect())
}

fn step(world: &World) -> u64 {
    world.clock.real().as_millis() / 30_000
}

async fn sign_in(world: &World, code: Option<&str>) -> Result<(), PeopleError> {
    let email = "ada@acme.com";
    world.people.sign_in_by_password(email, PASSWORD, code, arrival()).await.map(|_| ())
}

#[tokio::test]
async fn who_has_an_authenticator_needs_its_code_once() {
    let mut world = World::new().await;
    let (session, secret, codes) = enrolled(&world).await;
    let required = Err(PeopleError::TotpRequired);
    assert_eq!(sign_in(&world, None).await, required);
    let first = code_of(&secret, step(&world));
    assert_eq!(sign_in(&world, Some(&first)).await, required, "it confirmed the authenticator");
    world.clock.pass(Duration::from_secs(30));
    let next = code_of(&secret, step(&world));
    let wrong = world.people.sign_in_by_password("ada@acme.com", "wrong", Some(&next), arrival());
    assert_eq!(wrong.await.map(|_| ()), Err(PeopleError::Refused));
    assert_eq!(sign_in(&world, Some(&next)).await, Ok(()));
    world.restart().await;
    assert_eq!(sign_in(&world, Some(&next)).await, required, "a used step is not taken again");
    assert_eq!(sign_in(&world, Some(&codes[0])).await, Ok(()));
    world.restart().await;
    assert_eq!(sign_in(&world, Some(&codes[0])).await, required);
    // A second proof needs both.
    world.clock.pass(10 * MINUTE);
    let who = world.people.signed_in(session.token.reveal()).unwrap();
    let elevate =
        async |password, code: Option<&str>| world.people.elevate(&who, password, code).await;
    let code = code_of(&secret, step(&world));
    assert_eq!(elevate(Some(PASSWORD), None).await, required);
    assert_eq!(elevate(None, Some(&code)).await, Err(PeopleError::Refused));
    assert!(!world.people.is_elevated(&who.session));
    assert_eq!(elevate(Some(PASSWORD), Some(&code)).await, Ok(()));
    assert!(world.people.is_elevated(&who.session));
    assert_eq!(sign_in(&world, Some(&code)).await, required, "it was used");
    Authenticators::of(&world.people).remove(&who, by()).await.unwrap();
    assert_eq!(sign_in(&world, None).await, Ok(()));
}

#[tokio::test]
async fn codes_are_tried_slowly_and_a_right_password_makes_no_room() {
    let world = World::new().await;
    let (_, secret, _) = enrolled(&world).await;
    let near = [step(&world) - 1, step(&world), step(&world) + 1].map(|it| code_of(&secret, it));
    let wrong: Vec<_> =
        (0..9).map(|it| format!("00000{it}")).filter(|it| !near.contains(it)).collect();
    for code in &wrong[..5] {
        assert_eq!(sign_in(&world, Some(code)).await, Err(PeopleError::TotpRequired));
        assert_eq!(sign_in(&world, None).await, Err(PeopleError::TotpRequired));
    }
    world.clock.pass(Duration::from_secs(1));
    let right = code_of(&secret, step(&world) + 1);
    let wait = Duration::from_secs(1);
    assert_eq!(sign_in(&world, Some(&right)).await, Err(PeopleError::Wait(wait)));
    world.clock.pass(wait);
    assert_eq!(sign_in(&world, Some(&right)).await, Ok(()));
}

#[tokio::test]
async fn a_secret_goes_with_the_master_key() {
    let mut world = World::new().await;
    let (_, secret, _) = enrolled(&world).await;
    let keys = [(1, [7; 32]), (2, [8; 32])];
    for keys in [&keys[..], &keys[1..]] {
        let keys = MasterKeys::new(keys.iter().copied()).unwrap();
        world.people = load_with(&world.store, &world.clock, keys).await;
    }
    world.clock.pass(Duration::from_secs(60));
    let code = code_of(&secret, step(&world));
    assert_eq!(sign_in(&world, Some(&code)).await, Ok(()));
}

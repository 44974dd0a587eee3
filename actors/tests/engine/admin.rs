//! Administration, with callers that go away in the middle.

use postrider_actors::{NewKey, SendOtpError};
use postrider_domain::{LimitsOverride, Scopes};

use super::*;
use postrider_store::hooked::Gated;

fn new_key() -> NewKey {
    NewKey::new("key", Scopes::all())
}

/// Starts `call`, drops it while its commit waits, and lets the commit continue.
async fn give_up<T>(store: &Gated, call: impl Future<Output = T>) {
    store.shut();
    let given_up = tokio::time::timeout(Duration::from_millis(5), call).await.is_err();
    store.open();
    assert!(given_up, "the commit did not wait");
}

#[tokio::test]
async fn what_was_begun_is_carried_out() {
    let store = Gated::default();
    let engine = Engine::start(options(store.clone(), START)).await.unwrap();
    workspace(&engine, "acme", 1).await;
    let (admin, acme) = (engine.admin(), id("acme"));
    let key = admin.create_key(&acme, new_key()).await.unwrap();
    let works = || engine.access().authenticate(key.key.reveal());

    let over = LimitsOverride { key_requests_per_hour: Some(7), ..Default::default() };
    give_up(&store, admin.set_limits(&acme, over)).await;
    until("the bucket has the new size", async || {
        let caller = works().unwrap();
        engine.access().admit(&caller).bucket.is_some_and(|bucket| bucket.limit == 7)
    })
    .await;

    give_up(&store, admin.revoke_key(&acme, key.info.id)).await;
    until("the key is revoked", async || works().is_none()).await;

    give_up(&store, admin.create_workspace(id("later"), "Later".into())).await;
    until("the workspace is there", async || engine.workspace(&id("later")).is_some()).await;

    give_up(&store, engine.advance_clock(Duration::from_secs(100))).await;
    until("time was moved", async || engine.clock().offset() >= Duration::from_secs(100)).await;
}

#[tokio::test]
async fn time_ends_before_what_counts_it_does() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = workspace(&engine, "acme", 1).await;
    for _ in 0..3 {
        engine.advance_clock(Duration::from_secs(1 << 40)).await.unwrap();
    }
    assert_eq!(engine.clock().now().to_string(), "2500-01-01T00:00:00.000Z");
    let sent = acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
    assert_eq!(sent.expires_at.to_string(), "2500-01-01T00:05:00.000Z");
}

#[tokio::test]
async fn a_number_that_was_disconnected_sends_no_more() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = workspace(&engine, "acme", 10).await;
    let own = id("acme");
    // Time is stopped, so the second try never comes.
    engine.sandbox().script(&own, None, postrider_actors::ScriptedOutcome::Unavailable, None);
    let sent = acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
    let number = engine.admin().numbers(&own).await.unwrap()[0].id;
    engine.admin().disconnect_number(&own, number).await.unwrap();
    until("the message has failed", async || {
        acme.otp(sent.request_id).await.unwrap().delivery == postrider_actors::Delivery::Failed
    })
    .await;
    assert_eq!(credits(&engine, "acme").await, 10, "what was not sent is given back");
    let again = acme.send_otp(SendOtp::to(phone(2))).await;
    assert_eq!(again, Err(SendOtpError::NotConnected));
}

//! Tests that single messages are claimed when accepted, while their number has capacity.
//!
//! A number has no more of them than it can dispatch, and each only while it may have it.

use crate::MessageStatus;
use postrider_channel::{AttemptOutcome, Throttle};
use postrider_store::CrashOutcome;
use tokio::task::JoinSet;

use super::message_commands::send_message;
use super::scripted::Rig;
use super::*;
use postrider_store::hooked::Gated;

async fn number(rig: &Rig) -> postrider_domain::NumberId {
    rig.engine.admin().numbers(&id("acme")).await.unwrap()[0].id
}

/// Starts sends, and lets them run as far as the store allows.
async fn send_while_shut(rig: &Rig, phones: std::ops::Range<u32>) {
    for number in phones {
        let acme = rig.acme.clone();
        drop(tokio::spawn(async move { send_message(&acme, phone(number)).await }));
    }
    yields().await;
}

async fn yields() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_on_its_way_to_the_number_holds_its_place() {
    let store = Gated::default();
    let rig = Rig::start(store.clone(), Arc::default(), START).await;
    let first = rig.send(0).await;
    rig.becomes(first, MessageStatus::Sent).await;
    let number = number(&rig).await;
    let numbers = Arc::clone(&rig.engine.shared().numbers);
    *rig.script.is_mute.lock() = true;
    store.shut();
    send_while_shut(&rig, 1..11).await;
    // The number computes its capacity again. It has received none of them.
    numbers.ack(number, 0);
    yields().await;
    let places: Vec<_> = std::iter::from_fn(|| numbers.slot(number).take_place()).collect();
    assert_eq!(places.len(), 16 - 10);
    drop(places);
    store.open();
    rig.handed(11).await;
    rig.settle().await;
    let places: Vec<_> = std::iter::from_fn(|| numbers.slot(number).take_place()).collect();
    assert_eq!(places.len(), 16 - 10, "they are with the channel");
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_answers_at_once_takes_more_at_once() {
    let (_, engine, acme, number) = super::messages::begin().await;
    engine.admin().add_credits(&id("acme"), 1000).await.unwrap();
    for _ in 0..10 {
        let sends = (0..64).map(|_| {
            let acme = acme.clone();
            async move { super::support::messages::send(&acme, phone(1)).await }
        });
        let sent = sends.collect::<JoinSet<_>>().join_all().await;
        super::messages::await_status(&acme, sent[63], MessageStatus::Sent).await;
    }
    let numbers = Arc::clone(&engine.shared().numbers);
    let places: Vec<_> = std::iter::from_fn(|| numbers.slot(number).take_place()).collect();
    assert!(places.len() > 32, "{} places", places.len());
}

#[tokio::test(start_paused = true)]
async fn what_is_accepted_while_its_number_is_down_is_sent_after_all() {
    let store = Gated::default();
    let rig = Rig::start(store.clone(), Arc::default(), START).await;
    let first = rig.send(0).await;
    rig.becomes(first, MessageStatus::Sent).await;
    store.shut();
    send_while_shut(&rig, 1..3).await;
    for number in rig.engine.shared().numbers.live() {
        number.kill();
    }
    yields().await;
    assert!(rig.engine.shared().numbers.live().is_empty());
    store.open();
    rig.handed(3).await;
    let messages = rig.script.handed.lock().clone();
    for message in messages {
        rig.becomes(message, MessageStatus::Sent).await;
    }
}

/// The number has released a claim, and the workspace has lost the release.
#[tokio::test(start_paused = true)]
async fn a_claim_that_was_given_up_in_vain_is_given_up_again() {
    let store = CrashingStore::new();
    let rig = Rig::start(store.clone(), Arc::default(), START).await;
    let (scope, after) = (Throttle::Number, Some(Duration::from_secs(600)));
    rig.script.answers.lock().push_back(AttemptOutcome::Throttled { scope, after });
    // The commits of the message, of its claim, and then of its release.
    store.fail_after(2, CrashOutcome::Lost);
    let message = rig.send(1).await;
    rig.handed(1).await;
    let claimed = rig.engine.shared().writer.last_position();
    until("the failure", async || store.has_failed()).await;
    healed(&rig.acme).await;
    until("the release is durable", async || {
        rig.settle().await;
        rig.engine.shared().writer.last_position() > claimed
    })
    .await;
    let (rig, _) = rig.after_a_crash(&store).await;
    rig.becomes(message, MessageStatus::Sent).await;
    assert_eq!(rig.count(message), 2);
}

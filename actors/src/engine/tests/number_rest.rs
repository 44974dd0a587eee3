//! Tests that an idle number costs no actor, without a visible effect.

use postrider_channel::Failure;

use super::*;

const REST: Duration = Duration::from_secs(600);

fn delivered(engine: &Engine) -> usize {
    engine.sandbox().messages(&id("acme"), None, 1000).len()
}

/// Sends a code and waits until its delivery is recorded.
async fn send(engine: &Engine, acme: &Workspace, number: u32) {
    let before = delivered(engine);
    let sent = acme.send_otp(SendOtp::to(phone(number))).await.unwrap();
    until("it is sent", async || {
        let otp = acme.otp(sent.request_id).await.unwrap();
        delivered(engine) == before + 1 && otp.delivery == crate::Delivery::Sent
    })
    .await;
}

fn actors(engine: &Engine) -> usize {
    engine.shared().numbers.live().len()
}

/// Lets some beats of the engine pass.
async fn beats() {
    tokio::time::sleep(Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn it_goes_after_ten_minutes_and_comes_back_with_the_next_message() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = workspace(&engine, "acme", 100).await;
    for round in 0..3 {
        send(&engine, &acme, round).await;
        engine.clock().advance(REST / 2);
        beats().await;
        assert_eq!(actors(&engine), 1, "it had something to do lately");
        send(&engine, &acme, 100 + round).await;
        engine.clock().advance(REST / 2);
        beats().await;
        assert_eq!(actors(&engine), 1, "the time begins anew");
        engine.clock().advance(REST / 2);
        until("it rests", async || actors(&engine) == 0).await;
    }
    send(&engine, &acme, 200).await;
    assert_eq!(delivered(&engine), 7);
    engine.shutdown(LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn messages_that_meet_it_on_its_way_to_rest_are_sent() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = workspace(&engine, "acme", 1000).await;
    for round in 0..20 {
        send(&engine, &acme, round).await;
        engine.clock().advance(REST);
        // Both go into the mailbox before the actor reads either.
        engine.shared().numbers.rest_idle();
        let sent = acme.send_otp(SendOtp::to(phone(1000 + round))).await.unwrap();
        engine.shared().numbers.rest_idle();
        until("it is sent", async || {
            let otp = acme.otp(sent.request_id).await.unwrap();
            otp.delivery == crate::Delivery::Sent
        })
        .await;
    }
    assert_eq!(delivered(&engine), 40);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_stopped_stays_and_remembers_that() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = workspace(&engine, "acme", 100).await;
    let number = engine.admin().numbers(&id("acme")).await.unwrap()[0].id;
    send(&engine, &acme, 1).await;
    engine.shared().numbers.fault(number, Failure::permanent(None));
    let down = || engine.shared().numbers.slot(number).down_for(engine.clock().now()).is_some();
    until("it is stopped", async || down()).await;
    engine.clock().advance(REST * 2);
    beats().await;
    assert_eq!(actors(&engine), 1);
    // After a message it behaves like any other number.
    send(&engine, &acme, 2).await;
    engine.clock().advance(REST);
    until("it rests", async || actors(&engine) == 0).await;
}

//! Engine time that is moved, and kept.

use postrider_actors::{EngineOptions, EventOptions, NewContact, OtpStatus};
use postrider_domain::contact::{ContactName, CustomFields, Tags};
use postrider_store::CrashOutcome;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn a_move_is_seen_to_when_it_returns() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = workspace(&engine, "acme", 10).await;
    let request = acme.send_otp(SendOtp::to(phone(1))).await.unwrap().request_id;
    engine.advance_clock(Duration::from_secs(300)).await.unwrap();
    assert_eq!(engine.clock().offset(), Duration::from_secs(300));
    let expired = log(&acme).await.into_iter().any(|entry| entry.event.kind() == "otp.expired");
    assert!(expired, "without waiting for a beat");
    assert_eq!(acme.otp(request).await.unwrap().status, OtpStatus::Expired);
}

#[tokio::test(start_paused = true)]
async fn it_survives_a_crash_and_is_not_taken_twice() {
    let store = CrashingStore::new();
    let first = engine(&store, START).await;
    first.advance_clock(HOUR).await.unwrap();
    first.advance_clock(HOUR).await.unwrap();
    let clock = first.clock().clone();
    let store = store.crash(postrider_store::Keep::Nothing);
    drop(first);
    let second = engine(&store, START).await;
    assert_eq!(second.clock().now(), START.plus(2 * HOUR));
    second.shutdown(LONG).await.unwrap();
    // An engine that is started again on the same clock finds the time moved already.
    let same = EngineOptions { clock, ..options(store, START) };
    let third = Engine::start(same).await.unwrap();
    // It continues right behind the last durable moment.
    assert_eq!(third.clock().now(), START.plus(2 * HOUR + MILLISECOND));
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_be_kept_is_not_made() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    store.fail_next_commits(1, CrashOutcome::Lost);
    engine.advance_clock(HOUR).await.unwrap_err();
    assert_eq!(engine.clock().now(), START);
}

#[tokio::test(start_paused = true)]
async fn moves_at_once_add_up() {
    let store = CrashingStore::new();
    let first = engine(&store, START).await;
    let step = || first.advance_clock(HOUR);
    let moved = tokio::join!(step(), step(), step());
    assert_eq!(moved, (Ok(()), Ok(()), Ok(())));
    first.shutdown(LONG).await.unwrap();
    let again = engine(&store, START).await;
    assert_eq!(again.clock().now(), START.plus(3 * HOUR + MILLISECOND));
}

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Lets the machine run for some seconds, one by one, as its clocks do.
async fn run(engine: &Engine, seconds: u64) {
    for _ in 0..seconds {
        engine.clock().pass(SECOND);
        engine.beat().await;
    }
}

/// Shows the engine a wall clock that is wrong by `off` for a moment.
async fn glitch(engine: &Engine, off: impl Fn(Timestamp) -> Timestamp) {
    let right = engine.clock().real();
    engine.clock().set_wall(off(right));
    engine.clock().pass(SECOND);
    engine.beat().await;
    engine.clock().set_wall(right.plus(SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_glitch_of_the_wall_clock_freezes_nothing_and_ends_nothing() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = workspace(&engine, "acme", 100).await;
    let early = acme.send_otp(SendOtp::to(phone(1))).await.unwrap().request_id;
    glitch(&engine, |right| right.plus(2 * DAY)).await;
    assert_eq!(acme.otp(early).await.unwrap().status, OtpStatus::Active, "nothing ended early");
    let sent = acme.send_otp(SendOtp::to(phone(2))).await.unwrap();
    assert!(sent.expires_at <= START.plus(310 * SECOND), "its end is right to seconds");
    for _ in 0..4 {
        acme.send_otp(SendOtp::to(phone(2))).await.unwrap();
    }
    acme.send_otp(SendOtp::to(phone(2))).await.unwrap_err();
    run(&engine, 330).await;
    assert_eq!(acme.otp(sent.request_id).await.unwrap().status, OtpStatus::Expired);
    run(&engine, 300).await;
    acme.send_otp(SendOtp::to(phone(2))).await.unwrap();
    assert!(engine.health().warnings.is_empty(), "the clocks agree again");
}

#[tokio::test(start_paused = true)]
async fn a_wall_clock_set_back_delays_nothing() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = workspace(&engine, "acme", 10).await;
    let sent = acme.send_otp(SendOtp::to(phone(1))).await.unwrap().request_id;
    engine.clock().set_wall(START.minus(HOUR));
    run(&engine, 5).await;
    let warnings = engine.health().warnings;
    assert!(
        warnings[0].starts_with("clock: the machine's clock differs by -3599 s"),
        "{warnings:?}"
    );
    run(&engine, 320).await;
    assert_eq!(acme.otp(sent).await.unwrap().status, OtpStatus::Expired);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_stays_ends_nothing_early_and_can_be_followed() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = workspace(&engine, "acme", 10).await;
    let sent = acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
    engine.clock().set_wall(START.plus(HOUR));
    run(&engine, 60).await;
    let ahead = engine.clock().now().since(START.plus(60 * SECOND));
    assert!(ahead < 5 * SECOND, "{ahead:?}");
    assert_eq!(acme.otp(sent.request_id).await.unwrap().status, OtpStatus::Active);
    assert!(engine.admin().follow_clock().await.unwrap().is_some());
    assert_eq!(acme.otp(sent.request_id).await.unwrap().status, OtpStatus::Expired);
    assert!(engine.health().warnings.is_empty());
}

#[tokio::test(start_paused = true)]
async fn data_written_by_a_clock_that_was_ahead_goes_on_after_a_start_with_the_right_one() {
    let store = CrashingStore::new();
    let ahead = engine(&store, START.plus(3 * DAY)).await;
    let acme = workspace(&ahead, "acme", 100).await;
    for _ in 0..5 {
        acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
    }
    ahead.shutdown(LONG).await.unwrap();
    let right = engine(&store, START).await;
    let warnings = right.health().warnings;
    assert!(warnings[0].starts_with("clock: the data is 259200 s ahead"), "{warnings:?}");
    let acme = right.workspace(&id("acme")).unwrap();
    acme.send_otp(SendOtp::to(phone(1))).await.unwrap_err();
    let sent = acme.send_otp(SendOtp::to(phone(2))).await.unwrap().request_id;
    run(&right, 330).await;
    assert_eq!(acme.otp(sent).await.unwrap().status, OtpStatus::Expired, "codes end");
    run(&right, 300).await;
    acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_glitch_beyond_the_days_of_events_deletes_none_of_them() {
    let store = CrashingStore::new();
    let events = EventOptions { kept_for: 2 * DAY, ..EventOptions::default() };
    let engine = Engine::start(EngineOptions { events, ..options(store, START) }).await.unwrap();
    let acme = workspace(&engine, "acme", 100).await;
    for number in 1..=20 {
        acme.send_otp(SendOtp::to(phone(number))).await.unwrap();
    }
    // Longer than the pause between two checks of the event logs.
    run(&engine, 90).await;
    let before = log(&acme).await;
    assert!(before.len() >= 20);
    // The clock is wrong for a moment, and then for some minutes.
    glitch(&engine, |right| right.plus(400 * DAY)).await;
    run(&engine, 90).await;
    let right = engine.clock().real();
    engine.clock().set_wall(right.plus(400 * DAY));
    run(&engine, 180).await;
    engine.clock().set_wall(engine.clock().real());
    run(&engine, 180).await;
    let after = log(&acme).await;
    assert_eq!(after[..before.len()], before[..], "every event is there");
}

#[tokio::test(start_paused = true)]
async fn whatever_is_durable_moves_the_last_durable_moment() {
    let store = CrashingStore::new();
    let ahead = engine(&store, START).await;
    let acme = workspace(&ahead, "acme", 0).await;
    ahead.clock().pass(HOUR);
    // A contact leaves nothing in the journal.
    let contact = NewContact {
        name: ContactName::new("Ada").unwrap(),
        phone: Some(phone(1)),
        email: None,
        tags: Tags::new([""; 0].iter()).unwrap(),
        custom_fields: CustomFields::new(&serde_json::json!({})).unwrap(),
    };
    acme.create_contact(contact, None).await.unwrap();
    assert_eq!(ahead.durable_moment(), Some(START.plus(HOUR)));
    let store = store.crash(postrider_store::Keep::Nothing);
    drop((ahead, acme));
    let right = engine(&store, START).await;
    assert!(right.clock().now() > START.plus(HOUR), "nothing durable is of the future");
    assert_eq!(right.clock().health().lead, HOUR + Duration::from_millis(1));
}

//! Engine time that is moved, and kept.

use postrider_actors::{EngineOptions, OtpStatus};
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
    // An engine that is started again on the very clock of the one before finds it there already.
    let same = EngineOptions { clock, ..options(store, START) };
    let third = Engine::start(same).await.unwrap();
    assert_eq!(third.clock().now(), START.plus(2 * HOUR));
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
    assert_eq!(engine(&store, START).await.clock().now(), START.plus(3 * HOUR));
}

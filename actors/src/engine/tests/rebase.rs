//! The clock of data is rebased that a clock wrote which was ahead.

use tempfile::TempDir;

use super::number_claims::cloud_number;
use super::snapshots::{generations, position, start_at};
use super::*;
use crate::engine::stored_clock::{ClockRebase, rebase_stopped};
use crate::{AuditFilter, OtpStatus};
use postrider_store::directory::open_stopped;
use postrider_store::{Direction, Keep};
use postrider_workspace::{IdempotencyKey, Route};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The time for which a code is valid.
const EXPIRY: Duration = Duration::from_secs(300);

/// Sends a code under an idempotency key. Returns its request, and whether it is the first answer
/// again.
async fn once(acme: &Workspace) -> (RequestId, bool) {
    let key = IdempotencyKey::new(Route::SendOtp, "key", b"");
    let sent = acme.send_otp_once(SendOtp::to(phone(2)), key).await.unwrap();
    (sent.answer.request_id, sent.replayed)
}

/// The requests of an engine whose clock was ahead.
struct Ahead {
    /// A code under an idempotency key.
    once: RequestId,
    /// A code that nobody submits.
    lost: RequestId,
}

/// Uses up the limits of a phone, and sends two codes to others.
async fn use_ahead(engine: &Engine) -> Ahead {
    let acme = workspace(engine, "acme", 100).await;
    while acme.send_otp(SendOtp::to(phone(1))).await.is_ok() {}
    let lost = acme.send_otp(SendOtp::to(phone(3))).await.unwrap().request_id;
    Ahead { once: once(&acme).await.0, lost }
}

async fn expires_at(acme: &Workspace, request: RequestId) -> Timestamp {
    acme.otp(request).await.unwrap().expires_at
}

/// Asserts that codes, windows and keys count as just now, for an engine that began at `at`.
async fn assert_rebased(engine: &Engine, to: Timestamp, ahead: &Ahead) {
    let acme = engine.workspace(&id("acme")).unwrap();
    assert_eq!(engine.health().warnings, [""; 0]);
    for request in [ahead.once, ahead.lost] {
        assert_eq!(expires_at(&acme, request).await, to.plus(EXPIRY));
        assert_eq!(acme.otp(request).await.unwrap().status, OtpStatus::Active);
    }
    assert_eq!(once(&acme).await, (ahead.once, true), "the first answer again");
    acme.send_otp(SendOtp::to(phone(1))).await.unwrap_err();
    let right = code(acme.id(), ahead.once, phone(2));
    assert_eq!(acme.verify_otp(ahead.once, &right).await, Ok(Verification::Verified));
}

/// Asserts that codes end and windows roll.
async fn assert_time_goes_on(engine: &Engine, to: Timestamp, ahead: &Ahead) {
    let acme = engine.workspace(&id("acme")).unwrap();
    let new = acme.send_otp(SendOtp::to(phone(4))).await.unwrap();
    assert!(new.expires_at.since(to) < EXPIRY + 60 * SECOND, "{}", new.expires_at);
    engine.pass(EXPIRY).await;
    assert_eq!(acme.otp(ahead.lost).await.unwrap().status, OtpStatus::Expired);
    let emitted = log(&acme).await;
    assert!(kinds(&emitted).contains(&"otp.expired"), "{:?}", kinds(&emitted));
    engine.pass(EXPIRY).await;
    acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
    engine.pass(DAY).await;
    assert!(!once(&acme).await.1, "the key is free after a day");
}

#[tokio::test(start_paused = true)]
async fn what_a_clock_wrote_that_was_ahead_counts_as_just_now() {
    let mut store = CrashingStore::new();
    let engine_ahead = engine(&store, START.plus(3 * DAY)).await;
    let ahead = use_ahead(&engine_ahead).await;
    let acme = engine_ahead.workspace(&id("acme")).unwrap();
    assert_eq!(expires_at(&acme, ahead.lost).await, START.plus(3 * DAY + EXPIRY));
    engine_ahead.shutdown(LONG).await.unwrap();
    drop((engine_ahead, acme));
    // A start with the right clock goes on ahead, and says so.
    let right = engine(&store, START).await;
    assert!(right.health().warnings[0].starts_with("clock: the data is 259200 s ahead"));
    right.shutdown(LONG).await.unwrap();
    drop(right);

    let rebase = || rebase_stopped(&store, &Clock::manual(START));
    let done = rebase().unwrap();
    assert!(done.from >= START.plus(3 * DAY), "{done:?}");
    assert_eq!(done.to, START);
    assert_eq!(rebase(), None, "there is nothing more to be done");
    // Crashed at once: the rebase is durable by itself.
    store = store.crash(Keep::Nothing);
    let at = START.plus(30 * SECOND);
    let first = engine(&store, at).await;
    assert_eq!(first.clock().now(), at);
    assert_rebased(&first, START, &ahead).await;
    // It holds over a crash, and over a workspace that is rebuilt by itself.
    store = store.crash(Keep::Nothing);
    drop(first);
    let again = engine(&store, at).await;
    let acme = again.workspace(&id("acme")).unwrap();
    again.shared().workspaces.slot(&id("acme")).unwrap().live().unwrap().kill();
    healed(&acme).await;
    assert_eq!(expires_at(&acme, ahead.lost).await, START.plus(EXPIRY));
    assert_time_goes_on(&again, at, &ahead).await;
    again.shutdown(LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_rebase_is_in_the_audit_log() {
    let store = CrashingStore::new();
    let ahead = engine(&store, START.plus(3 * DAY)).await;
    ahead.shutdown(LONG).await.unwrap();
    drop(ahead);
    let ClockRebase { from, .. } = rebase_stopped(&store, &Clock::manual(START)).unwrap();
    let right = engine(&store, START.plus(SECOND)).await;
    let filter =
        AuditFilter { since: Some(START), until: Some(START.plus(DAY)), ..Default::default() };
    let page = right.audit().page(filter, Direction::Forward, None, 9).await.unwrap();
    let records: Vec<_> = page.rows.iter().map(|row| &row.record).collect();
    let actions: Vec<_> = records.iter().map(|record| &*record.action).collect();
    assert_eq!(actions, ["clock.rebase", "server.start"]);
    let moments = ["from", "to"].map(|name| records[0].changes[name].as_str().unwrap());
    assert_eq!(moments, [from.to_string().as_str(), START.to_string().as_str()]);
    assert_eq!(page.rows[1].mark.at, START.plus(SECOND), "records have the right time again");
    assert_eq!(right.audit().verify(None).await.unwrap().fault, None);
}

/// Rebases the data of a directory.
async fn rebase_directory(dir: &TempDir) -> ClockRebase {
    let open = || open_stopped(dir.path()).ok();
    until("the engine lets go of its store", async || open().is_some()).await;
    rebase_stopped(&open().unwrap(), &Clock::manual(START)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_rebase_is_folded_into_snapshots() {
    for every in [1, u64::MAX] {
        let dir = tempfile::tempdir().unwrap();
        let engine = start_at(dir.path(), START.plus(3 * DAY), every).await;
        let ahead = use_ahead(&engine).await;
        if every == 1 {
            until("a snapshot is taken", async || !generations(&dir).is_empty()).await;
        }
        engine.shutdown(LONG).await.unwrap();
        drop(engine);
        rebase_directory(&dir).await;
        let before = generations(&dir).last().map_or(0, |newest| position(newest));
        let engine = start_at(dir.path(), START.plus(SECOND), 1).await;
        assert_rebased(&engine, START, &ahead).await;
        let acme = engine.workspace(&id("acme")).unwrap();
        let next = std::cell::Cell::new(10);
        until("two snapshots have it in", async || {
            acme.send_otp(SendOtp::to(phone(next.replace(next.get() + 1)))).await.ok();
            let kept = generations(&dir);
            kept.len() == 2 && kept.iter().all(|generation| position(generation) > before)
        })
        .await;
        engine.shutdown(LONG).await.unwrap();
        drop((engine, acme));
        let engine = start_at(dir.path(), START.plus(2 * SECOND), 1).await;
        let acme = engine.workspace(&id("acme")).unwrap();
        assert_eq!(expires_at(&acme, ahead.lost).await, START.plus(EXPIRY));
        assert_eq!(expires_at(&acme, ahead.once).await, START.plus(EXPIRY));
        acme.send_otp(SendOtp::to(phone(1))).await.unwrap_err();
        engine.pass(600 * SECOND).await;
        acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
        engine.shutdown(LONG).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_number_that_a_clock_checked_which_was_ahead_is_checked_again() {
    let store = CrashingStore::new();
    let ahead = engine(&store, START.plus(3 * DAY)).await;
    ahead.admin().create_workspace(id("acme"), "acme".to_owned()).await.unwrap();
    let number = ahead.admin().connect_number(&id("acme"), cloud_number()).await.unwrap().id;
    let checked_at = async |engine: &Engine| {
        let acme = engine.workspace(&id("acme")).unwrap();
        acme.last_check(number).await.unwrap().map(|check| check.at)
    };
    until("it is checked", async || checked_at(&ahead).await.is_some()).await;
    ahead.shutdown(LONG).await.unwrap();
    drop(ahead);
    rebase_stopped(&store, &Clock::manual(START)).unwrap();
    let right = engine(&store, START).await;
    assert!(checked_at(&right).await > Some(START), "it is of the wrong time");
    // By itself, long before the wrong time has come.
    let is_checked = async || {
        right.pass(3601 * SECOND).await;
        checked_at(&right).await < Some(START.plus(2 * DAY))
    };
    until("it is checked by itself", is_checked).await;
    right.shutdown(LONG).await.unwrap();
}

//! Tests that a workspace's usage is counted as a scan would count it, and that a full disk ends.

use std::sync::atomic::{AtomicU64, Ordering};

use postrider_domain::Limits;
use postrider_store::{FreeSpace, StoreError, Usage};

use super::support::broadcasts::{becomes, broadcast_to, create, with_template};
use super::support::messages::wrote;
use super::*;
use crate::BroadcastStatus;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Checks that the counted usage is the real one.
fn check(store: &CrashingStore, name: &str) -> Usage {
    let counted = Usage::of(store, &id(name)).unwrap();
    assert_eq!(counted, Usage::scan(store, &id(name)).unwrap(), "{name}");
    counted
}

#[tokio::test(start_paused = true)]
async fn what_is_used_is_what_a_scan_finds_after_sends_sweeps_and_crashes() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = with_template(&engine).await;
    let other = workspace(&engine, "other", 10).await;
    let number = engine.admin().numbers(&id("acme")).await.unwrap()[0].id;
    let sale = create(&acme, broadcast_to(3000)).await;
    becomes(&acme, sale, BroadcastStatus::Completed).await;
    for person in 0..30 {
        acme.receive(number, wrote(phone(person), "in", START)).await.unwrap();
        acme.send_otp(SendOtp::to(phone(person))).await.unwrap();
    }
    other.send_otp(SendOtp::to(phone(1))).await.unwrap();
    engine.beat().await;
    let full = check(&store, "acme");
    assert_eq!(full.broadcasts, 1);
    let few = check(&store, "other");
    assert!(few.bytes > 0 && few.bytes < full.bytes / 10, "{few:?} {full:?}");
    // Records with a retention time no longer count once they are deleted.
    for _ in 0..5 {
        engine.pass(100 * DAY).await;
        drop(acme.otp(RequestId::from_parts(START, 0)).await);
        engine.beat().await;
    }
    until("the broadcast is deleted", async || check(&store, "acme").broadcasts == 0).await;
    assert!(check(&store, "acme").bytes < full.bytes / 2);
    let store = store.crash(postrider_store::Keep::Nothing);
    drop(engine);
    let later = START.plus(600 * DAY);
    let again = Engine::start(options(store.clone(), later)).await.unwrap();
    check(&store, "acme");
    drop(again);
}

/// A disk whose free space the test sets.
struct FakeDisk(Arc<AtomicU64>);

impl FreeSpace for FakeDisk {
    fn free_bytes(&self) -> Result<u64, StoreError> {
        Ok(self.0.load(Ordering::SeqCst))
    }
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_gets_full_is_noticed_and_so_is_its_end() {
    let free = Arc::new(AtomicU64::new(2000));
    let options = EngineOptions {
        free_bytes_min: 1000,
        free_space: Some(Arc::new(FakeDisk(Arc::clone(&free)))),
        limits: Limits { otp_per_phone_10m: 0, ..Limits::default() },
        ..options(CrashingStore::new(), START)
    };
    let engine = Engine::start(options).await.unwrap();
    let acme = workspace(&engine, "acme", 1000).await;
    let sent = acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
    let sends = async || match acme.send_otp(SendOtp::to(phone(1))).await {
        Ok(_) => true,
        Err(crate::SendOtpError::Unavailable(why)) => {
            assert_eq!(why.reason, UnavailableReason::DiskFull);
            false
        }
        Err(error) => panic!("{error}"),
    };
    free.store(700, Ordering::SeqCst);
    until("sends are refused", async || !sends().await).await;
    assert!(engine.health().ready);
    assert!(engine.health().warnings[0].starts_with("disk: 700 bytes are free"));
    acme.verify_otp(sent.request_id, "x").await.unwrap();
    free.store(400, Ordering::SeqCst);
    until("checks are refused", async || acme.verify_otp(sent.request_id, "x").await.is_err())
        .await;
    free.store(1000, Ordering::SeqCst);
    until("sends are taken", sends).await;
    assert!(engine.health().warnings.is_empty());
}

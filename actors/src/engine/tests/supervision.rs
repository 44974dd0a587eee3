//! Tests that a failed workspace is rebuilt from durable data, or parked, unnoticed by others.

use crate::admin::WorkspaceState;
use crate::{
    AdminError, ChangeError, NewKey, OtpStatus, ReadOtpError, ResendOtpError, SendOtpError,
    Unavailable, VerifyOtpError,
};
use postrider_store::Log;
use postrider_store::{Change, CrashOutcome, Frame, Group, MemoryStore, Position, Section, Table};
use postrider_workspace::mailbox::message::WorkspaceMessage;

use super::*;

fn storage() -> Unavailable {
    Unavailable::because(UnavailableReason::Storage)
}

#[tokio::test(start_paused = true)]
async fn an_engine_whose_supervisor_died_is_unready_and_has_ended() {
    let engine = engine(&CrashingStore::new(), START).await;
    assert_eq!(engine.health().reasons, [""; 0]);
    assert!(is_pending(engine.ended()).await);
    engine.inner.root.kill();
    engine.ended().await;
    assert!(!engine.health().ready);
}

/// Returns whether the future is pending while nothing happens.
async fn is_pending(ended: impl Future<Output = ()>) -> bool {
    tokio::time::timeout(Duration::from_secs(60), ended).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn a_failed_commit_is_reported_to_everyone_and_undone() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = workspace(&engine, "acme", 10).await;
    let sent = acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
    let request = sent.request_id;
    // The number's reports are written before the failure.
    until("it is sent", async || {
        acme.otp(request).await.is_ok_and(|otp| otp.delivery == crate::Delivery::Sent)
    })
    .await;
    let right = code(acme.id(), request, phone(1));
    let actor = engine.actor("acme");
    store.fail_next_commits(1, CrashOutcome::Lost);
    let id = id("acme");
    let change = engine.admin().add_credits(&id, 5);
    let (send, resend, verify, read, change) = tokio::join!(
        acme.send_otp(SendOtp::to(phone(2))),
        acme.resend_otp(request),
        acme.verify_otp(request, &right),
        acme.otp(request),
        change,
    );
    assert_eq!(send, Err(SendOtpError::Unavailable(storage())));
    // The commands behind it, whether they reached the commit or not.
    let unknown = |why: Unavailable| {
        matches!(why.reason, UnavailableReason::Storage | UnavailableReason::Restarting)
    };
    let Err(ResendOtpError::Refused(SendOtpError::Unavailable(why))) = resend else { panic!() };
    assert!(unknown(why));
    let Err(VerifyOtpError::Unavailable(why)) = verify else { panic!() };
    assert!(unknown(why));
    let Err(ReadOtpError::Unavailable(why)) = read else { panic!("it is not durable") };
    assert!(unknown(why));
    let Err(AdminError::Change(ChangeError::Unavailable(why))) = change else { panic!() };
    assert!(unknown(why));

    healed(&acme).await;
    assert_ne!(engine.actor("acme"), actor);
    let state = acme.otp(request).await.unwrap();
    assert_eq!((state.status, state.attempts_remaining), (OtpStatus::Active, 5));
    assert_eq!(credits(&engine, "acme").await, 9);
    assert_eq!(kinds(&log(&acme).await), ["otp.sent"]);
    assert_eq!(acme.verify_otp(request, &right).await, Ok(Verification::Verified));
    engine.shutdown(LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_failed_but_is_durable_holds() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = workspace(&engine, "acme", 10).await;
    let request = acme.send_otp(SendOtp::to(phone(1))).await.unwrap().request_id;
    let right = code(&id("acme"), request, phone(1));
    until("it is sent", async || {
        acme.otp(request).await.is_ok_and(|otp| otp.delivery == crate::Delivery::Sent)
    })
    .await;
    store.fail_next_commits(1, CrashOutcome::Kept);
    let verify = acme.verify_otp(request, &right).await;
    assert_eq!(verify, Err(VerifyOtpError::Unavailable(storage())));
    healed(&acme).await;
    assert_eq!(acme.verify_otp(request, &right).await, Err(VerifyOtpError::AlreadyVerified));
    assert_eq!(kinds(&log(&acme).await), ["otp.sent", "otp.verified"]);
}

#[tokio::test(start_paused = true)]
async fn another_workspace_keeps_its_actor_and_its_state() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let (acme, other) = (workspace(&engine, "acme", 10).await, workspace(&engine, "b", 10).await);
    acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
    let request = other.send_otp(SendOtp::to(phone(1))).await.unwrap().request_id;
    until("it is sent", async || {
        other.otp(request).await.is_ok_and(|otp| otp.delivery == crate::Delivery::Sent)
    })
    .await;
    let (failing, healthy) = (engine.actor("acme"), engine.actor("b"));
    store.fail_next_commits(1, CrashOutcome::Lost);
    acme.send_otp(SendOtp::to(phone(2))).await.unwrap_err();
    healed(&acme).await;
    assert_ne!(engine.actor("acme"), failing);
    assert_eq!(engine.actor("b"), healthy);
    let right = code(&id("b"), request, phone(1));
    assert_eq!(other.verify_otp(request, &right).await, Ok(Verification::Verified));
    assert!(engine.health().ready);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stays_shut_is_waited_for() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = workspace(&engine, "acme", 10).await;
    store.fail_next_reopens(4);
    store.fail_next_commits(1, CrashOutcome::Lost);
    acme.send_otp(SendOtp::to(phone(1))).await.unwrap_err();
    assert!(!engine.health().ready);
    let again = acme.send_otp(SendOtp::to(phone(1))).await;
    assert!(matches!(again, Err(SendOtpError::Unavailable(_))), "{again:?}");
    healed(&acme).await;
    assert!(engine.health().ready);
    acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn workspaces_are_listed_while_one_restarts() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = workspace(&engine, "acme", 10).await;
    workspace(&engine, "b", 10).await;
    store.fail_next_commits(1, CrashOutcome::Lost);
    acme.send_otp(SendOtp::to(phone(1))).await.unwrap_err();
    until("the store is open again", async || engine.health().ready).await;
    assert_eq!(engine.admin().workspaces(0, 9).await.unwrap().1, 2);
}

/// Returns a store with a workspace's journal that has a section without valid events.
fn damaged() -> MemoryStore {
    let store = MemoryStore::new();
    let section = Section { workspace: id("acme"), events: vec![0xff; 40] };
    let frame =
        Frame { epoch: 1, number: store.last_position().unwrap().next(), sections: vec![section] };
    assert_eq!(frame.number, Position(1));
    let profile = br#"{"name":"Acme","created_at":1700000000000,"limits":{},
        "otp_template":null,"destinations":{"allow":[],"deny":[]}}"#;
    let change = Change::put(Table::Workspaces, b"acme\0profile", *profile);
    store.commit(Group::new(Some(&frame), &[change])).unwrap();
    store
}

#[tokio::test(start_paused = true)]
async fn a_damaged_journal_parks_its_workspace_only() {
    let engine = Engine::start(options(damaged(), START)).await.unwrap();
    let state = || async { engine.admin().workspace(&id("acme")).await.unwrap().state };
    until("it is parked", async || matches!(state().await, WorkspaceState::Parked(_))).await;
    let WorkspaceState::Parked(reason) = state().await else { unreachable!() };
    assert_eq!(reason, "frame 1: not an event of this version");
    let acme = engine.workspace(&id("acme")).unwrap();
    for _ in 0..3 {
        let Err(SendOtpError::Unavailable(why)) = acme.send_otp(SendOtp::to(phone(1))).await else {
            panic!("it is parked")
        };
        assert_eq!(why.reason, UnavailableReason::Parked(reason.clone()));
        assert_eq!(why.retry_after, Duration::from_secs(60));
        // Longer than any restart could take.
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert!(engine.actor("acme").is_none());
    }
    assert_eq!(log(&acme).await, [], "what can be read is read");
    let other = workspace(&engine, "b", 10).await;
    other.send_otp(SendOtp::to(phone(1))).await.unwrap();
    assert_eq!(engine.admin().workspaces(0, 9).await.unwrap().1, 2);
    engine.shutdown(LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn damaged_records_do_not_keep_the_engine_from_starting() {
    let store = CrashingStore::new();
    let first = engine(&store, START).await;
    let other = workspace(&first, "b", 10).await;
    workspace(&first, "acme", 10).await;
    let key = |name: &str| NewKey::new(name, postrider_domain::Scopes::default());
    let ours = first.admin().create_key(&id("acme"), key("ours")).await.unwrap();
    let theirs = first.admin().create_key(other.id(), key("theirs")).await.unwrap();
    let bad = first.admin().create_key(other.id(), key("bad")).await.unwrap();
    first.shutdown(LONG).await.unwrap();
    drop((first, other));

    let profile = Change::put(Table::Workspaces, b"acme\0profile", b"{");
    let record = Change::put(Table::Keys, *bad.info.id.as_bytes(), b"no key");
    store.commit(Group::new(None, &[profile, record])).unwrap();
    let second = engine(&store, START).await;
    assert!(second.access().authenticate(theirs.key.reveal()).is_some());
    assert!(second.access().authenticate(bad.key.reveal()).is_none());
    let caller = second.access().authenticate(ours.key.reveal()).unwrap();
    caller.workspace.send_otp(SendOtp::to(phone(1))).await.unwrap_err();
    until("it is parked", async || {
        let answer = caller.workspace.send_otp(SendOtp::to(phone(1))).await;
        matches!(answer, Err(SendOtpError::Unavailable(why))
            if matches!(&why.reason, UnavailableReason::Parked(_)))
    })
    .await;
    let other = second.workspace(&id("b")).unwrap();
    other.send_otp(SendOtp::to(phone(1))).await.unwrap();
    let (all, _) = second.admin().workspaces(0, 9).await.unwrap();
    let states: Vec<_> = all.into_iter().map(|info| info.state).collect();
    assert!(matches!(&states[..], [WorkspaceState::Parked(_), WorkspaceState::Live]), "{states:?}");
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_is_killed_is_replaced() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = workspace(&engine, "acme", 10).await;
    let request = acme.send_otp(SendOtp::to(phone(1))).await.unwrap().request_id;
    let actor = engine.shared().workspaces.slot(&id("acme")).unwrap().live().unwrap();
    actor.kill();
    healed(&acme).await;
    assert_eq!(acme.otp(request).await.unwrap().status, OtpStatus::Active);
    assert_ne!(engine.actor("acme"), Some(actor.get_id()));
    drop(actor.cast(WorkspaceMessage::Tick));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_engine_lets_go_of_everything() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = workspace(&engine, "acme", 10).await;
    acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
    let shared = Arc::downgrade(engine.shared());
    drop((engine, acme));
    until("nothing holds it", async || shared.upgrade().is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_waits_for_what_it_reports() {
    let store = postrider_store::hooked::Gated::default();
    let engine = Engine::start(options(store.clone(), START)).await.unwrap();
    let acme = workspace(&engine, "acme", 1).await;
    let number = engine.admin().numbers(acme.id()).await.unwrap()[0].id;
    store.shut();
    let disconnect = || {
        let engine = engine.clone();
        tokio::spawn(async move { engine.admin().disconnect_number(&id("acme"), number).await })
    };
    let (first, second) = (disconnect(), disconnect());
    let turns = async || {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    };
    // The workspace receives the first report before the send.
    turns().await;
    let send = tokio::spawn(async move { acme.send_otp(SendOtp::to(phone(1))).await });
    turns().await;
    assert!(!second.is_finished() && !send.is_finished(), "the disconnection is not durable");
    store.open();
    first.await.unwrap().unwrap();
    let no_such_number = AdminError::Change(ChangeError::NoSuchNumber);
    assert_eq!(second.await.unwrap(), Err(no_such_number));
    assert_eq!(send.await.unwrap(), Err(SendOtpError::NotConnected));
}

//! Tests that an idle workspace costs no actor, without a visible effect.

use crate::admin::WorkspaceState;
use postrider_domain::LimitsOverride;
use postrider_store::View;
use postrider_workspace::mailbox::message::WorkspaceMessage;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

async fn idle(engine: &Engine, name: &str) {
    until("it is idle", async || {
        engine.admin().workspace(&id(name)).await.unwrap().state == WorkspaceState::Idle
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn it_goes_when_everything_is_forgotten_and_comes_back_on_the_next_command() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = workspace(&engine, "acme", 10).await;
    let limit = LimitsOverride { otp_per_phone_10m: Some(1), ..LimitsOverride::default() };
    engine.admin().set_limits(&id("acme"), limit).await.unwrap();
    let request = acme.send_otp(SendOtp::to(phone(1))).await.unwrap().request_id;
    acme.verify_otp(request, &code(acme.id(), request, phone(1))).await.unwrap();
    until("it is sent", async || {
        acme.otp(request).await.is_ok_and(|otp| otp.delivery == crate::Delivery::Sent)
    })
    .await;
    engine.pass(Duration::from_secs(299) + HOUR).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(engine.actor("acme").is_some(), "it still knows the request");
    engine.pass(Duration::from_secs(1)).await;
    idle(&engine, "acme").await;

    let state = || async { engine.admin().workspace(&id("acme")).await.unwrap() };
    let info = state().await;
    assert_eq!((info.credits, info.limits.otp_per_phone_10m, info.numbers), (9, 1, 1));
    assert_eq!(info.state, WorkspaceState::Idle, "looking does not wake it");
    assert_eq!(log(&acme).await.len(), 2, "nor does reading its log");
    assert!(engine.actor("acme").is_none());

    acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
    acme.send_otp(SendOtp::to(phone(1))).await.unwrap_err();
    assert_eq!(state().await.credits, 8);
    let sequences: Vec<_> = log(&acme).await.iter().map(|entry| entry.sequence).collect();
    assert_eq!(sequences, [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn one_that_was_idle_and_dies_is_rebuilt_from_the_journal() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = workspace(&engine, "acme", 10).await;
    for round in 0..3 {
        idle(&engine, "acme").await;
        let request = acme.send_otp(SendOtp::to(phone(round))).await.unwrap().request_id;
        engine.shared().workspaces.slot(&id("acme")).unwrap().live().unwrap().kill();
        healed(&acme).await;
        acme.otp(request).await.unwrap();
        engine.pass(2 * HOUR).await;
    }
    idle(&engine, "acme").await;
    assert_eq!(log(&acme).await.len(), 6);
}

/// A command that arrives at that moment is answered, by the old actor or the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_races_with_it_is_answered() {
    const ROUNDS: u64 = 300;
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = workspace(&engine, "acme", 0).await;
    let slot = engine.shared().workspaces.slot(&id("acme")).unwrap();
    let mut actors = 0;
    let mut last = None;
    for round in 0..ROUNDS {
        if let Some(actor) = slot.live() {
            actors += u64::from(last.replace(actor.get_id()) != Some(actor.get_id()));
            drop(actor.cast(WorkspaceMessage::Tick));
        }
        // An actor that could not passivate yet is asked again: its own timer is a second away.
        while round % 2 == 0
            && let Some(actor) = slot.live()
        {
            drop(actor.cast(WorkspaceMessage::Tick));
            tokio::task::yield_now().await;
        }
        for _ in 0..round % 7 {
            tokio::task::yield_now().await;
        }
        let add = || async { engine.admin().add_credits(&id("acme"), 1).await };
        let unknown = RequestId::from_parts(START, round.into());
        let (one, two, read) = tokio::join!(add(), add(), acme.otp(unknown));
        assert_eq!((one.is_ok(), two.is_ok()), (true, true), "{round}: {one:?} {two:?}");
        assert_eq!(read, Err(crate::ReadOtpError::NotFound), "{round}");
    }
    assert!(actors >= ROUNDS / 2, "{actors} actors: it never let go");
    assert_eq!(credits(&engine, "acme").await, 2 * ROUNDS);
    engine.shutdown(LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_start_wakes_only_who_has_something_hot() {
    let store = CrashingStore::new();
    let first = engine(&store, START).await;
    let (acme, _) = (workspace(&first, "acme", 10).await, workspace(&first, "b", 10).await);
    acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
    first.shutdown(LONG).await.unwrap();
    let second = engine(&store, START).await;
    assert!(second.actor("acme").is_some());
    assert!(second.actor("b").is_none());
}

/// No command comes: records with a retention time are deleted all the same.
#[tokio::test(start_paused = true)]
async fn what_is_over_is_forgotten_of_those_that_rest() {
    use super::support::broadcasts::{becomes, broadcast_to, create, with_template};
    use postrider_store::{Direction, Table};
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = with_template(&engine).await;
    let others: Vec<_> = (0..50).map(|number| format!("other-{number}")).collect();
    for other in &others {
        workspace(&engine, other, 0).await;
    }
    let key = crate::IdempotencyKey::new(crate::Route::CreateBroadcast, "once", b"");
    acme.create_broadcast(broadcast_to(3), Some(key)).await.unwrap();
    let sale = create(&acme, broadcast_to(3)).await;
    becomes(&acme, sale, crate::BroadcastStatus::Completed).await;
    let rest = async || {
        for name in others.iter().map(String::as_str).chain(["acme"]) {
            idle(&engine, name).await;
        }
    };
    rest().await;
    let kept = |table| {
        let mut count = 0;
        let visit = &mut |_: &[u8], _: &[u8]| {
            count += 1;
            std::ops::ControlFlow::Continue(())
        };
        store.scan(table, b"", None, Direction::Forward, visit).unwrap();
        count
    };
    assert!(kept(Table::Idempotency) > 0);
    engine.pass(25 * HOUR).await;
    until("the key is forgotten", async || kept(Table::Idempotency) == 0).await;
    rest().await;
    assert!(kept(Table::BroadcastAudience) > 0 && kept(Table::Broadcasts) > 0);
    engine.pass(366 * 24 * HOUR).await;
    until("the broadcasts are gone", async || {
        kept(Table::BroadcastAudience) + kept(Table::Broadcasts) == 0
    })
    .await;
    rest().await;
}

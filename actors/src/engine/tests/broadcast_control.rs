//! Tests of broadcasts that are paused, stopped, resumed and repeated, and that start late.

use crate::{
    Broadcast, BroadcastCounts, BroadcastError, BroadcastStatus, CreateBroadcastError,
    NewBroadcast, RecipientStatus, RetryBroadcastError, ScriptedOutcome, UseTemplateError,
};
use postrider_domain::template::TemplateStatus;
use postrider_domain::{BroadcastId, EventKind};

use super::broadcasts::{counts, delivered};
use super::support::broadcasts::{CREDITS, becomes, broadcast_to, create, with_template};
use super::*;

/// The maximum number of messages that leave after a pause. It covers the channel's first messages
/// of a number, and those that follow before the number is notified.
const AFTER_A_PAUSE: usize = 500;

/// Creates a broadcast to 5,000 recipients of which the channel has as many as it accepts.
async fn begun(engine: &Engine, acme: &Workspace) -> BroadcastId {
    engine.sandbox().script(&id("acme"), None, ScriptedOutcome::Slow, None);
    let sale = create(acme, broadcast_to(5000)).await;
    becomes(acme, sale, BroadcastStatus::Sending).await;
    sale
}

/// Passes time until the broadcast has this status.
async fn in_time_becomes(engine: &Engine, acme: &Workspace, id: BroadcastId, is: BroadcastStatus) {
    until(is.as_str(), async || {
        engine.pass(Duration::from_secs(5)).await;
        acme.broadcast(id).await.is_ok_and(|found| found.status == is)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_broadcast_sends_nothing_that_the_channel_does_not_have() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = with_template(&engine).await;
    let sale = begun(&engine, &acme).await;
    acme.pause_broadcast(sale).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    for _ in 0..20 {
        engine.pass(Duration::from_secs(5)).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    until("all of it is noted", async || {
        acme.broadcast(sale).await.unwrap().counts.sent as usize == delivered(&engine).len()
    })
    .await;
    let held = acme.broadcast(sale).await.unwrap();
    assert_eq!(held.status, BroadcastStatus::Paused);
    assert!(held.counts.sent as usize <= AFTER_A_PAUSE, "{:?}", held.counts);
    assert_eq!(held.counts.pending, 5000 - held.counts.sent);
    let again = acme.pause_broadcast(sale).await;
    assert_eq!(again, Err(BroadcastError::WrongState(BroadcastStatus::Paused)));
    engine.sandbox().script(&id("acme"), None, ScriptedOutcome::Sent, None);
    acme.resume_broadcast(sale).await.unwrap();
    in_time_becomes(&engine, &acme, sale, BroadcastStatus::Completed).await;
    let done = acme.broadcast(sale).await.unwrap();
    assert_eq!(done.counts, counts(|counts| counts.sent = 5000));
    assert!(delivered(&engine).values().all(|times| *times == 1));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_broadcast_pays_back_all_that_the_channel_does_not_have() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = with_template(&engine).await;
    let sale = begun(&engine, &acme).await;
    acme.cancel_broadcast(sale).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    until("the credits", async || {
        engine.pass(Duration::from_secs(5)).await;
        let found = acme.broadcast(sale).await.unwrap();
        credits(&engine, "acme").await == CREDITS - u64::from(found.counts.sent)
    })
    .await;
    let found = acme.broadcast(sale).await.unwrap();
    assert!(found.counts.sent as usize <= AFTER_A_PAUSE, "{:?}", found.counts);
    assert_eq!(found.counts.cancelled, 5000 - found.counts.sent);
    assert_eq!(delivered(&engine).len(), found.counts.sent as usize);
}

#[tokio::test(start_paused = true)]
async fn without_its_number_a_broadcast_is_held_and_nobody_has_failed() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = with_template(&engine).await;
    let sale = begun(&engine, &acme).await;
    let number = engine.admin().numbers(&id("acme")).await.unwrap()[0].id;
    engine.admin().disconnect_number(&id("acme"), number).await.unwrap();
    in_time_becomes(&engine, &acme, sale, BroadcastStatus::Paused).await;
    let held = acme.broadcast(sale).await.unwrap();
    assert_eq!(held.reason.as_deref(), Some("the messaging number was disconnected"));
    assert_eq!(held.counts.failed, 0, "{:?}", held.counts);
    engine.sandbox().script(&id("acme"), None, ScriptedOutcome::Sent, None);
    engine.admin().connect_sandbox_number(&id("acme")).await.unwrap();
    acme.resume_broadcast(sale).await.unwrap();
    in_time_becomes(&engine, &acme, sale, BroadcastStatus::Completed).await;
    let done = acme.broadcast(sale).await.unwrap();
    assert_eq!(done.counts, counts(|counts| counts.sent = 5000));
}

/// The outcome of the lost messages is unknown, and none of them is sent again.
#[tokio::test(start_paused = true)]
async fn without_a_number_that_was_down_a_broadcast_is_held_too() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = with_template(&engine).await;
    let sale = begun(&engine, &acme).await;
    until("some are sent", async || {
        engine.pass(Duration::from_secs(5)).await;
        acme.broadcast(sale).await.unwrap().counts.sent > 0
    })
    .await;
    let number = engine.admin().numbers(&id("acme")).await.unwrap()[0].id;
    // While one task always has work, the paused clock does not reach the actor's restart.
    let busy = tokio::spawn(async {
        loop {
            tokio::task::yield_now().await;
        }
    });
    engine.shared().numbers.live().iter().for_each(|number| number.kill());
    while !engine.shared().numbers.live().is_empty() {
        tokio::task::yield_now().await;
    }
    engine.admin().disconnect_number(&id("acme"), number).await.unwrap();
    busy.abort();
    in_time_becomes(&engine, &acme, sale, BroadcastStatus::Paused).await;
    // It may be paused before it is notified of the lost messages.
    until("what was lost is noted", async || {
        acme.broadcast(sale).await.is_ok_and(|held| held.counts.unknown > 0)
    })
    .await;
    let held = acme.broadcast(sale).await.unwrap();
    assert_eq!(held.reason.as_deref(), Some("the messaging number was disconnected"));
    let BroadcastCounts { unknown, sent, .. } = held.counts;
    assert!((1..=1000).contains(&unknown), "{:?}", held.counts);
    let pending = 5000 - unknown - sent;
    assert_eq!(
        held.counts,
        counts(|it| (it.unknown, it.sent, it.pending) = (unknown, sent, pending))
    );
    engine.sandbox().script(&id("acme"), None, ScriptedOutcome::Sent, None);
    engine.admin().connect_sandbox_number(&id("acme")).await.unwrap();
    acme.resume_broadcast(sale).await.unwrap();
    in_time_becomes(&engine, &acme, sale, BroadcastStatus::Completed).await;
    let done = acme.broadcast(sale).await.unwrap();
    assert_eq!(done.counts, counts(|it| (it.unknown, it.sent) = (unknown, 5000 - unknown)));
    assert_eq!(credits(&engine, "acme").await, CREDITS - 5000, "what is unknown may have arrived");
    assert!(delivered(&engine).values().all(|times| *times == 1));
}

#[tokio::test(start_paused = true)]
async fn a_template_that_may_not_be_sent_any_more_holds_or_ends_a_broadcast() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = with_template(&engine).await;
    let set = async |status| acme.set_template_status("sale", "en", status).await.unwrap();
    for (status, becoming) in [
        (TemplateStatus::Paused, BroadcastStatus::Paused),
        (TemplateStatus::Rejected, BroadcastStatus::Failed),
    ] {
        set(TemplateStatus::Approved).await;
        let sale = begun(&engine, &acme).await;
        set(status).await;
        in_time_becomes(&engine, &acme, sale, becoming).await;
        let found = acme.broadcast(sale).await.unwrap();
        assert!(found.reason.unwrap().starts_with("the template is"));
        if becoming == BroadcastStatus::Paused {
            let refused = UseTemplateError::NotApproved(status);
            let resumed = acme.resume_broadcast(sale).await;
            assert_eq!(resumed, Err(BroadcastError::Template(refused)));
            acme.cancel_broadcast(sale).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_failed_ones_are_sent_to_again_once() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = with_template(&engine).await;
    let failing = ScriptedOutcome::Failed { error_code: 131_026 };
    engine.sandbox().script(&id("acme"), Some(phone(1)), failing, Some(1));
    let sale = create(&acme, broadcast_to(3)).await;
    becomes(&acme, sale, BroadcastStatus::Completed).await;
    let retry = acme.retry_broadcast(sale).await.unwrap().broadcast_id;
    let retried = Err(RetryBroadcastError::Create(CreateBroadcastError::Retried(retry)));
    assert_eq!(acme.retry_broadcast(sale).await, retried);
    let done = becomes(&acme, retry, BroadcastStatus::Completed).await;
    assert_eq!((done.counts.sent, done.retry_of), (1, Some(sale)));
    assert_eq!(acme.retry_broadcast(sale).await, retried);
    assert!(delivered(&engine).values().all(|times| *times == 1));
    let failed = Some(RecipientStatus::Failed);
    assert_eq!(acme.broadcast_recipients(sale, failed, 0, 9).await.unwrap().total, 1);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_fails_that_is_noticed_too_late_and_not_one_that_the_sandbox_passes() {
    let at = START.plus(Duration::from_secs(60));
    let late = Duration::from_secs(60 + 3601);
    for (sandbox, is) in [(true, BroadcastStatus::Completed), (false, BroadcastStatus::Failed)] {
        let engine = engine(&CrashingStore::new(), START).await;
        let acme = with_template(&engine).await;
        let sale = create(&acme, NewBroadcast { schedule_at: Some(at), ..broadcast_to(3) }).await;
        engine.beat().await;
        match sandbox {
            true => engine.clock().advance(late),
            false => engine.clock().pass(late),
        }
        engine.beat().await;
        becomes(&acme, sale, is).await;
        let kind = EventKind::BroadcastStarted.as_str();
        assert_eq!(kinds(&log(&acme).await).contains(&kind), sandbox);
    }
}

/// Returns all broadcasts, once they can be read.
async fn listed(acme: &Workspace) -> Vec<Broadcast> {
    for _ in 0..1000 {
        match acme.broadcasts(0, 20).await {
            Ok((rows, _)) => return rows,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    panic!("the list never came");
}

#[tokio::test(start_paused = true)]
async fn one_whose_making_was_not_answered_is_there_wholly_or_not_at_all() {
    use postrider_store::CrashOutcome;
    for outcome in [CrashOutcome::Lost, CrashOutcome::Kept, CrashOutcome::Unsynced] {
        let store = CrashingStore::new();
        let engine = engine(&store, START).await;
        let acme = with_template(&engine).await;
        for commits in 0..4 {
            let count = listed(&acme).await.len() as u64;
            store.fail_after(commits, outcome);
            let made = acme.create_broadcast(broadcast_to(10), None).await;
            healed(&acme).await;
            let rows = listed(&acme).await;
            let now = rows.len() as u64;
            assert!(made.is_err() || now == count + 1);
            for row in rows {
                until("it is sent", async || {
                    acme.broadcast(row.id).await.is_ok_and(|found| found.counts.sent == 10)
                })
                .await;
            }
            until("the credits", async || {
                let acme = engine.admin().workspace(&id("acme")).await;
                acme.is_ok_and(|acme| acme.credits == CREDITS - 10 * now)
            })
            .await;
        }
    }
}

//! Tests of broadcasts from their creation to their end, on stores that fail and crash.

use postrider_store::View;

use crate::{
    BroadcastCounts, BroadcastError, BroadcastPolicy, BroadcastStatus, CreateBroadcastError,
    IdempotentError, NewBroadcast, RecipientStatus, RetryBroadcastError, ScriptedOutcome,
    Variables,
};
use postrider_domain::BroadcastId;
use postrider_domain::template::TemplateStatus;
use postrider_store::{CrashOutcome, Keep};

use super::support::broadcasts::{CREDITS, becomes, broadcast_to, create, with_template};
use super::*;

pub(super) fn counts(change: impl FnOnce(&mut BroadcastCounts)) -> BroadcastCounts {
    let mut counts = BroadcastCounts::default();
    change(&mut counts);
    counts
}

/// Returns how often each phone got a message.
pub(super) fn delivered(engine: &Engine) -> hashbrown::HashMap<Phone, u32> {
    let mut times = hashbrown::HashMap::new();
    for message in engine.sandbox().messages(&id("acme"), None, usize::MAX) {
        *times.entry(message.to.phone().unwrap()).or_default() += 1;
    }
    times
}

#[tokio::test(start_paused = true)]
async fn everybody_gets_one_message_and_everything_is_counted() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = with_template(&engine).await;
    let mut new = broadcast_to(20_001);
    new.audience.add(phone(7), Variables::default());
    let made = acme.create_broadcast(new, None).await.unwrap().answer;
    assert_eq!(made.total_recipients, 20_001);
    assert_eq!(made.status, BroadcastStatus::Queued);
    let done = becomes(&acme, made.broadcast_id, BroadcastStatus::Completed).await;
    assert_eq!(done.counts, counts(|counts| counts.sent = 20_001));
    assert!(done.started_at.is_some() && done.finished_at.is_some() && done.reason.is_none());
    let times = delivered(&engine);
    assert!(times.len() == 20_001 && times.values().all(|times| *times == 1));
    assert_eq!(credits(&engine, "acme").await, CREDITS - 20_001);
    let emitted = kinds(&log(&acme).await);
    assert_eq!(emitted, ["broadcast.created", "broadcast.started", "broadcast.completed"]);
    let page = acme.broadcast_recipients(made.broadcast_id, None, 19_999, 10).await.unwrap();
    assert_eq!((page.rows.len(), page.total), (2, 20_001));
    assert_eq!(page.rows[1].to, phone(20_000));
}

#[tokio::test(start_paused = true)]
async fn failing_commits_delay_a_broadcast_and_double_nothing() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = with_template(&engine).await;
    for outcome in [CrashOutcome::Lost, CrashOutcome::Kept, CrashOutcome::Unsynced] {
        let sale = create(&acme, broadcast_to(4000)).await;
        store.fail_after(3, outcome);
        until("it is sent", async || {
            acme.broadcast(sale).await.is_ok_and(|found| found.status == BroadcastStatus::Completed)
        })
        .await;
        let found = acme.broadcast(sale).await.unwrap();
        assert_eq!(found.counts, counts(|counts| counts.sent = 4000), "{outcome:?}");
    }
    let times = delivered(&engine);
    assert!(times.len() == 4000 && times.values().all(|times| *times == 3));
    assert_eq!(credits(&engine, "acme").await, CREDITS - 12_000);
}

async fn crash_during(policy: BroadcastPolicy, yields: usize, keep: Keep) {
    let store = CrashingStore::new();
    let first = engine(&store, START).await;
    let acme = with_template(&first).await;
    let sale = create(&acme, NewBroadcast { policy, ..broadcast_to(4000) }).await;
    for _ in 0..yields {
        tokio::task::yield_now().await;
        std::thread::yield_now();
    }
    let store = store.crash(keep);
    let mut times = delivered(&first);
    drop(first);
    let second = engine(&store, START).await;
    let acme = second.workspace(&id("acme")).unwrap();
    let done = becomes(&acme, sale, BroadcastStatus::Completed).await;
    assert_eq!(done.counts.sent + done.counts.unknown, 4000, "{:?}", done.counts);
    for (phone, more) in delivered(&second) {
        *times.entry(phone).or_default() += more;
    }
    match policy {
        BroadcastPolicy::AtMostOnce => {
            assert!(times.values().all(|times| *times == 1), "somebody got it twice");
            let unknown = done.counts.unknown as usize;
            assert!(times.len() >= 4000 - unknown && unknown <= 1000, "{unknown} unknown");
        }
        BroadcastPolicy::AtLeastOnce => {
            assert_eq!((times.len(), done.counts.unknown), (4000, 0));
        }
    }
    assert_eq!(credits(&second, "acme").await, CREDITS - 4000);
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_everybody_has_exactly_one_outcome() {
    for yields in [0, 1, 3, 7, 20, 60, 150, 400, 1000] {
        for keep in [Keep::Nothing, Keep::Everything, Keep::Bytes(300)] {
            crash_during(BroadcastPolicy::AtMostOnce, yields, keep).await;
            crash_during(BroadcastPolicy::AtLeastOnce, yields, keep).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_was_missed_by_too_much_fails() {
    for (late, status) in [(3600, BroadcastStatus::Completed), (3601, BroadcastStatus::Failed)] {
        let store = CrashingStore::new();
        let first = engine(&store, START).await;
        let acme = with_template(&first).await;
        let at = START.plus(Duration::from_secs(60));
        let sale = create(&acme, NewBroadcast { schedule_at: Some(at), ..broadcast_to(3) }).await;
        let store = store.crash(Keep::Nothing);
        drop(first);
        let second = engine(&store, at.plus(Duration::from_secs(late))).await;
        let acme = second.workspace(&id("acme")).unwrap();
        let found = becomes(&acme, sale, status).await;
        if status == BroadcastStatus::Failed {
            assert_eq!(found.reason.as_deref(), Some("its time was missed by too much"));
            assert_eq!(found.counts, counts(|counts| counts.cancelled = 3));
            until("the credits", async || credits(&second, "acme").await == CREDITS).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_has_opted_out_gets_nothing_whenever_it_was() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = with_template(&engine).await;
    let opt_out = async |number: u32| {
        acme.suppress(phone(number), None).await.unwrap();
    };
    opt_out(1).await;
    let at = START.plus(Duration::from_secs(60));
    let new = NewBroadcast { schedule_at: Some(at), ..broadcast_to(5) };
    let made = acme.create_broadcast(new, None).await.unwrap().answer;
    assert_eq!(made.total_recipients, 5);
    assert_eq!(credits(&engine, "acme").await, CREDITS - 4);
    let sale = made.broadcast_id;
    assert_eq!(acme.broadcast(sale).await.unwrap().counts.suppressed, 1);
    opt_out(2).await;
    engine.pass(Duration::from_secs(60)).await;
    let done = becomes(&acme, sale, BroadcastStatus::Completed).await;
    assert_eq!(done.counts, counts(|counts| (counts.sent, counts.suppressed) = (3, 2)));
    let times = delivered(&engine);
    assert!(!times.contains_key(&phone(1)) && !times.contains_key(&phone(2)));
    assert_eq!(credits(&engine, "acme").await, CREDITS - 3);
    let status = Some(RecipientStatus::Suppressed);
    let page = acme.broadcast_recipients(sale, status, 0, 10).await.unwrap();
    let rows: Vec<_> = page.rows.iter().map(|row| row.to).collect();
    assert_eq!(rows, [phone(2), phone(1)]);
}

#[tokio::test(start_paused = true)]
async fn too_many_failures_hold_a_broadcast() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = with_template(&engine).await;
    let failing = ScriptedOutcome::Failed { error_code: 131_026 };
    engine.sandbox().script(&id("acme"), None, failing, None);
    let sale = create(&acme, broadcast_to(4000)).await;
    let held = becomes(&acme, sale, BroadcastStatus::Paused).await;
    assert!(held.reason.unwrap().ends_with("messages failed"));
    engine.sandbox().script(&id("acme"), None, ScriptedOutcome::Sent, None);
    acme.resume_broadcast(sale).await.unwrap();
    let done = becomes(&acme, sale, BroadcastStatus::Completed).await;
    assert_eq!(done.counts.sent + done.counts.failed, 4000);
    assert!(done.counts.failed >= 1000 && done.counts.sent >= 2000, "{:?}", done.counts);
    assert_eq!(credits(&engine, "acme").await, CREDITS - u64::from(done.counts.sent));
}

#[tokio::test(start_paused = true)]
async fn a_broadcast_does_not_begin_with_a_template_that_may_not_be_sent() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = with_template(&engine).await;
    for (status, becoming) in [
        (TemplateStatus::Paused, BroadcastStatus::Paused),
        (TemplateStatus::Rejected, BroadcastStatus::Failed),
    ] {
        acme.set_template_status("sale", "en", TemplateStatus::Approved).await.unwrap();
        let at = engine.clock().now().plus(Duration::from_secs(60));
        let sale = create(&acme, NewBroadcast { schedule_at: Some(at), ..broadcast_to(3) }).await;
        acme.set_template_status("sale", "en", status).await.unwrap();
        engine.pass(Duration::from_secs(60)).await;
        let found = becomes(&acme, sale, becoming).await;
        assert!(found.reason.unwrap().starts_with("the template is"));
        if !becoming.is_over() {
            acme.cancel_broadcast(sale).await.unwrap();
        }
        until("the credits", async || credits(&engine, "acme").await == CREDITS).await;
    }
    assert!(delivered(&engine).is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_a_broadcast_that_was_not_made_is_swept() {
    use postrider_broadcast::record::{draft_key, parts_prefix};
    use postrider_store::{Change, Direction, Table};
    let store = CrashingStore::new();
    let first = engine(&store, START).await;
    let acme = with_template(&first).await;
    let refused = NewBroadcast { template: "nothing".into(), ..broadcast_to(10) };
    let refused = acme.create_broadcast(refused, None).await;
    let expected = crate::UseTemplateError::NoSuchTemplate;
    let expected = IdempotentError::Refused(CreateBroadcastError::Template(expected));
    assert_eq!(refused, Err(expected));
    let broken = BroadcastId::from_bytes([7; 16]);
    let workspace = id("acme");
    let mut changes = broadcast_to(10).audience.segment(&workspace, broken, 0);
    changes.push(Change::put(Table::Broadcasts, draft_key(&workspace, broken), []));
    first.shared().writer.commit(changes).await.unwrap();
    let kept = create(&acme, broadcast_to(10)).await;
    becomes(&acme, kept, BroadcastStatus::Completed).await;
    let nothing_failed = BroadcastError::NothingFailed;
    let retried = acme.retry_broadcast(kept).await;
    assert_eq!(retried, Err(RetryBroadcastError::Broadcast(nothing_failed)));
    let store = store.crash(Keep::Nothing);
    drop(first);
    let _second = engine(&store, START).await;
    let mut left = Vec::new();
    store
        .scan(Table::BroadcastAudience, &[], None, Direction::Forward, &mut |key, _| {
            left.push(key.to_vec());
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(left.len(), 1);
    assert!(left[0].starts_with(&parts_prefix(&workspace, kept)));
}

#[tokio::test(start_paused = true)]
async fn what_the_provider_reports_later_is_counted_once() {
    use postrider_channel::callback::{Callback, Progress, StatusUpdate};
    use postrider_channel::{Failure, Origin};
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = with_template(&engine).await;
    engine.sandbox().script(&id("acme"), Some(phone(3)), ScriptedOutcome::Lost, None);
    let sale = create(&acme, broadcast_to(6)).await;
    becomes(&acme, sale, BroadcastStatus::Completed).await;
    let number = engine.admin().numbers(&id("acme")).await.unwrap()[0].id;
    let failed = || Progress::Failed(Failure::permanent(Some(131_049)));
    let report = |index, status| StatusUpdate {
        origin: Origin::Broadcast { broadcast: sale, index },
        provider_id: "wamid".into(),
        status,
        at: START,
        to: Some(phone(index)),
        known_as: None,
        user_id: None,
    };
    let statuses = vec![
        report(0, Progress::Delivered),
        report(1, Progress::Read),
        report(1, Progress::Delivered),
        report(2, failed()),
        report(2, failed()),
        report(3, Progress::Sent),
        report(9, Progress::Read),
    ];
    for _ in 0..2 {
        let callback = Callback { statuses: statuses.clone(), ..Callback::default() };
        acme.receive(number, callback).await.unwrap();
    }
    let found = acme.broadcast(sale).await.unwrap();
    let expected = |counts: &mut BroadcastCounts| {
        (counts.sent, counts.delivered, counts.read, counts.failed) = (3, 1, 1, 1);
    };
    assert_eq!(found.counts, counts(expected));
    assert_eq!(credits(&engine, "acme").await, CREDITS - 5);
    let status = Some(RecipientStatus::Failed);
    let page = acme.broadcast_recipients(sale, status, 0, 10).await.unwrap();
    assert_eq!((page.total, page.rows[0].to), (1, phone(2)));
    assert_eq!(page.rows[0].error.as_ref().unwrap().code, Some(131_049));
    let again = acme.retry_broadcast(sale).await.unwrap();
    assert_eq!(again.total_recipients, 1);
    let emitted = kinds(&log(&acme).await);
    let count = |kind| emitted.iter().filter(|emitted| **emitted == kind).count();
    assert_eq!(["message.delivered", "message.read", "message.failed"].map(count), [1, 1, 1]);
    let all = log(&acme).await;
    let to = |kind| {
        let emitted = all.iter().find(|entry| entry.event.kind() == kind);
        emitted.map(|entry| entry.event.data()["to"].clone()).unwrap()
    };
    let expected = [0, 1, 2].map(|index| serde_json::json!(phone(index).to_string()));
    assert_eq!(["message.delivered", "message.read", "message.failed"].map(to), expected);
}

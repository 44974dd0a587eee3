//! The counts of a broadcast that is over are retained, and stay right after later reports.

use postrider_store::View;
use std::ops::ControlFlow;

use crate::{
    BroadcastCounts, BroadcastStatus, MessageStatus, NewBroadcast, RecipientStatus, ScriptedOutcome,
};
use postrider_channel::callback::{Callback, Progress, StatusUpdate};
use postrider_channel::{Failure, FailureClass, Origin};
use postrider_domain::{BroadcastId, NumberId};
use postrider_store::{Change, Direction, Table};

use super::broadcasts::counts;
use super::messages::await_status;
use super::support::broadcasts::{becomes, broadcast_to, create, with_template};
use super::support::messages::{read as message_read, send, wrote};
use super::*;

/// Counts the recipients by status, each of them read.
async fn counted(acme: &Workspace, id: BroadcastId) -> BroadcastCounts {
    let mut found = Vec::new();
    for status in RecipientStatus::ALL {
        let page = acme.broadcast_recipients(id, Some(*status), 0, 1).await.unwrap();
        found.push(u32::try_from(page.total).unwrap());
    }
    let [pending, held, sent, delivered, read, failed, unknown, suppressed, cancelled] = found[..]
    else {
        panic!("nine")
    };
    BroadcastCounts { pending, held, sent, delivered, read, failed, unknown, suppressed, cancelled }
}

async fn report(acme: &Workspace, number: NumberId, id: BroadcastId, index: u32, what: u32) {
    let status = match what % 4 {
        0 => Progress::Sent,
        1 => Progress::Delivered,
        2 => Progress::Read,
        _ => Progress::Failed(Failure::permanent(Some(131_049))),
    };
    let to = None;
    acme.receive(number, callback(id, index, status, to)).await.unwrap();
}

fn callback(broadcast: BroadcastId, index: u32, status: Progress, to: Option<Phone>) -> Callback {
    let status = StatusUpdate {
        origin: Origin::Broadcast { broadcast, index },
        provider_id: "wamid".into(),
        status,
        at: START,
        to,
        known_as: None,
        user_id: None,
    };
    Callback { statuses: vec![status], ..Callback::default() }
}

fn opted_out() -> Progress {
    let class = FailureClass::OptedOut;
    Progress::Failed(Failure { class, ..Failure::permanent(Some(131_050)) })
}

/// Starts an engine that has sent a broadcast to three, with its workspace and number.
async fn sent_to_three(store: &CrashingStore) -> (Engine, Workspace, NumberId, BroadcastId) {
    let engine = engine(store, START).await;
    let acme = with_template(&engine).await;
    let number = engine.admin().numbers(&id("acme")).await.unwrap()[0].id;
    let sale = create(&acme, broadcast_to(3)).await;
    becomes(&acme, sale, BroadcastStatus::Completed).await;
    (engine, acme, number, sale)
}

/// Returns everything in a table.
fn table(store: &CrashingStore, table: Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    let visit = &mut |key: &[u8], value: &[u8]| {
        all.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    store.scan(table, &[], None, Direction::Forward, visit).unwrap();
    all
}

/// It does not read the audience: the phone comes with the report.
#[tokio::test(start_paused = true)]
async fn who_a_report_says_has_stopped_marketing_is_not_looked_up() {
    let store = CrashingStore::new();
    let (engine, acme, number, sale) = sent_to_three(&store).await;
    let removed = table(&store, Table::BroadcastAudience);
    let removed = removed.into_iter().map(|(key, _)| Change::delete(Table::BroadcastAudience, key));
    engine.shared().writer.commit(removed.collect()).await.unwrap();
    let emitted = callback(sale, 1, opted_out(), Some(phone(1)));
    acme.receive(number, emitted).await.unwrap();
    assert_eq!(acme.suppressions(0, 9).await.unwrap().suppressions[0].party, phone(1));
}

/// Whichever record cannot be read, a failed report is accepted when it comes again.
#[tokio::test(start_paused = true)]
async fn a_report_that_fails_leaves_nothing_half_done() {
    for damaged in
        [Table::BroadcastAudience, Table::Analytics, Table::Broadcasts, Table::BroadcastOutcomes]
    {
        let store = CrashingStore::new();
        let (engine, acme, number, sale) = sent_to_three(&store).await;
        report(&acme, number, sale, 0, 1).await;
        let before = credits(&engine, "acme").await;
        let emitted = log(&acme).await.len();
        let whole = table(&store, damaged);
        // The broadcast's own record, the first, can be read. A part of the audience is missing.
        let spoilt = whole.iter().skip(usize::from(damaged == Table::Broadcasts));
        let spoilt = spoilt.map(|(key, _)| match damaged {
            Table::BroadcastAudience => Change::delete(damaged, key.clone()),
            _ => Change::put(damaged, key.clone(), vec![0xff; 3]),
        });
        engine.shared().writer.commit(spoilt.collect()).await.unwrap();
        let reported = async || acme.receive(number, callback(sale, 1, opted_out(), None)).await;
        let taken = reported().await;
        let mended = whole.iter().map(|(key, it)| Change::put(damaged, key.clone(), it.clone()));
        engine.shared().writer.commit(mended.collect()).await.unwrap();
        assert!(taken.is_err(), "{damaged:?}");
        reported().await.unwrap();
        let now = acme.broadcast(sale).await.unwrap().counts;
        assert_eq!(now, counted(&acme, sale).await);
        assert_eq!((now.failed, now.delivered), (1, 1), "{damaged:?}");
        assert_eq!(credits(&engine, "acme").await, before + 1, "{damaged:?}");
        let log = log(&acme).await;
        assert_eq!(kinds(&log)[emitted..], ["contact.opted_out", "message.failed"], "{damaged:?}");
    }
}

/// The callback comes again, and the accepted part of it is no news then.
#[tokio::test(start_paused = true)]
async fn what_was_taken_before_a_report_that_fails_is_followed_up() {
    let store = CrashingStore::new();
    let (engine, acme, number, sale) = sent_to_three(&store).await;
    acme.receive(number, wrote(phone(1), "first", START)).await.unwrap();
    let message = send(&acme, phone(1)).await;
    await_status(&acme, message, MessageStatus::Sent).await;
    report(&acme, number, sale, 0, 1).await;
    let spoilt = table(&store, Table::BroadcastOutcomes).into_iter();
    let spoilt = spoilt.map(|(key, _)| Change::put(Table::BroadcastOutcomes, key, vec![0xff; 3]));
    engine.shared().writer.commit(spoilt.collect()).await.unwrap();
    let mut emitted = callback(sale, 1, opted_out(), None);
    let unpaid = Failure { class: FailureClass::Account, ..Failure::permanent(Some(131_042)) };
    let (origin, status) = (Origin::Message(message), Progress::Failed(unpaid));
    emitted.statuses.insert(0, StatusUpdate { origin, status, ..emitted.statuses[0].clone() });
    acme.receive(number, emitted.clone()).await.unwrap_err();
    let stops = async || kinds(&log(&acme).await).contains(&"number.stopped");
    until("the number stops", stops).await;
    assert_eq!(message_read(&acme, message).await.status, MessageStatus::Failed);
}

#[tokio::test(start_paused = true)]
async fn they_are_those_of_the_recipients_after_every_report() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = with_template(&engine).await;
    let number = engine.admin().numbers(&id("acme")).await.unwrap()[0].id;
    let script = |to: u32, outcome| {
        engine.sandbox().script(&id("acme"), Some(phone(to)), outcome, None);
    };
    script(3, ScriptedOutcome::Lost);
    script(4, ScriptedOutcome::Lost);
    script(5, ScriptedOutcome::Slow);
    script(6, ScriptedOutcome::Failed { error_code: 131_026 });
    acme.suppress(phone(7), None).await.unwrap();
    let sale = create(&acme, broadcast_to(1_300)).await;
    until("it is sent but for one", async || counted(&acme, sale).await.pending == 1).await;
    // These reports arrive while it runs.
    for (index, what) in [(5, 1), (0, 1), (3, 0), (1299, 2)] {
        report(&acme, number, sale, index, what).await;
    }
    engine.pass(Duration::from_secs(5)).await;
    let done = becomes(&acme, sale, BroadcastStatus::Completed).await;
    assert_eq!(done.counts, counted(&acme, sale).await);
    let expected = |counts: &mut BroadcastCounts| {
        (counts.sent, counts.delivered, counts.read) = (1_295, 2, 0);
        (counts.failed, counts.unknown, counts.suppressed) = (1, 1, 1);
    };
    // The recipient who has opted out is the last: 1299 is not sent to.
    assert_eq!(done.counts, counts(expected));
    let mut random = 7_u32;
    for _ in 0..200 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        report(&acme, number, sale, (random >> 8) % 40, random >> 20).await;
        let now = acme.broadcast(sale).await.unwrap().counts;
        assert_eq!(now, counted(&acme, sale).await);
    }
    let known = acme.broadcast(sale).await.unwrap().counts;
    assert!(known.failed > 1 && known.read > 1 && known.delivered > 1, "{known:?}");
    // A broadcast that ended before any message was sent.
    let later = START.plus(Duration::from_secs(3600));
    let later = create(&acme, NewBroadcast { schedule_at: Some(later), ..broadcast_to(9) }).await;
    acme.cancel_broadcast(later).await.unwrap();
    let stopped = acme.broadcast(later).await.unwrap().counts;
    assert_eq!(stopped, counts(|it| (it.cancelled, it.suppressed) = (8, 1)));
    // Nothing is counted again.
    let mut outcomes = Vec::new();
    store
        .scan(Table::BroadcastOutcomes, &[], None, Direction::Forward, &mut |key, _| {
            outcomes.push(Change::delete(Table::BroadcastOutcomes, key));
            ControlFlow::Continue(())
        })
        .unwrap();
    engine.shared().writer.commit(outcomes).await.unwrap();
    let (rows, _) = acme.broadcasts(0, 9).await.unwrap();
    assert_eq!((rows[0].counts, rows[1].counts), (stopped, known));
}

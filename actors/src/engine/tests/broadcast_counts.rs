//! The counts of a broadcast that is over are kept, and stay right whatever is reported later.

use std::ops::ControlFlow;

use crate::channel::callback::{Callback, Progress, StatusUpdate};
use crate::channel::{Failure, Origin};
use crate::domain::{BroadcastId, NumberId};
use crate::store::{Change, Direction, Table};
use crate::{BroadcastCounts, BroadcastStatus, NewBroadcast, RecipientStatus, ScriptedOutcome};

use super::broadcasts::{becomes, broadcast_to, counts, create, with_template};
use super::*;

/// The recipients by status, each of them looked at.
async fn counted(acme: &Workspace, id: BroadcastId) -> BroadcastCounts {
    let mut found = Vec::new();
    for status in RecipientStatus::ALL {
        let page = acme.broadcast_recipients(id, Some(*status), 0, 1).await.unwrap();
        found.push(u32::try_from(page.total).unwrap());
    }
    let [pending, sent, delivered, read, failed, unknown, suppressed, cancelled] = found[..] else {
        panic!("eight")
    };
    BroadcastCounts { pending, sent, delivered, read, failed, unknown, suppressed, cancelled }
}

async fn report(acme: &Workspace, number: NumberId, id: BroadcastId, index: u32, what: u32) {
    let status = match what % 4 {
        0 => Progress::Sent,
        1 => Progress::Delivered,
        2 => Progress::Read,
        _ => Progress::Failed(Failure::permanent(Some(131_049))),
    };
    let status = StatusUpdate {
        origin: Origin::Broadcast { broadcast: id, index },
        provider_id: "wamid".into(),
        status,
        at: START,
        to: None,
        known_as: None,
    };
    let callback = Callback { statuses: vec![status], ..Callback::default() };
    acme.receive(number, callback).await.unwrap();
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
    // While it runs.
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
    // The one who has opted out is the last: 1299 is not sent to.
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
    // One that ended before anything was sent.
    let later = START.plus(Duration::from_secs(3600));
    let later = create(&acme, NewBroadcast { schedule_at: Some(later), ..broadcast_to(9) }).await;
    acme.cancel_broadcast(later).await.unwrap();
    let stopped = acme.broadcast(later).await.unwrap().counts;
    assert_eq!(stopped, counts(|it| (it.cancelled, it.suppressed) = (8, 1)));
    // Nobody counts again.
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

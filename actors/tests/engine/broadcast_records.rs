//! The records of broadcasts, their retention, and the lookup of a broadcast's message.

use postrider_store::View;
use std::ops::ControlFlow;

use postrider_actors::{
    BroadcastOptions, BroadcastStatus, EngineOptions, MessageStatus, NewBroadcast, ScriptedOutcome,
};
use postrider_domain::{BroadcastId, MessageId};
use postrider_store::{Direction, Table};

use super::support::broadcasts::{becomes, broadcast_to, create, with_template};
use super::*;

const DAY: Duration = Duration::from_secs(24 * 3600);
const PARTS: [Table; 5] = [
    Table::Broadcasts,
    Table::BroadcastAudience,
    Table::BroadcastPhones,
    Table::BroadcastOutcomes,
    Table::BroadcastReports,
];

/// Returns the number of records of all broadcasts but `kept`.
fn left(store: &CrashingStore, kept: BroadcastId) -> usize {
    let mut count = 0;
    for table in PARTS {
        let mut visit = |key: &[u8], _: &[u8]| {
            count += usize::from(!key.windows(16).any(|part| part == kept.as_bytes()));
            ControlFlow::Continue(())
        };
        store.scan(table, b"", None, Direction::Forward, &mut visit).unwrap();
    }
    count
}

#[tokio::test(start_paused = true)]
async fn a_broadcast_is_forgotten_when_it_was_over_for_long_enough() {
    let store = CrashingStore::new();
    let broadcasts = BroadcastOptions { kept_for: 2 * DAY, ..BroadcastOptions::default() };
    let options = EngineOptions { broadcasts, ..options(store.clone(), START) };
    let engine = Engine::start(options).await.unwrap();
    let acme = with_template(&engine).await;
    for recipients in [3, 9000] {
        let sale = create(&acme, broadcast_to(recipients)).await;
        becomes(&acme, sale, BroadcastStatus::Completed).await;
    }
    let later = START.plus(9 * DAY);
    let kept = NewBroadcast { schedule_at: Some(later), ..broadcast_to(700) };
    let kept = create(&acme, kept).await;
    let before = left(&store, kept);
    engine.pass(DAY).await;
    engine.beat().await;
    assert_eq!(left(&store, kept), before);
    engine.pass(DAY).await;
    until("all of it is gone", async || {
        // The workspace's actor removes it, so the actor has to run.
        drop(acme.otp(RequestId::from_parts(START, 0)).await);
        engine.beat().await;
        left(&store, kept) == 0
    })
    .await;
    let (rows, total) = acme.broadcasts(0, 9).await.unwrap();
    assert_eq!((rows[0].id, total), (kept, 1));
    let day = postrider_domain::Day::of(START);
    let range = postrider_actors::DayRange { from: day, to: day };
    let grouping = postrider_actors::CampaignGrouping::Day;
    let counted = acme.campaign_days(range, grouping, 0, 9).await.unwrap();
    assert_eq!(counted.counts.sent, 9003, "what was counted stays");
    engine.pass(7 * DAY).await;
    let done = becomes(&acme, kept, BroadcastStatus::Completed).await;
    assert_eq!(done.counts.sent, 700);
    engine.pass(400 * DAY).await;
    until("the counts are gone", async || {
        drop(acme.otp(RequestId::from_parts(START, 0)).await);
        engine.beat().await;
        acme.campaign_days(range, grouping, 0, 9).await.unwrap().total == 0
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_message_of_a_broadcast_is_found_by_its_id() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = with_template(&engine).await;
    let refused = ScriptedOutcome::Failed { error_code: 131_026 };
    engine.sandbox().script(&id("acme"), Some(phone(8001)), refused, None);
    let sale = create(&acme, broadcast_to(8002)).await;
    becomes(&acme, sale, BroadcastStatus::Completed).await;
    let page = acme.broadcast_recipients(sale, None, 8000, 9).await.unwrap();
    for (row, status) in page.rows.iter().zip([MessageStatus::Sent, MessageStatus::Failed]) {
        let found = acme.message(row.message_id.unwrap()).await.unwrap().unwrap();
        assert_eq!((found.to.phone(), found.status), (Some(row.to), status));
        let code = found.error.and_then(|error| error.code);
        assert_eq!(code, row.error.as_ref().and_then(|error| error.code));
    }
    let mut bytes = *page.rows[0].message_id.unwrap().as_bytes();
    bytes[12..].copy_from_slice(&8002_u32.to_be_bytes());
    assert_eq!(acme.message(MessageId::from_bytes(bytes)).await.unwrap(), None);
    let later = NewBroadcast { schedule_at: Some(START.plus(DAY)), ..broadcast_to(2) };
    let later = create(&acme, later).await;
    let page = acme.broadcast_recipients(later, None, 0, 9).await.unwrap();
    let message = page.rows[1].message_id.unwrap();
    let status = async || acme.message(message).await.unwrap().unwrap().status;
    assert_eq!(status().await, MessageStatus::Queued);
    acme.cancel_broadcast(later).await.unwrap();
    // Nothing of it was sent, so it keeps only its counts.
    assert_eq!(acme.message(message).await.unwrap(), None);
}

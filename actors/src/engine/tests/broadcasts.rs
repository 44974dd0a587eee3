//! Broadcasts from their making to their end, on stores that fail and crash.

use serde_json::json;

use crate::domain::BroadcastId;
use crate::domain::template::{TemplateCategory, TemplateStatus};
use crate::store::{Keep, Outcome};
use crate::{
    Audience, Broadcast, BroadcastCounts, BroadcastError, BroadcastPolicy, BroadcastStatus,
    CreateBroadcastError, IdempotentError, NewBroadcast, NewTemplate, RecipientStatus,
    RetryBroadcastError, ScriptedOutcome, Variables,
};

use super::*;

const CREDITS: u64 = 100_000;

async fn with_template(engine: &Engine) -> Workspace {
    let acme = workspace(engine, "acme", CREDITS).await;
    for (name, text) in [("sale", "Sale"), ("hello", "Hello {{1}}")] {
        let template = NewTemplate {
            name: name.into(),
            language: "en".into(),
            category: TemplateCategory::Marketing,
            status: TemplateStatus::Approved,
            components: vec![json!({"type": "BODY", "text": text})],
        };
        acme.create_template(template).await.unwrap();
    }
    acme
}

fn broadcast_to(recipients: u32) -> NewBroadcast {
    let mut audience = Audience::new();
    (0..recipients).for_each(|number| audience.add(phone(number), Variables::default()));
    NewBroadcast {
        name: "Sale".into(),
        template: "sale".into(),
        language: "en".into(),
        components: Vec::new(),
        audience,
        schedule_at: None,
        policy: BroadcastPolicy::AtMostOnce,
    }
}

async fn create(acme: &Workspace, new: NewBroadcast) -> BroadcastId {
    acme.create_broadcast(new, None).await.unwrap().answer.broadcast_id
}

/// Waits until a broadcast stands there and has noted all that it has to.
async fn becomes(acme: &Workspace, id: BroadcastId, status: BroadcastStatus) -> Broadcast {
    until(status.as_str(), async || {
        acme.broadcast(id).await.is_ok_and(|found| found.status == status)
    })
    .await;
    acme.broadcast(id).await.unwrap()
}

fn counts(change: impl FnOnce(&mut BroadcastCounts)) -> BroadcastCounts {
    let mut counts = BroadcastCounts::default();
    change(&mut counts);
    counts
}

/// How often each phone got a message.
fn delivered(engine: &Engine) -> hashbrown::HashMap<Phone, u32> {
    let mut times = hashbrown::HashMap::new();
    for message in engine.sandbox().messages(&id("acme"), None, usize::MAX) {
        *times.entry(message.to).or_default() += 1;
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
    let told = kinds(&log(&acme).await);
    assert_eq!(told, ["broadcast.created", "broadcast.started", "broadcast.completed"]);
    let page = acme.broadcast_recipients(made.broadcast_id, None, 19_999, 10).await.unwrap();
    assert_eq!((page.rows.len(), page.total), (2, 20_001));
    assert_eq!(page.rows[1].to, phone(20_000));
}

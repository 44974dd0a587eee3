//! What a number's rate means for what goes first.

use super::*;
use postrider_actors::{
    Audience, BroadcastPolicy, NewBroadcast, NewNumber, NewProvider, NewTemplate,
};
use postrider_channel::callback::Callback;
use postrider_channel::number_facts::{NumberFacts, Throughput};
use postrider_domain::SenderNotes;
use postrider_domain::template::{TemplateCategory, TemplateStatus};

const RATE: u32 = 20;

/// A workspace whose number sends so many messages in a second.
async fn paced(engine: &Engine) -> Workspace {
    engine.admin().create_workspace(id("acme"), "acme".to_owned()).await.unwrap();
    engine.admin().set_credits(&id("acme"), 10_000).await.unwrap();
    let number =
        NewNumber { messages_per_second: Some(RATE), ..NewNumber::of(NewProvider::Sandbox) };
    engine.admin().connect_number(&id("acme"), number).await.unwrap();
    let acme = engine.workspace(&id("acme")).unwrap();
    let template = NewTemplate {
        name: "sale".into(),
        language: "en".into(),
        category: TemplateCategory::Marketing,
        status: TemplateStatus::Approved,
        components: vec![serde_json::json!({"type": "BODY", "text": "Sale"})],
    };
    acme.create_template(template).await.unwrap();
    acme
}

#[tokio::test(start_paused = true)]
async fn a_one_time_password_waits_for_no_broadcast() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = paced(&engine).await;
    let mut audience = Audience::new();
    (0..1000).for_each(|number| audience.add(phone(number), Box::default()));
    let new = NewBroadcast {
        name: "Sale".into(),
        template: "sale".into(),
        language: "en".into(),
        components: Vec::new(),
        audience,
        schedule_at: None,
        policy: BroadcastPolicy::AtMostOnce,
        notes: SenderNotes::default(),
        from: Vec::new(),
    };
    acme.create_broadcast(new, None).await.unwrap();
    let sent = || engine.sandbox().messages(&id("acme"), None, usize::MAX);
    until("the burst is used up", async || sent().len() == 18).await;
    // Engine time stands still: there is no new token, and what the broadcast has left is enough.
    for number in [2000, 2001] {
        acme.send_otp(SendOtp::to(phone(number))).await.unwrap();
        until("it is sent", async || sent().first().is_some_and(|it| it.to == phone(number))).await;
    }
    assert_eq!(sent().len(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_pace_that_the_channel_says_is_in_force_though_nobody_waits_for_it() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = workspace(&engine, "acme", 10).await;
    let number = engine.admin().numbers(&id("acme")).await.unwrap()[0].id;
    let said = |throughput| {
        let facts = NumberFacts { throughput: Some(throughput), ..NumberFacts::default() };
        acme.receive(number, Callback { facts: vec![facts], ..Callback::default() })
    };
    let pace = async || engine.admin().number_figures(number).await.rate_set;
    assert_eq!(pace().await, 0);
    // Whoever brings the news goes away as soon as it is on its way.
    let brought = tokio::time::timeout(Duration::ZERO, said(Throughput::Coexistence)).await;
    assert!(brought.is_err(), "it was waited for");
    until("it is in force", async || pace().await == 20).await;
    said(Throughput::High).await.unwrap();
    assert_eq!(pace().await, 1000, "with the answer");
}

//! The effect of a number's rate on the order of messages.

use super::*;
use postrider_actors::{
    Audience, BroadcastPolicy, NewBroadcast, NewNumber, NewProvider, NewTemplate,
};
use postrider_channel::callback::Callback;
use postrider_channel::number_facts::{NumberFacts, Throughput};
use postrider_domain::SenderNotes;
use postrider_domain::template::{TemplateCategory, TemplateStatus};
use postrider_store::{Change, Group, Store as _, Table};

const RATE: u32 = 20;

/// Creates a workspace whose number sends so many messages a second.
async fn paced(engine: &Engine) -> Workspace {
    engine.admin().create_workspace(id("acme"), "acme".to_owned()).await.unwrap();
    engine.admin().set_credits(&id("acme"), 10_000).await.unwrap();
    let number =
        NewNumber { messages_per_second: Some(RATE), ..NewNumber::of(NewProvider::Sandbox) };
    engine.admin().connect_number(&id("acme"), number).await.unwrap();
    let acme = engine.workspace(&id("acme")).unwrap();
    has_template(&acme).await;
    acme
}

async fn has_template(acme: &Workspace) {
    let template = NewTemplate {
        name: "sale".into(),
        language: "en".into(),
        category: TemplateCategory::Marketing,
        status: TemplateStatus::Approved,
        components: vec![serde_json::json!({"type": "BODY", "text": "Sale"})],
    };
    acme.create_template(template).await.unwrap();
}

/// Returns a broadcast to so many recipients.
fn sale(recipients: u32) -> NewBroadcast {
    let mut audience = Audience::new();
    (0..recipients).for_each(|number| audience.add(phone(number), Box::default()));
    NewBroadcast {
        name: "Sale".into(),
        template: "sale".into(),
        language: "en".into(),
        components: Vec::new(),
        audience,
        schedule_at: None,
        policy: BroadcastPolicy::AtMostOnce,
        notes: SenderNotes::default(),
        from: Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_one_time_password_waits_for_no_broadcast() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = paced(&engine).await;
    acme.create_broadcast(sale(1000), None).await.unwrap();
    let sent = || engine.sandbox().messages(&id("acme"), None, usize::MAX);
    until("the burst is used up", async || sent().len() == 18).await;
    // Engine time is stopped: there is no new token, and the broadcast has left enough.
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
    has_template(&acme).await;
    let takes = async || acme.preview_broadcast(sale(40)).await.unwrap().at_pace;
    assert_eq!(takes().await, None);
    // The caller that brings the news goes away as soon as it is under way.
    let brought = tokio::time::timeout(Duration::ZERO, said(Throughput::Coexistence)).await;
    assert!(brought.is_err(), "it was waited for");
    until("it is in force", async || pace().await == 20).await;
    assert_eq!(takes().await, Some(Duration::from_secs(2)));
    said(Throughput::High).await.unwrap();
    assert_eq!(pace().await, 1000, "with the answer");
}

#[tokio::test(start_paused = true)]
async fn a_pace_that_changes_gives_no_further_burst() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = workspace(&engine, "acme", 100).await;
    let number = engine.admin().numbers(&id("acme")).await.unwrap()[0].id;
    let said = async |throughput| {
        let facts = NumberFacts { throughput: Some(throughput), ..NumberFacts::default() };
        let callback = Callback { facts: vec![facts], ..Callback::default() };
        acme.receive(number, callback).await.unwrap();
    };
    said(Throughput::Coexistence).await;
    let sent = || engine.sandbox().messages(&id("acme"), None, usize::MAX).len();
    for number in 0..20 {
        acme.send_otp(SendOtp::to(phone(number))).await.unwrap();
    }
    until("the burst is used up", async || sent() == 20).await;
    for throughput in [Throughput::High, Throughput::Coexistence] {
        said(throughput).await;
    }
    acme.send_otp(SendOtp::to(phone(20))).await.unwrap();
    // Engine time is stopped: there is no new token.
    let figures = engine.admin().number_figures(number).await;
    assert_eq!((figures.lanes[0].waiting, figures.in_flight, sent()), (1, 0, 20));
    engine.pass(Duration::from_secs(1)).await;
    until("there is a new token", async || sent() == 21).await;
}

#[tokio::test(start_paused = true)]
async fn a_damaged_record_of_what_is_known_of_a_number_keeps_no_callback_waiting() {
    let store = CrashingStore::new();
    let first = engine(&store, START).await;
    workspace(&first, "acme", 10).await;
    let number = first.admin().numbers(&id("acme")).await.unwrap()[0].id;
    first.shutdown(LONG).await.unwrap();
    let key = [b"acme\0number-facts/".as_slice(), number.as_bytes()].concat();
    let damaged = Change::put(Table::Workspaces, key, *b"{");
    store.commit(Group::new(None, &[damaged])).unwrap();
    let engine = engine(&store, START).await;
    let acme = engine.workspace(&id("acme")).unwrap();
    let throughput = Some(Throughput::High);
    let facts = NumberFacts { throughput, ..NumberFacts::default() };
    acme.receive(number, Callback { facts: vec![facts], ..Callback::default() }).await.unwrap();
    assert_eq!(engine.admin().number_figures(number).await.rate_set, 1000);
}

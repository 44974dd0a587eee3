//! Tests of messages that reach an actor, or its entry, as it passivates itself or dies.

use http::HeaderMap;
use postrider_number::NumberSpec;
use postrider_runtime::supervise::{ChildSpec, Placement};
use postrider_store::hooked::{Gate, Hooked};
use postrider_store::{Change, Direction, Group, MemoryStore, Store, Table, View};
use postrider_webhook::client::{Answer, Post, Posting};
use postrider_webhook::{EndpointMessage, WebhookSpec, records};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::{WebhookChange, WebhookInfo, WebhookSettings};

/// Accepts every delivery and counts them.
struct Receiver(Arc<AtomicUsize>);

impl Post for Receiver {
    fn post<'a>(&'a self, _: &'a str, _: HeaderMap, _: Vec<u8>, _: Timestamp) -> Posting<'a> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let answer = Answer::Status { status: 200, retry_after: None, excerpt: None, text: None };
        Box::pin(async move { answer })
    }
}

/// A disabled endpoint whose actor runs and has no work, although an event waits.
struct Rig {
    engine: Engine,
    store: MemoryStore,
    acme: Workspace,
    webhook: WebhookInfo,
    delivered: Arc<AtomicUsize>,
}

impl Rig {
    async fn new() -> Self {
        let store = Hooked { inner: MemoryStore::new(), hook: Gate::default() };
        let engine = Engine::start(options(store.clone(), START)).await.unwrap();
        let delivered = Arc::new(AtomicUsize::new(0));
        engine.shared().webhooks.post_by(Receiver(Arc::clone(&delivered)));
        let acme = workspace(&engine, "acme", 100).await;
        let settings = WebhookSettings {
            url: "https://example.com/".to_owned(),
            events: vec!["otp.sent".to_owned()],
            description: None,
            enabled: true,
            rate_limit_per_second: None,
            ordered: false,
            batch: false,
        };
        let (webhook, _) = acme.create_webhook(settings).await.unwrap();
        let rig = Self { engine, store: store.inner, acme, webhook, delivered };
        rig.acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
        until("it is delivered", async || rig.delivered() == 1).await;
        let change = WebhookChange { enabled: Some(false), ..WebhookChange::default() };
        rig.acme.update_webhook(rig.webhook.id, change).await.unwrap();
        rig.acme.send_otp(SendOtp::to(phone(2))).await.unwrap();
        rig.settle().await;
        assert_eq!(rig.delivered(), 1, "it is disabled");
        rig
    }

    fn delivered(&self) -> usize {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Waits until everything is written, for less than the actor stays without work.
    async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(5)).await;
        std::thread::yield_now();
    }

    /// Replaces the stored record of the workspace's endpoints.
    fn rewrite(&self, change: impl FnOnce(String) -> String) {
        let key = records::endpoints_key(&id("acme"));
        let stored = self.store.get(Table::Webhooks, &key).unwrap().unwrap();
        let changed = change(String::from_utf8(stored).unwrap()).into_bytes();
        self.store.commit(Group::new(None, &[Change::put(Table::Webhooks, key, changed)])).unwrap();
    }

    /// Makes the directory follow the stored record while the mailbox has the end of the idle time.
    /// Nothing is awaited in between, so the actor handles neither before both have arrived.
    fn follow_while_it_passivates(&self) {
        let webhooks = &self.engine.shared().webhooks;
        let actor = WebhookSpec(Arc::clone(webhooks)).directory().live(&self.webhook.id);
        // One of them is the actor's own count.
        // On a slow machine the paused clock may have let it passivate itself already.
        for busy in actor.iter().flat_map(|_| 0..1000) {
            actor.iter().for_each(|it| it.cast(EndpointMessage::Idle(busy)).unwrap());
        }
        let slot = self.engine.shared().workspaces.slot(&id("acme")).unwrap();
        webhooks.follow(&id("acme"), &slot.subscribers).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_enabled_while_it_passivates_delivers_what_waited() {
    let rig = Rig::new().await;
    rig.rewrite(|json| {
        assert!(json.contains(r#""enabled":false"#), "{json}");
        json.replace(r#""enabled":false"#, r#""enabled":true"#)
    });
    rig.follow_while_it_passivates();
    until("the other is delivered", async || rig.delivered() == 2).await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_deleted_while_it_passivates_leaves_nothing() {
    let rig = Rig::new().await;
    let stored = || {
        let (mut count, of) = (0, *rig.webhook.id.as_bytes());
        let visit = &mut |key: &[u8], _: &[u8]| {
            count += usize::from(key.windows(of.len()).any(|part| part == of));
            ControlFlow::Continue(())
        };
        rig.store.scan(Table::Webhooks, b"acme", None, Direction::Forward, visit).unwrap();
        count
    };
    assert!(stored() > 0);
    rig.rewrite(|_| "[]".to_owned());
    rig.follow_while_it_passivates();
    until("its records are deleted", async || stored() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_number_that_is_removed_while_its_actor_dies_gets_no_entry_again() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = workspace(&engine, "acme", 100).await;
    acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
    let number = engine.admin().numbers(&id("acme")).await.unwrap()[0].id;
    let spec = NumberSpec(Arc::clone(&engine.shared().numbers));
    until("its actor runs", async || spec.directory().is_live(&number)).await;
    engine.admin().disconnect_number(&id("acme"), number).await.unwrap();
    until("it is removed", async || !spec.directory().contains(&number)).await;
    // The placements that the supervisor publishes of a dead actor, and once no restart is wanted.
    for placement in [Placement::Down { retry_after: Duration::ZERO }, Placement::Idle] {
        spec.publish(&number, placement);
        assert!(!spec.directory().contains(&number));
    }
}

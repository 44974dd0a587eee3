//! Tests of one endpoint's deliveries, through the engine, to a scripted receiver.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use http::HeaderMap;
use parking_lot::Mutex;

use super::*;
use crate::{DisabledReason, WebhookChange, WebhookInfo, WebhookSettings};
use postrider_webhook::client::{Answer, Post, Posting};
use postrider_webhook::exchanges::AnswerText;

const HOUR: Duration = Duration::from_secs(3600);

/// The behaviour of a receiver, and the requests that it has received.
#[derive(Default)]
struct Script {
    status: AtomicU16,
    /// The duration of an answer.
    takes: Duration,
    ids: Mutex<Vec<String>>,
    /// The signature of the newest request, and its body.
    newest: Mutex<(String, Vec<u8>)>,
    under_way: AtomicUsize,
    most: AtomicUsize,
}

impl Script {
    fn tries(&self) -> usize {
        self.ids.lock().len()
    }

    fn answer_with(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }
}

struct Receiver(Arc<Script>);

impl Post for Receiver {
    fn post<'a>(
        &'a self,
        _url: &'a str,
        headers: HeaderMap,
        body: Vec<u8>,
        _real_now: Timestamp,
    ) -> Posting<'a> {
        Box::pin(async move {
            let script = &self.0;
            script.ids.lock().push(headers["webhook-id"].to_str().unwrap().to_owned());
            let signature = headers["webhook-signature"].to_str().unwrap().to_owned();
            *script.newest.lock() = (signature, body);
            let now = script.under_way.fetch_add(1, Ordering::Relaxed) + 1;
            script.most.fetch_max(now, Ordering::Relaxed);
            tokio::time::sleep(script.takes).await;
            script.under_way.fetch_sub(1, Ordering::Relaxed);
            let status = script.status.load(Ordering::Relaxed);
            let headers = vec![("x-trace".to_owned(), "7".to_owned())];
            let text = Some(Box::new(AnswerText { headers, body: "noted".to_owned() }));
            Answer::Status { status, retry_after: None, excerpt: Some("no".to_owned()), text }
        })
    }
}

/// Starts an engine whose deliveries go to a receiver with this answer.
async fn start(options: EngineOptions, status: u16, takes: Duration) -> (Engine, Arc<Script>) {
    let limits = postrider_domain::Limits {
        otp_per_phone_10m: 0,
        otp_per_workspace_hour: 0,
        ..postrider_domain::Limits::default()
    };
    let engine = Engine::start(EngineOptions { limits, ..options }).await.unwrap();
    let script = Arc::new(Script { takes, ..Script::default() });
    script.answer_with(status);
    engine.shared().webhooks.post_by(Receiver(Arc::clone(&script)));
    (engine, script)
}

/// Returns the settings of an endpoint that receives events of sent codes.
pub(super) fn settings() -> WebhookSettings {
    WebhookSettings {
        url: "https://example.com/".to_owned(),
        events: vec!["otp.sent".to_owned()],
        description: None,
        enabled: true,
        rate_limit_per_second: None,
        ordered: false,
        batch: false,
    }
}

/// A workspace with an endpoint, and the endpoint's script.
struct Rig {
    engine: Engine,
    acme: Workspace,
    webhook: WebhookInfo,
    script: Arc<Script>,
}

impl Rig {
    async fn new(status: u16, per_second: Option<u32>, takes: Duration) -> Self {
        let (engine, script) = start(options(CrashingStore::new(), START), status, takes).await;
        let acme = workspace(&engine, "acme", 10_000).await;
        let rate_limit_per_second = per_second.and_then(std::num::NonZeroU32::new);
        let settings = WebhookSettings { rate_limit_per_second, ..settings() };
        let (webhook, _) = acme.create_webhook(settings).await.unwrap();
        Self { engine, acme, webhook, script }
    }

    async fn send(&self, count: u32) {
        for number in 0..count {
            self.acme.send_otp(SendOtp::to(phone(number))).await.unwrap();
        }
    }

    async fn enable(&self, enabled: bool) {
        let change = WebhookChange { enabled: Some(enabled), ..WebhookChange::default() };
        self.acme.update_webhook(self.webhook.id, change).await.unwrap();
    }

    async fn rows(&self) -> Vec<crate::WebhookDelivery> {
        self.acme.webhook_deliveries(self.webhook.id).await.unwrap()
    }

    /// Returns the tries, newest first, once there are so many.
    async fn tried(&self, count: usize) -> Vec<crate::WebhookDelivery> {
        until("a try", async || self.rows().await.len() >= count).await;
        self.rows().await
    }

    /// Passes enough time for every possible delivery; there were no more tries than these.
    async fn no_more_than(&self, count: usize) {
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(self.script.tries(), count);
    }
}

#[tokio::test(start_paused = true)]
async fn a_try_is_shown_with_its_request_and_its_answer() {
    let store = CrashingStore::new();
    let (engine, script) = start(options(store.clone(), START), 500, Duration::ZERO).await;
    let acme = workspace(&engine, "acme", 10).await;
    let (webhook, _) = acme.create_webhook(settings()).await.unwrap();
    acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
    let rows = async |acme: &Workspace| acme.webhook_deliveries(webhook.id).await.unwrap();
    until("the try is recorded", async || rows(&acme).await.len() == 1).await;
    let (row, (signature, body)) = (rows(&acme).await.remove(0), script.newest.lock().clone());
    let shown = acme.webhook_delivery(webhook.id, row.id).await.unwrap().unwrap();
    let of = |half: &crate::ExchangeHalf, name: &str| {
        half.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    };
    let (request, answer) = (shown.request.unwrap(), shown.answer.unwrap());
    assert_eq!(of(&request, "webhook-signature"), Some(signature));
    assert_eq!(request.body.unwrap().as_bytes(), body);
    assert_eq!(
        (of(&answer, "x-trace").as_deref(), answer.body.as_deref()),
        (Some("7"), Some("noted"))
    );
    engine.shutdown(LONG).await.unwrap();
    let (engine, _script) = start(options(store, START), 200, Duration::ZERO).await;
    let acme = engine.workspace(&id("acme")).unwrap();
    let shown = acme.webhook_delivery(webhook.id, row.id).await.unwrap().unwrap();
    let (request, answer) = (shown.request.unwrap(), shown.answer.unwrap());
    assert_eq!(of(&request, "webhook-signature"), None, "it was in memory only");
    assert_eq!(of(&request, "webhook-id"), row.event_id.map(|id| id.to_string()));
    assert_eq!(request.body.unwrap().as_bytes(), body, "it is made of the event");
    assert_eq!((answer.headers.len(), answer.body.as_deref()), (0, Some("no")));
}

#[tokio::test(start_paused = true)]
async fn a_delivery_is_tried_on_schedule_and_given_up() {
    let rig = Rig::new(500, None, Duration::ZERO).await;
    rig.send(1).await;
    for (before, wait) in
        [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400].into_iter().enumerate()
    {
        let row = rig.tried(before + 1).await.remove(0);
        let waits = row.next_retry_at.unwrap().since(row.at);
        let about = Duration::from_secs(wait);
        assert!((about.mul_f64(0.79)..about.mul_f64(1.21)).contains(&waits), "{waits:?}");
        rig.engine.pass(waits - Duration::from_millis(1)).await;
        rig.no_more_than(before + 1).await;
        rig.engine.pass(Duration::from_millis(1)).await;
    }
    let last = rig.tried(10).await.remove(0);
    assert_eq!((last.attempt.attempt, last.next_retry_at), (10, None));
    rig.engine.pass(48 * HOUR).await;
    rig.no_more_than(10).await;
    let mut ids = rig.script.ids.lock().clone();
    ids.dedup();
    assert_eq!(ids.len(), 1, "one id for all tries");
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_down_is_tried_with_one_at_a_time() {
    let rig = Rig::new(500, None, Duration::from_millis(50)).await;
    rig.send(40).await;
    rig.tried(5).await;
    // The deliveries in progress when the fifth failed have ended too.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = rig.script.tries();
    assert!(before < 12, "{before} tries");
    rig.script.most.store(0, Ordering::Relaxed);
    for _ in 0..3 {
        let before = rig.script.tries();
        until("another try", async || {
            rig.engine.pass(Duration::from_secs(1)).await;
            rig.script.tries() > before
        })
        .await;
    }
    assert_eq!(rig.script.most.load(Ordering::Relaxed), 1);
    rig.script.answer_with(200);
    until("all of them", async || {
        rig.engine.pass(Duration::from_secs(60)).await;
        let rows = rig.rows().await;
        rows.iter().filter(|row| row.status == Some(200)).count() == 40
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoints_rate_is_kept() {
    let rig = Rig::new(200, Some(2), Duration::ZERO).await;
    rig.send(12).await;
    rig.tried(1).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let first = rig.script.tries();
    assert!(first <= 2, "{first} at once");
    for step in 1..=4 {
        rig.engine.pass(Duration::from_millis(500)).await;
        rig.tried(first + step).await;
        rig.no_more_than(first + step).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_quick_endpoint_gets_more_at_a_time_within_bounds() {
    let rig = Rig::new(200, None, Duration::from_millis(20)).await;
    // All of them exist when it starts.
    rig.enable(false).await;
    rig.send(600).await;
    rig.enable(true).await;
    rig.tried(600).await;
    let most = rig.script.most.load(Ordering::Relaxed);
    assert!((8..=64).contains(&most), "{most} at a time");
}

#[tokio::test(start_paused = true)]
async fn five_days_of_failures_disable_it_with_an_event() {
    let rig = Rig::new(500, None, Duration::ZERO).await;
    for day in 0..6 {
        rig.send(1).await;
        rig.tried(day + 1).await;
        rig.engine.pass(24 * HOUR).await;
    }
    let read = async || rig.acme.webhook(rig.webhook.id).await.unwrap();
    until("its end", async || !read().await.settings.enabled).await;
    assert_eq!(read().await.disabled_reason, Some(DisabledReason::Failing));
    let log = log(&rig.acme).await;
    let emitted = log.iter().find(|entry| entry.event.kind() == "webhook.disabled").unwrap();
    let expected =
        serde_json::json!({"webhook_id": rig.webhook.id.to_string(), "reason": "failing"});
    assert_eq!(emitted.event.data(), expected);
    let before = rig.script.tries();
    rig.send(1).await;
    rig.engine.pass(24 * HOUR).await;
    rig.no_more_than(before).await;
}

#[tokio::test(start_paused = true)]
async fn what_the_log_forgot_before_it_was_delivered_is_reported() {
    let events = crate::EventOptions { kept_for: 24 * HOUR, ..crate::EventOptions::default() };
    let options = EngineOptions { events, ..options(CrashingStore::new(), START) };
    let (engine, script) = start(options, 500, Duration::ZERO).await;
    let acme = workspace(&engine, "acme", 100).await;
    let settings =
        WebhookSettings { batch: true, events: vec!["contact.opted_out".to_owned()], ..settings() };
    let (webhook, _) = acme.create_webhook(settings).await.unwrap();
    let rig = Rig { engine, acme, webhook, script };
    let forgotten = async || {
        let rows = rig.rows().await.into_iter();
        let rows = rows.filter(|row| row.error.as_deref() == Some("forgotten"));
        rows.filter_map(|row| row.forgotten.map(|it| (it, row.attempt.attempt))).collect::<Vec<_>>()
    };
    let append = async |count: u32| {
        for _ in 0..count {
            let number = log(&rig.acme).await.last().map_or(0, |last| last.sequence as u32);
            rig.acme.suppress(phone(number), None).await.unwrap();
        }
    };
    let first = log(&rig.acme).await.len() as u64 + 1;
    // One batch was tried once. A second one, of two, loses its first event before the other.
    append(1).await;
    rig.tried(1).await;
    rig.enable(false).await;
    append(1).await;
    rig.engine.clock().pass(12 * HOUR);
    append(1).await;
    rig.enable(true).await;
    rig.tried(3).await;
    rig.enable(false).await;
    append(1).await;
    rig.engine.pass(12 * HOUR).await;
    let begins_with = async |sequence| {
        until("it is forgotten", async || {
            rig.engine.pass(Duration::from_secs(61)).await;
            log(&rig.acme).await[0].sequence == sequence
        })
        .await;
    };
    begins_with(first + 2).await;
    let before = rig.script.tries();
    rig.script.answer_with(200);
    rig.enable(true).await;
    until("what is left", async || forgotten().await.len() == 2 && rig.script.tries() > before + 1)
        .await;
    let mut emitted = forgotten().await;
    emitted.sort();
    assert_eq!(emitted[0].0, (first, first));
    assert_eq!(emitted[1].0, (first + 1, first + 1));
    // While it is disabled all events except the newest are deleted.
    rig.enable(false).await;
    append(3).await;
    rig.engine.clock().pass(25 * HOUR);
    append(1).await;
    begins_with(first + 7).await;
    rig.enable(true).await;
    until("a gap", async || forgotten().await.len() == 3).await;
    assert!(forgotten().await.contains(&((first + 4, first + 6), 0)));
}

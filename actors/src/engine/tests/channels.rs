//! Tests of numbers with a scripted channel: order, throttles, stops, pace, all in engine time.

use std::collections::VecDeque;

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::{
    CloudApiAccount, CloudApiSecrets, CustomChannel, NewNumber, NewProvider, SendOtpError,
    StartError,
};
use postrider_channel::{
    AttemptOutcome, Channel, Failure, FailureClass, Outbound, Sending, Throttle,
};
use postrider_domain::event::Delivery;

use super::*;

/// Resolves to the scripted outcomes, by phone or for all; without one it accepts the message.
#[derive(Default)]
struct Script {
    clock: Mutex<Option<Clock>>,
    for_all: Mutex<VecDeque<AttemptOutcome>>,
    always: Mutex<Option<AttemptOutcome>>,
    by_phone: Mutex<HashMap<Phone, VecDeque<AttemptOutcome>>>,
    /// The accepted messages, with the time of each.
    taken: Mutex<Vec<(Phone, Timestamp)>>,
    calls: Mutex<u32>,
    /// The duration of an answer, in engine time.
    latency: Mutex<Duration>,
    under_way: Mutex<(u32, u32)>,
}

struct Scripted(Arc<Script>);

impl Script {
    fn next(&self, to: Phone) -> AttemptOutcome {
        *self.calls.lock() += 1;
        let by_phone = self.by_phone.lock().get_mut(&to).and_then(VecDeque::pop_front);
        by_phone
            .or_else(|| self.always.lock().clone())
            .or_else(|| self.for_all.lock().pop_front())
            .unwrap_or(AttemptOutcome::Sent)
    }

    fn take(&self, to: Phone) -> AttemptOutcome {
        let outcome = self.next(to);
        if matches!(outcome, AttemptOutcome::Sent | AttemptOutcome::SentAs(_)) {
            let now = self.clock.lock().as_ref().unwrap().now();
            self.taken.lock().push((to, now));
        }
        outcome
    }
}

impl Channel for Scripted {
    fn send(&self, message: Outbound) -> Sending {
        let script = Arc::clone(&self.0);
        let latency = *script.latency.lock();
        if latency.is_zero() {
            return Box::pin(std::future::ready(script.take(message.to.phone().unwrap())));
        }
        Box::pin(async move {
            let clock = script.clock.lock().clone().unwrap();
            {
                let (now, most) = &mut *script.under_way.lock();
                *now += 1;
                *most = (*most).max(*now);
            }
            clock.sleep_until(clock.now().plus(latency)).await;
            script.under_way.lock().0 -= 1;
            script.take(message.to.phone().unwrap())
        })
    }
}

struct Rig {
    engine: Engine,
    acme: Workspace,
    script: Arc<Script>,
}

impl Rig {
    async fn new(messages_per_second: u32) -> Self {
        Self::on(CrashingStore::new(), messages_per_second).await
    }

    async fn on(store: impl Store, messages_per_second: u32) -> Self {
        let script = Arc::new(Script::default());
        let options = EngineOptions {
            channel: Some(CustomChannel(Arc::new(Scripted(Arc::clone(&script))))),
            ..options(store, START)
        };
        *script.clock.lock() = Some(options.clock.clone());
        let engine = Engine::start(options).await.unwrap();
        let admin = engine.admin();
        admin.create_workspace(id("acme"), "acme".to_owned()).await.unwrap();
        admin.set_credits(&id("acme"), 1_000).await.unwrap();
        let number = NewNumber {
            messages_per_second: Some(messages_per_second),
            ..NewNumber::of(NewProvider::Custom)
        };
        admin.connect_number(&id("acme"), number).await.unwrap();
        let acme = engine.workspace(&id("acme")).unwrap();
        Self { engine, acme, script }
    }

    async fn send(&self, number: u32) -> RequestId {
        self.acme.send_otp(SendOtp::to(phone(number))).await.unwrap().request_id
    }

    async fn send_all(&self, numbers: impl IntoIterator<Item = u32>) -> Vec<RequestId> {
        let mut requests = Vec::new();
        for number in numbers {
            requests.push(self.send(number).await);
        }
        self.settle().await;
        requests
    }

    async fn settle_actors(&self) {
        for _ in 0..30 {
            tokio::task::yield_now().await;
        }
    }

    async fn settle(&self) {
        self.settle_actors().await;
        self.engine.shared().writer.barrier().await.ok();
        self.engine.beat().await;
    }

    async fn pass_ms(&self, ms: u64) {
        self.engine.pass(Duration::from_millis(ms)).await;
        self.settle().await;
    }

    async fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            self.pass_ms(1000).await;
        }
    }

    /// Returns the phones whose messages were accepted, in order.
    fn taken(&self) -> Vec<Phone> {
        self.script.taken.lock().iter().map(|(to, _)| *to).collect()
    }

    fn calls(&self) -> u32 {
        *self.script.calls.lock()
    }

    async fn delivery(&self, request: RequestId) -> Delivery {
        self.acme.otp(request).await.unwrap().delivery
    }

    async fn notices(&self) -> Vec<&'static str> {
        let kinds = kinds(&log(&self.acme).await);
        kinds.into_iter().filter(|kind| kind.starts_with("number.")).collect()
    }
}

fn phones(numbers: impl IntoIterator<Item = u32>) -> Vec<Phone> {
    numbers.into_iter().map(phone).collect()
}

fn account_fault() -> AttemptOutcome {
    let class = FailureClass::Account;
    AttemptOutcome::Failed(Failure { class, code: Some(190), details: "expired".into() })
}

#[tokio::test(start_paused = true)]
async fn a_stopped_account_holds_what_it_has_and_revives_in_order() {
    let rig = Rig::new(0).await;
    *rig.script.always.lock() = Some(account_fault());
    let first = rig.send(1).await;
    rig.settle().await;
    assert_eq!(rig.delivery(first).await, Delivery::Queued, "it is held, not failed");
    let Err(SendOtpError::Unavailable(why)) = rig.acme.send_otp(SendOtp::to(phone(2))).await else {
        panic!("the breaker is open")
    };
    assert_eq!(why.reason, UnavailableReason::ChannelDown);
    assert_eq!(why.retry_after, Duration::from_secs(60));
    until("it is emitted", async || rig.notices().await == ["number.stopped"]).await;
    let stopped = log(&rig.acme).await.into_iter().find(|it| it.event.kind() == "number.stopped");
    let data = stopped.unwrap().event.data();
    assert_eq!((&data["error_code"], &data["reason"]), (&190.into(), &"expired".into()));
    rig.pass(59).await;
    assert_eq!(rig.calls(), 1);
    rig.pass(1).await;
    assert_eq!(rig.calls(), 2, "one is tried after a minute");
    rig.pass(119).await;
    assert_eq!(rig.calls(), 2);
    *rig.script.always.lock() = None;
    rig.pass(1).await;
    until("it is emitted", async || rig.notices().await == ["number.stopped", "number.recovered"])
        .await;
    assert_eq!(rig.delivery(first).await, Delivery::Sent);
    rig.send_all([2]).await;
    assert_eq!(rig.taken(), phones([1, 2]));
}

#[tokio::test(start_paused = true)]
async fn what_was_under_way_when_the_account_stopped_goes_out_in_order() {
    let rig = Rig::new(0).await;
    *rig.script.latency.lock() = Duration::from_secs(1);
    *rig.script.always.lock() = Some(account_fault());
    let requests = rig.send_all(0..12).await;
    rig.pass(2).await;
    assert_eq!(rig.calls(), 12);
    *rig.script.latency.lock() = Duration::ZERO;
    *rig.script.always.lock() = None;
    rig.pass(61).await;
    assert_eq!(rig.taken(), phones(0..12));
    assert_eq!(rig.notices().await, ["number.stopped", "number.recovered"]);
    for request in requests {
        assert_eq!(rig.delivery(request).await, Delivery::Sent);
    }
}

#[tokio::test(start_paused = true)]
async fn what_expires_while_the_account_is_stopped_is_paid_back() {
    let rig = Rig::new(0).await;
    *rig.script.always.lock() = Some(account_fault());
    let request = rig.send_all([1]).await[0];
    rig.pass(299).await;
    assert_eq!(rig.delivery(request).await, Delivery::Queued);
    rig.pass(2).await;
    assert_eq!(rig.delivery(request).await, Delivery::Failed);
    assert_eq!(credits(&rig.engine, "acme").await, 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_throttled_recipient_waits_and_others_go_on() {
    let rig = Rig::new(0).await;
    let throttled = AttemptOutcome::Throttled { scope: Throttle::Recipient, after: None };
    let twice = VecDeque::from([throttled.clone(), throttled]);
    rig.script.by_phone.lock().insert(phone(1), twice);
    rig.send_all([1, 1, 2, 1, 3]).await;
    assert_eq!(rig.taken(), phones([2, 3]));
    // The wait is a second, and then four.
    rig.pass(1).await;
    assert_eq!((rig.taken().len(), rig.calls()), (2, 4));
    rig.pass(3).await;
    assert_eq!(rig.calls(), 4);
    rig.pass(1).await;
    assert_eq!(rig.taken(), phones([2, 3, 1, 1, 1]));
    assert_eq!(rig.calls(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_throttled_number_pauses_and_nothing_fails() {
    for scope in [Throttle::Number, Throttle::Account, Throttle::App] {
        let rig = Rig::new(0).await;
        let throttled = |after| AttemptOutcome::Throttled { scope, after };
        let wait = Some(Duration::from_secs(60));
        rig.script.for_all.lock().extend([throttled(None), throttled(wait)]);
        let requests = rig.send_all(0..8).await;
        assert_eq!((rig.calls(), rig.taken().len()), (1, 0));
        rig.pass(1).await;
        assert_eq!(rig.calls(), 2, "it is tried after a second");
        rig.pass(59).await;
        assert_eq!(rig.calls(), 2, "and then after what the provider asked");
        rig.pass(1).await;
        assert_eq!(rig.taken(), phones(0..8), "in order");
        for request in requests {
            assert_eq!(rig.delivery(request).await, Delivery::Sent);
        }
        assert!(rig.notices().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_pace_delays_and_drops_nothing() {
    let rig = Rig::new(5).await;
    rig.send_all(0..20).await;
    assert_eq!(rig.taken().len(), 5, "one second's worth at once");
    for step in 1..=15 {
        rig.pass_ms(200).await;
        assert_eq!(rig.taken().len(), 5 + step);
    }
    assert_eq!(rig.taken(), phones(0..20));
    rig.pass(10).await;
    assert_eq!(rig.calls(), 20);
}

#[tokio::test(start_paused = true)]
async fn only_so_many_are_with_the_channel() {
    let rig = Rig::new(0).await;
    *rig.script.latency.lock() = Duration::from_secs(1);
    rig.send_all(0..40).await;
    assert_eq!(rig.script.under_way.lock().1, 16);
    rig.pass(4).await;
    assert_eq!(rig.taken().len(), 40);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_stops_nothing() {
    let rig = Rig::new(0).await;
    *rig.script.always.lock() = Some(AttemptOutcome::Unknown);
    let requests = rig.send_all(0..8).await;
    rig.pass(9).await;
    assert_eq!(rig.calls(), 8);
    for request in requests {
        assert_eq!(rig.delivery(request).await, Delivery::Unknown);
    }
}

/// One group makes a message durable and disconnects its number: the message must not be left.
#[tokio::test(start_paused = true)]
async fn what_becomes_durable_with_the_disconnection_fails() {
    let store = postrider_store::hooked::Gated::default();
    let rig = Rig::on(store.clone(), 0).await;
    let numbers = rig.engine.admin().numbers(&id("acme")).await.unwrap();
    let (engine, acme, number) = (rig.engine.clone(), rig.acme.clone(), numbers[0].id);
    // While this commit waits, the next group fills.
    store.shut();
    let first = tokio::spawn(async move { engine.admin().add_credits(&id("acme"), 1).await });
    rig.settle_actors().await;
    let sending = tokio::spawn(async move { acme.send_otp(SendOtp::to(phone(1))).await });
    rig.settle_actors().await;
    let engine = rig.engine.clone();
    let disconnecting =
        tokio::spawn(async move { engine.admin().disconnect_number(&id("acme"), number).await });
    rig.settle_actors().await;
    store.open();
    first.await.unwrap().unwrap();
    disconnecting.await.unwrap().unwrap();
    let request = sending.await.unwrap().unwrap().request_id;
    until("it has failed", async || rig.delivery(request).await == Delivery::Failed).await;
    assert_eq!((rig.calls(), credits(&rig.engine, "acme").await), (0, 1_001));
}

/// A start under a new master key encrypts the secrets again, so that the old one can be dropped.
#[tokio::test(start_paused = true)]
async fn the_secrets_of_a_number_outlive_a_rotation() {
    let store = CrashingStore::new();
    let started = async |keys: &[(u8, [u8; 32])]| {
        let master_keys = MasterKeys::new(keys.iter().copied()).unwrap();
        let options = EngineOptions { master_keys, ..options(store.clone(), START) };
        Engine::start(options).await.unwrap()
    };
    let (old, new) = ((1, [7; 32]), (2, [8; 32]));
    let engine = started(&[old]).await;
    engine.admin().create_workspace(id("acme"), "acme".to_owned()).await.unwrap();
    let account = CloudApiAccount {
        phone: phone(1),
        phone_number_id: "106".parse().unwrap(),
        account_id: "107".parse().unwrap(),
    };
    let secret = |text: &str| crate::Secret::new(text);
    let secrets = CloudApiSecrets {
        token: secret("t"),
        app_secret: secret("s"),
        verify_token: secret("shown"),
    };
    let provider = NewProvider::CloudApi(account, secrets);
    let number = NewNumber::of(provider);
    let number = engine.admin().connect_number(&id("acme"), number).await.unwrap();
    engine.shutdown(LONG).await.unwrap();
    for keys in [&[old][..], &[old, new], &[new]] {
        let engine = started(keys).await;
        let receiver = engine.callbacks(number.id).unwrap();
        assert!(receiver.knows("shown") && !receiver.knows("other"), "{keys:?}");
        assert_eq!(
            engine.admin().numbers(&id("acme")).await.unwrap(),
            std::slice::from_ref(&number)
        );
        engine.shutdown(LONG).await.unwrap();
    }
    let master_keys = MasterKeys::new([old]).unwrap();
    let refused = Engine::start(EngineOptions { master_keys, ..options(store, START) }).await;
    assert!(matches!(refused, Err(StartError::MasterKeyMissing { version: 2 })), "{refused:?}");
}

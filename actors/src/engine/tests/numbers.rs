//! Tests of messages on their way through a number, with the sandbox behind it.

use crate::{ReadOtpError, ResendOtpError, ScriptedOutcome, SendOtpError, Unavailable};
use postrider_domain::event::{Delivery, OtpFailure, OtpStatus};
use postrider_domain::{PublicEvent, RequestId};
use postrider_store::CrashOutcome;
use postrider_workspace::mailbox::message::WorkspaceMessage;

use super::*;

const UNAVAILABLE: ScriptedOutcome = ScriptedOutcome::Unavailable;

struct Rig {
    store: CrashingStore,
    engine: Engine,
    acme: Workspace,
}

impl Rig {
    async fn new() -> Self {
        let store = CrashingStore::new();
        let engine = engine(&store, START).await;
        let acme = workspace(&engine, "acme", 100).await;
        Self { store, engine, acme }
    }

    fn script(&self, outcome: ScriptedOutcome, times: Option<u32>) {
        self.engine.sandbox().script(&id("acme"), None, outcome, times);
    }

    async fn send(&self, number: u32) -> RequestId {
        self.acme.send_otp(SendOtp::to(phone(number))).await.unwrap().request_id
    }

    /// Waits until a request's delivery is this.
    async fn becomes(&self, request: RequestId, delivery: Delivery) {
        until(&format!("{delivery:?}"), async || {
            self.acme.otp(request).await.is_ok_and(|otp| otp.delivery == delivery)
        })
        .await;
    }

    async fn delivery(&self, request: RequestId) -> Delivery {
        self.acme.otp(request).await.unwrap().delivery
    }

    /// Returns the number of messages that the sandbox delivered.
    fn delivered(&self) -> usize {
        self.engine.sandbox().messages(&id("acme"), None, 1000).len()
    }

    async fn credits(&self) -> u64 {
        credits(&self.engine, "acme").await
    }

    /// Passes engine time in small steps, so that a number acts on each.
    async fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            self.engine.pass(Duration::from_secs(1)).await;
            self.settle().await;
        }
    }

    /// Runs all work that needs no time.
    async fn settle(&self) {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        self.engine.shared().writer.barrier().await.ok();
        self.engine.beat().await;
    }

    async fn failure(&self) -> OtpFailure {
        let reason = |entry: &EventEntry| match entry.event {
            PublicEvent::OtpFailed { reason, .. } => Some(reason),
            _ => None,
        };
        log(&self.acme).await.iter().find_map(reason).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn the_sandbox_shows_what_it_delivered() {
    let rig = Rig::new().await;
    let request = rig.send(1).await;
    rig.becomes(request, Delivery::Sent).await;
    let [message] = &rig.engine.sandbox().messages(&id("acme"), Some(phone(1)), 5)[..] else {
        panic!("one message")
    };
    let code = code(&id("acme"), request, phone(1));
    assert_eq!((message.to.phone(), message.kind), (Some(phone(1)), "otp"));
    assert_eq!(message.text, format!("{code} is your verification code."));
    assert_eq!(message.code, Some(code.clone()));
    assert_eq!(rig.engine.sandbox().messages(&id("acme"), Some(phone(2)), 5), []);
    assert_eq!(rig.engine.sandbox().messages(&id("b"), None, 5), []);
    assert_eq!(rig.acme.verify_otp(request, &code).await, Ok(Verification::Verified));
}

#[tokio::test(start_paused = true)]
async fn one_that_is_refused_is_paid_back() {
    let rig = Rig::new().await;
    rig.script(ScriptedOutcome::Failed { error_code: 131_026 }, Some(1));
    let request = rig.send(1).await;
    rig.becomes(request, Delivery::Failed).await;
    assert_eq!(rig.credits().await, 100);
    let reason = OtpFailure::Channel { error_code: Some(131_026) };
    assert_eq!(rig.failure().await, reason);
    let second = rig.send(1).await;
    rig.becomes(second, Delivery::Sent).await;
    assert_eq!((rig.credits().await, rig.delivered()), (99, 1));
}

#[tokio::test(start_paused = true)]
async fn one_whose_answer_is_lost_is_unknown_and_goes_out_again_twice() {
    let rig = Rig::new().await;
    rig.script(ScriptedOutcome::Lost, None);
    let request = rig.send(1).await;
    rig.becomes(request, Delivery::Unknown).await;
    rig.pass(9).await;
    assert_eq!(rig.delivered(), 1);
    rig.pass(60).await;
    assert_eq!((rig.delivered(), rig.credits().await), (3, 99));
    let shown = rig.engine.sandbox().messages(&id("acme"), None, 9);
    assert!(shown.iter().all(|message| message.code == shown[0].code));
    assert_eq!(kinds(&log(&rig.acme).await), ["otp.sent"]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_one_takes_five_seconds_of_engine_time() {
    let rig = Rig::new().await;
    rig.script(ScriptedOutcome::Slow, None);
    let request = rig.send(1).await;
    rig.pass(4).await;
    assert_eq!((rig.delivery(request).await, rig.delivered()), (Delivery::Queued, 0));
    rig.pass(1).await;
    rig.becomes(request, Delivery::Sent).await;
    assert_eq!(rig.delivered(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_script_holds_for_its_times_and_a_phones_own_goes_first() {
    let rig = Rig::new().await;
    let (acme, sandbox) = (id("acme"), rig.engine.sandbox());
    let failed = ScriptedOutcome::Failed { error_code: 1 };
    sandbox.script(&acme, None, failed, Some(2));
    sandbox.script(&acme, Some(phone(7)), ScriptedOutcome::Lost, None);
    let expected = [
        (7, Delivery::Unknown),
        (1, Delivery::Failed),
        (7, Delivery::Unknown),
        (2, Delivery::Failed),
        (3, Delivery::Sent),
    ];
    for (number, delivery) in expected {
        rig.becomes(rig.send(number).await, delivery).await;
    }
    sandbox.script(&acme, Some(phone(7)), ScriptedOutcome::Sent, None);
    sandbox.script(&acme, None, failed, None);
    rig.becomes(rig.send(7).await, Delivery::Sent).await;
    rig.becomes(rig.send(1).await, Delivery::Failed).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_not_taken_is_tried_again_in_engine_time() {
    let rig = Rig::new().await;
    rig.script(UNAVAILABLE, Some(2));
    let request = rig.send(1).await;
    // Tokio's time alone changes nothing.
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!((rig.delivery(request).await, rig.delivered()), (Delivery::Queued, 0));
    // The waits are about one second, and about two.
    rig.engine.pass(Duration::from_millis(740)).await;
    rig.settle().await;
    assert_eq!(rig.delivered(), 0);
    rig.pass(4).await;
    rig.becomes(request, Delivery::Sent).await;
    assert_eq!((rig.delivered(), rig.credits().await), (1, 99));
}

#[tokio::test(start_paused = true)]
async fn the_breaker_opens_after_five_and_closes_again() {
    let rig = Rig::new().await;
    rig.script(UNAVAILABLE, None);
    let mut queued = Vec::new();
    for number in 0..5 {
        queued.push(rig.send(number).await);
        rig.settle().await;
    }
    let Err(SendOtpError::Unavailable(why)) = rig.acme.send_otp(SendOtp::to(phone(9))).await else {
        panic!("the breaker is open")
    };
    let retry_after = Duration::from_secs(5);
    assert_eq!(why, Unavailable { reason: UnavailableReason::ChannelDown, retry_after });
    let resend = rig.acme.resend_otp(queued[0]).await;
    assert_eq!(resend, Err(ResendOtpError::Refused(SendOtpError::Unavailable(why))));
    assert_eq!(rig.credits().await, 95, "a refused send costs nothing");
    rig.script(ScriptedOutcome::Sent, None);
    rig.pass(4).await;
    assert_eq!(rig.delivered(), 0, "it is left alone");
    rig.pass(6).await;
    for request in queued {
        rig.becomes(request, Delivery::Sent).await;
    }
    rig.becomes(rig.send(9).await, Delivery::Sent).await;
    assert_eq!((rig.delivered(), rig.credits().await), (6, 94));
}

#[tokio::test(start_paused = true)]
async fn one_that_expires_while_it_waits_was_not_sent_in_time() {
    let rig = Rig::new().await;
    rig.script(UNAVAILABLE, None);
    let request = rig.send(1).await;
    rig.pass(299).await;
    assert_eq!(rig.delivery(request).await, Delivery::Queued);
    rig.engine.pass(Duration::from_secs(1)).await;
    rig.becomes(request, Delivery::Failed).await;
    assert_eq!(rig.credits().await, 100);
    assert_eq!(rig.failure().await, OtpFailure::NotSentInTime);
    // The number and the workspace each find it out.
    let mut emitted = kinds(&log(&rig.acme).await);
    emitted.sort_unstable();
    assert_eq!(emitted, ["otp.expired", "otp.failed", "otp.sent"]);
    assert_eq!(rig.delivered(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_taken_goes_out_once_after_a_restart() {
    for crash in [false, true] {
        let mut rig = Rig::new().await;
        rig.script(UNAVAILABLE, None);
        let request = rig.send(1).await;
        rig.settle().await;
        if crash {
            rig.store = rig.store.crash(postrider_store::Keep::Nothing);
        } else {
            rig.engine.shutdown(LONG).await.unwrap();
        }
        rig.engine = engine(&rig.store, START).await;
        rig.acme = rig.engine.workspace(&id("acme")).unwrap();
        rig.becomes(request, Delivery::Sent).await;
        rig.pass(30).await;
        let [message] = &rig.engine.sandbox().messages(&id("acme"), None, 10)[..] else {
            panic!("it goes out once")
        };
        assert_eq!(message.code, Some(code(&id("acme"), request, phone(1))));
        assert_eq!(rig.credits().await, 99);
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_stop_ends_in_a_refund() {
    for stopped in [Duration::from_secs(400), Duration::from_secs(9000)] {
        let rig = Rig::new().await;
        rig.script(UNAVAILABLE, None);
        rig.send(1).await;
        rig.settle().await;
        rig.engine.shutdown(LONG).await.unwrap();
        let engine = engine(&rig.store, START.plus(stopped)).await;
        until("it is paid back", async || credits(&engine, "acme").await == 100).await;
        let acme = engine.workspace(&id("acme")).unwrap();
        until("all is emitted", async || log(&acme).await.len() == 3).await;
    }
}

/// A workspace that is rebuilt dispatches again the messages that its number still has.
#[tokio::test(start_paused = true)]
async fn a_workspace_that_is_rebuilt_does_not_send_twice() {
    for (outcome, delivery, left) in [
        (ScriptedOutcome::Sent, Delivery::Sent, 98),
        (ScriptedOutcome::Failed { error_code: 5 }, Delivery::Failed, 100),
    ] {
        for slow in [false, true] {
            let rig = Rig::new().await;
            rig.script(if slow { ScriptedOutcome::Slow } else { UNAVAILABLE }, None);
            let (one, two) = (rig.send(1).await, rig.send(2).await);
            rig.settle().await;
            rig.store.fail_next_commits(1, CrashOutcome::Lost);
            rig.acme.send_otp(SendOtp::to(phone(3))).await.unwrap_err();
            healed(&rig.acme).await;
            rig.script(outcome, None);
            rig.pass(10).await;
            for request in [one, two] {
                rig.becomes(request, if slow { Delivery::Sent } else { delivery }).await;
            }
            rig.pass(10).await;
            let sent = if slow || delivery == Delivery::Sent { 2 } else { 0 };
            assert_eq!(rig.delivered(), sent, "{outcome:?} {slow}");
            let left = if slow { 98 } else { left };
            assert_eq!(rig.credits().await, left, "{outcome:?} {slow}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_number_that_dies_sends_what_it_had() {
    let rig = Rig::new().await;
    rig.script(UNAVAILABLE, None);
    let (one, two) = (rig.send(1).await, rig.send(2).await);
    rig.settle().await;
    for number in rig.engine.shared().numbers.live() {
        number.kill();
    }
    rig.script(ScriptedOutcome::Sent, None);
    tokio::time::sleep(Duration::from_secs(10)).await;
    rig.becomes(one, Delivery::Sent).await;
    rig.becomes(two, Delivery::Sent).await;
    rig.pass(30).await;
    assert_eq!((rig.delivered(), rig.credits().await), (2, 98));
}

#[tokio::test(start_paused = true)]
async fn a_disconnected_number_sends_no_more() {
    let rig = Rig::new().await;
    let acme = id("acme");
    let [number] = &rig.engine.admin().numbers(&acme).await.unwrap()[..] else { panic!("one") };
    rig.engine.admin().disconnect_number(&acme, number.id).await.unwrap();
    let again = rig.engine.admin().disconnect_number(&acme, number.id).await;
    assert!(matches!(again, Err(crate::AdminError::Change(crate::ChangeError::NoSuchNumber))));
    let refused = rig.acme.send_otp(SendOtp::to(phone(1))).await;
    assert_eq!(refused, Err(SendOtpError::NotConnected));
    rig.engine.admin().connect_sandbox_number(&acme).await.unwrap();
    let request = rig.send(1).await;
    rig.becomes(request, Delivery::Sent).await;
    let state = rig.acme.otp(request).await.unwrap();
    assert_eq!(state.status, OtpStatus::Active);
    let unknown = rig.acme.otp(RequestId::from_parts(START, 1)).await;
    assert_eq!(unknown, Err(ReadOtpError::NotFound));
}

/// A number that has lost its queue receives the durable messages, and no others.
#[tokio::test(start_paused = true)]
async fn what_is_not_durable_is_not_handed_over_again() {
    let store = postrider_store::hooked::Gated::default();
    let engine = Engine::start(options(store.clone(), START)).await.unwrap();
    let acme = workspace(&engine, "acme", 10).await;
    store.shut();
    let sending = tokio::spawn({
        let acme = acme.clone();
        async move { acme.send_otp(SendOtp::to(phone(1))).await }
    });
    let delivered = || engine.sandbox().messages(acme.id(), None, 10).len();
    for _ in 0..50 {
        engine.shared().workspaces.cast_all_live(|| WorkspaceMessage::Redispatch);
        tokio::task::yield_now().await;
    }
    assert_eq!(delivered(), 0);
    store.open();
    let request = sending.await.unwrap().unwrap().request_id;
    until("it is sent", async || {
        acme.otp(request).await.is_ok_and(|otp| otp.delivery == Delivery::Sent)
    })
    .await;
    assert_eq!(delivered(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_number_that_dies_while_storage_fails_sends_what_it_had() {
    let rig = Rig::new().await;
    workspace(&rig.engine, "b", 10).await;
    rig.script(UNAVAILABLE, None);
    let request = rig.send(1).await;
    rig.settle().await;
    rig.store.fail_next_reopens(3);
    rig.store.fail_next_commits(1, CrashOutcome::Lost);
    rig.engine.admin().add_credits(&id("b"), 1).await.unwrap_err();
    let live = rig.engine.shared().numbers.live();
    live[0].kill();
    rig.script(ScriptedOutcome::Sent, None);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!rig.engine.health().ready, "its successor has come meanwhile");
    rig.becomes(request, Delivery::Sent).await;
    assert_eq!(rig.delivered(), 1);
}

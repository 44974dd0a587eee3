//! Tests that single messages survive crashes without being sent twice.
//!
//! A message that may have been dispatched is not dispatched again. One that certainly was not is.

use crate::MessageStatus;
use postrider_channel::callback::Progress;
use postrider_channel::{AttemptOutcome, Failure, FailureClass, Throttle};
use postrider_store::CrashOutcome;

use super::message_commands::{send_message, until_sent};
use super::scripted::Rig;
use super::*;
use postrider_store::hooked::Gated;

#[tokio::test(start_paused = true)]
async fn what_was_handed_over_before_a_crash_is_unknown_and_a_report_settles_it() {
    let store = CrashingStore::new();
    let rig = Rig::start(store.clone(), Arc::default(), START).await;
    *rig.script.is_mute.lock() = true;
    let (one, two) = (rig.send(1).await, rig.send(2).await);
    rig.handed(2).await;
    let (rig, store) = rig.after_a_crash(&store).await;
    *rig.script.is_mute.lock() = false;
    for message in [one, two] {
        rig.becomes(message, MessageStatus::Unknown).await;
    }
    assert_eq!(rig.credits().await, 98);
    rig.report(one, Progress::Delivered).await;
    assert_eq!(rig.state(one).await.status, MessageStatus::Delivered);
    let next = rig.send(3).await;
    rig.becomes(next, MessageStatus::Sent).await;
    let (rig, _) = rig.after_a_crash(&store).await;
    rig.settle().await;
    assert_eq!(rig.state(two).await.status, MessageStatus::Unknown);
    assert_eq!([one, two, next].map(|message| rig.count(message)), [1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_claimed_before_a_crash_is_sent_after_it() {
    let store = CrashingStore::new();
    let rig = Rig::start(store.clone(), Arc::default(), START).await;
    // More messages than may be with the channel at once.
    *rig.script.is_mute.lock() = true;
    let mut messages = Vec::new();
    for number in 0..20 {
        messages.push(rig.send(number).await);
        // Their order is that of their times.
        rig.engine.clock().advance(Duration::from_millis(1));
    }
    rig.handed(16).await;
    // A message accepted while the number starts may find no capacity that a later one finds.
    let claimed = rig.script.handed.lock().clone();
    let waiting: Vec<_> = messages.into_iter().filter(|it| !claimed.contains(it)).collect();
    assert_eq!(waiting.len(), 4);
    // Those that wait may be handed over before the start returns.
    *rig.script.is_mute.lock() = false;
    let (rig, _) = rig.after_a_crash(&store).await;
    for message in &waiting {
        rig.becomes(*message, MessageStatus::Sent).await;
    }
    for message in &claimed {
        rig.becomes(*message, MessageStatus::Unknown).await;
    }
    rig.settle().await;
    let handed = rig.script.handed.lock().clone();
    assert_eq!(handed, [claimed, waiting].concat(), "each once, and those that waited in order");
}

#[tokio::test(start_paused = true)]
async fn what_may_go_at_once_is_claimed_in_the_commit_that_accepts_it() {
    let rig = Rig::start(CrashingStore::new(), Arc::default(), START).await;
    let mut commits = Vec::new();
    for number in 0..2 {
        let before = rig.engine.shared().writer.stats().groups;
        let message = rig.send(number).await;
        until_sent(&rig.acme, message).await;
        commits.push(rig.engine.shared().writer.stats().groups - before);
    }
    // The first one had to start its number.
    assert_eq!(commits, [3, 2]);
}

#[tokio::test(start_paused = true)]
async fn what_was_to_go_at_once_and_waits_after_all_is_sent_after_a_crash() {
    let store = CrashingStore::new();
    let rig = Rig::start(store.clone(), Arc::default(), START).await;
    let first = rig.send(0).await;
    rig.becomes(first, MessageStatus::Sent).await;
    let (scope, after) = (Throttle::Number, None);
    rig.script.answers.lock().push_back(AttemptOutcome::Throttled { scope, after });
    // One commit accepts all of them, and its number could take them at the start.
    let messages = tokio::join!(rig.send(1), rig.send(2), rig.send(3));
    let messages: [_; 3] = messages.into();
    rig.handed(2).await;
    rig.settle().await;
    // An idle workspace leaves memory, and then they come in any order.
    let tried = messages.map(|message| rig.count(message));
    assert_eq!(tried.iter().sum::<usize>(), 1, "{tried:?}");
    let (rig, _) = rig.after_a_crash(&store).await;
    for message in messages {
        rig.becomes(message, MessageStatus::Sent).await;
    }
    assert_eq!(messages.map(|message| rig.count(message)), tried.map(|before| before + 1));
}

/// The commit of a claim fails: its message must not have been dispatched.
#[tokio::test(start_paused = true)]
async fn nothing_is_handed_over_before_its_claim_is_durable() {
    for outcome in [CrashOutcome::Lost, CrashOutcome::Kept, CrashOutcome::Unsynced] {
        let store = CrashingStore::new();
        let rig = Rig::start(store.clone(), Arc::default(), START).await;
        // The message's own commit, and then the commit of its claim.
        store.fail_after(1, outcome);
        let message = rig.send(1).await;
        until("the failure", async || store.has_failed()).await;
        assert_eq!(rig.count(message), 0, "{outcome:?}");
        // The workspace is rebuilt, and the number requests the claim again.
        rig.becomes(message, MessageStatus::Sent).await;
        assert_eq!(rig.count(message), 1, "{outcome:?}");
    }
    let store = CrashingStore::new();
    let rig = Rig::start(store.clone(), Arc::default(), START).await;
    store.fail_after(1, CrashOutcome::Lost);
    let message = rig.send(1).await;
    until("the failure", async || store.has_failed()).await;
    let (rig, _) = rig.after_a_crash(&store).await;
    rig.becomes(message, MessageStatus::Sent).await;
    assert_eq!(rig.count(message), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_surely_not_taken_is_sent_after_a_crash() {
    let throttled = |scope| AttemptOutcome::Throttled { scope, after: None };
    for answer in [
        throttled(Throttle::Recipient),
        throttled(Throttle::Number),
        AttemptOutcome::Retry { after: None },
        AttemptOutcome::Failed(Failure {
            class: FailureClass::Account,
            ..Failure::permanent(Some(190))
        }),
    ] {
        let store = CrashingStore::new();
        let rig = Rig::start(store.clone(), Arc::default(), START).await;
        rig.script.answers.lock().push_back(answer.clone());
        let message = rig.send(1).await;
        rig.handed(1).await;
        rig.settle().await;
        let (rig, _) = rig.after_a_crash(&store).await;
        rig.becomes(message, MessageStatus::Sent).await;
        assert_eq!(rig.count(message), 2, "{answer:?}");
    }
}

/// A gateway denied that it accepted the message, but it did. The provider reports on the message
/// while it waits.
#[tokio::test(start_paused = true)]
async fn what_a_report_has_settled_is_not_sent_again() {
    for status in [Progress::Delivered, Progress::Failed(Failure::permanent(None))] {
        let rig = Rig::start(CrashingStore::new(), Arc::default(), START).await;
        rig.script.answers.lock().push_back(AttemptOutcome::Retry { after: None });
        let message = rig.send(1).await;
        rig.handed(1).await;
        rig.settle().await;
        rig.report(message, status.clone()).await;
        let next = rig.send(2).await;
        for _ in 0..40 {
            rig.engine.pass(Duration::from_secs(1)).await;
            rig.settle().await;
        }
        rig.becomes(next, MessageStatus::Sent).await;
        assert_eq!((rig.count(message), rig.count(next)), (1, 1), "{status:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_never_sent_again() {
    let rig = Rig::start(CrashingStore::new(), Arc::default(), START).await;
    rig.script.answers.lock().push_back(AttemptOutcome::Unknown);
    let message = rig.send(1).await;
    rig.becomes(message, MessageStatus::Unknown).await;
    for _ in 0..3 {
        rig.engine.pass(Duration::from_secs(3600)).await;
        rig.settle().await;
    }
    assert_eq!(rig.count(message), 1);
    rig.report(message, Progress::Read).await;
    rig.becomes(message, MessageStatus::Read).await;
}

#[tokio::test(start_paused = true)]
async fn an_account_fault_in_a_report_stops_the_number() {
    let rig = Rig::start(CrashingStore::new(), Arc::default(), START).await;
    let sent = rig.send(1).await;
    rig.becomes(sent, MessageStatus::Sent).await;
    let class = FailureClass::Account;
    let failure = Failure { class, code: Some(131_042), details: "unpaid".into() };
    let stops = async || {
        let log = log(&rig.acme).await;
        log.into_iter().filter(|it| it.event.kind() == "number.stopped").collect::<Vec<_>>()
    };
    for _ in 0..2 {
        rig.report(sent, Progress::Failed(failure.clone())).await;
        until("it is emitted", async || stops().await.len() == 1).await;
    }
    let emitted = stops().await[0].event.data();
    assert_eq!((&emitted["error_code"], &emitted["reason"]), (&131_042.into(), &"unpaid".into()));
    let refused = send_message(&rig.acme, phone(2)).await.unwrap_err();
    let reason = UnavailableReason::ChannelDown;
    let retry_after = Duration::from_secs(60);
    assert_eq!(refused, crate::Unavailable { reason, retry_after }.into());
    assert_eq!(rig.credits().await, 100, "what failed after all is paid back");
    rig.engine.pass(Duration::from_secs(61)).await;
    rig.settle().await;
    let next = rig.send(2).await;
    rig.becomes(next, MessageStatus::Sent).await;
    // The provider repeats its report: that is no news.
    rig.report(sent, Progress::Failed(failure)).await;
    let last = rig.send(3).await;
    rig.becomes(last, MessageStatus::Sent).await;
    let emitted = kinds(&log(&rig.acme).await);
    let emitted: Vec<_> = emitted.into_iter().filter(|kind| kind.starts_with("number.")).collect();
    assert_eq!(emitted, ["number.stopped", "number.recovered"]);
}

/// A phone that the channel reports as opted out receives no more marketing.
#[tokio::test(start_paused = true)]
async fn who_has_stopped_marketing_at_the_channel_is_suppressed() {
    for reported in [false, true] {
        let rig = Rig::start(CrashingStore::new(), Arc::default(), START).await;
        let class = FailureClass::OptedOut;
        let failure = Failure { class, ..Failure::permanent(Some(131_050)) };
        if !reported {
            rig.script.answers.lock().push_back(AttemptOutcome::Failed(failure.clone()));
        }
        let message = rig.send(1).await;
        if reported {
            rig.becomes(message, MessageStatus::Sent).await;
            rig.report(message, Progress::Failed(failure)).await;
        }
        rig.becomes(message, MessageStatus::Failed).await;
        let page = rig.acme.suppressions(0, 9).await.unwrap();
        let [suppressed] = &page.suppressions[..] else { panic!("one") };
        assert_eq!(suppressed.party, phone(1), "{reported}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_clean_stop_leaves_nothing_unknown() {
    let store = Gated::default();
    let rig = Rig::start(store.clone(), Arc::default(), START).await;
    let message = rig.send(1).await;
    rig.becomes(message, MessageStatus::Sent).await;
    store.shut();
    let sending = {
        let acme = rig.acme.clone();
        tokio::spawn(async move { send_message(&acme, phone(2)).await })
    };
    rig.engine.shared().numbers.live();
    for _ in 0..30 {
        tokio::task::yield_now().await;
    }
    let engine = rig.engine.clone();
    let stopping = tokio::spawn(async move { engine.shutdown(LONG).await });
    for _ in 0..30 {
        tokio::task::yield_now().await;
    }
    store.open();
    let message = sending.await.unwrap().unwrap().message_id;
    stopping.await.unwrap().unwrap();
    let rig = Rig::start(store.clone(), rig.script, START).await;
    rig.becomes(message, MessageStatus::Sent).await;
    assert_eq!(rig.count(message), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_number_had_under_way_is_unknown() {
    let rig = Rig::start(CrashingStore::new(), Arc::default(), START).await;
    *rig.script.is_mute.lock() = true;
    let messages = [rig.send(1).await, rig.send(2).await];
    rig.handed(2).await;
    *rig.script.is_mute.lock() = false;
    for number in rig.engine.shared().numbers.live() {
        number.kill();
    }
    for message in messages {
        rig.becomes(message, MessageStatus::Unknown).await;
    }
    let next = rig.send(3).await;
    rig.becomes(next, MessageStatus::Sent).await;
    assert_eq!(rig.script.handed.lock().len(), 3);
}

/// A rebuilt workspace asks its number, which still has the message in flight.
#[tokio::test(start_paused = true)]
async fn a_rebuilt_workspace_gets_the_answer_that_its_number_waits_for() {
    let store = CrashingStore::new();
    let rig = Rig::start(store.clone(), Arc::default(), START).await;
    let numbers = rig.engine.admin().numbers(&id("acme")).await.unwrap();
    rig.engine.admin().connect_sandbox_number(&id("acme")).await.unwrap();
    rig.engine.admin().disconnect_number(&id("acme"), numbers[0].id).await.unwrap();
    let script = crate::ScriptedOutcome::Slow;
    rig.engine.sandbox().script(&id("acme"), None, script, None);
    let message = rig.send(1).await;
    rig.settle().await;
    store.fail_next_commits(1, CrashOutcome::Lost);
    send_message(&rig.acme, phone(2)).await.unwrap_err();
    healed(&rig.acme).await;
    rig.settle().await;
    assert_eq!(rig.state(message).await.status, MessageStatus::Queued);
    rig.engine.pass(Duration::from_secs(5)).await;
    rig.becomes(message, MessageStatus::Sent).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_handed_over_through_a_removed_number_is_unknown_and_not_paid_back() {
    let store = CrashingStore::new();
    let rig = Rig::start(store.clone(), Arc::default(), START).await;
    *rig.script.is_mute.lock() = true;
    let message = rig.send(1).await;
    rig.handed(1).await;
    let number = rig.engine.admin().numbers(&id("acme")).await.unwrap()[0].id;
    rig.engine.admin().disconnect_number(&id("acme"), number).await.unwrap();
    let (rig, _) = rig.after_a_crash(&store).await;
    rig.becomes(message, MessageStatus::Unknown).await;
    assert_eq!(rig.credits().await, 99);
}

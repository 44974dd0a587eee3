//! Tests of callbacks that are large, long, or more than a commit can hold.

use crate::{ConversationFilter, MessageStatus};
use postrider_channel::callback::{Callback, Progress, Referral, StatusUpdate};
use postrider_channel::{Failure, FailureClass, Origin};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{EventKind, MessageId, PublicEvent};
use postrider_workspace::core::command::{Command, Context};

use super::messages::{await_status, begin, emitted};
use super::support::messages::{read, send, wrote};
use super::*;

/// Three letters of three bytes each.
const HINDI: &str = "नमस";

/// Gives the workspace pending work, so that its actor stays, and returns the actor.
async fn busy(engine: &Engine, acme: &Workspace) -> Option<ractor::ActorId> {
    acme.send_otp(SendOtp::to(phone(8))).await.unwrap();
    engine.actor("acme")
}

#[tokio::test(start_paused = true)]
async fn what_a_stranger_writes_is_clipped_and_costs_the_workspace_nothing() {
    let (_, engine, acme, number) = begin().await;
    let actor = busy(&engine, &acme).await;
    let mut callback = wrote(phone(3), "long", START);
    let long = &mut callback.inbound[0];
    (long.text, long.kind) = ("😀".repeat(65_536).into(), "k".repeat(300_000).into());
    long.name = Some(HINDI.repeat(50_000).into());
    let (source_type, source_id) = ("s".repeat(300_000).into(), "7".repeat(300_000).into());
    let headline = Some("h".repeat(300_000).into());
    let [body, source_url, ctwa_clid] = [0; 3].map(|_| Some("b".repeat(300_000).into()));
    let referral = Referral { source_type, source_id, headline, body, source_url, ctwa_clid };
    long.referral = Some(referral);
    let mut hindi = wrote(phone(4), "hindi", START).inbound;
    hindi[0].text = HINDI.repeat(15_000).into();
    callback.inbound.append(&mut hindi);
    callback.inbound.append(&mut wrote(phone(5), "ordinary", START).inbound);
    for _ in 0..2 {
        acme.receive(number, callback.clone()).await.unwrap();
    }
    assert_eq!(engine.actor("acme"), actor, "the actor that was there has lived through it");
    assert_eq!(emitted(&acme).await["message.received"], 4);
    let log = log(&acme).await;
    let received = log.iter().filter(|entry| entry.event.kind() == "message.received");
    let data: Vec<_> = received.map(|entry| entry.event.data()).collect();
    let chars = |field: &str| data[1][field].as_str().unwrap().chars().count();
    assert_eq!([chars("text"), chars("type"), chars("name")], [4096, 64, 200]);
    let page = acme.conversations(ConversationFilter::default(), 0, 10).await.unwrap();
    let shown: Vec<_> =
        page.conversations.iter().map(|(row, _)| row.last_message.chars().count()).collect();
    assert_eq!(shown.iter().filter(|count| **count == 200).count(), 2, "{shown:?}");
    assert!(shown.iter().all(|count| *count <= 200), "{shown:?}");
}

#[tokio::test(start_paused = true)]
async fn long_explanations_of_many_failures_fit_into_commits() {
    let (_, engine, acme, number) = begin().await;
    engine.admin().set_credits(&id("acme"), 201).await.unwrap();
    let mut messages = Vec::new();
    for _ in 0..200 {
        messages.push(send(&acme, phone(1)).await);
    }
    for message in &messages {
        await_status(&acme, *message, MessageStatus::Sent).await;
    }
    let actor = busy(&engine, &acme).await;
    let details = HINDI.repeat(167).into();
    let failure = Failure { class: FailureClass::Permanent, code: Some(131_026), details };
    let report = |message: &MessageId| StatusUpdate {
        origin: Origin::Message(*message),
        provider_id: "wamid".into(),
        status: Progress::Failed(failure.clone()),
        at: START,
        to: None,
        known_as: None,
        user_id: None,
    };
    let statuses = messages.iter().map(report).collect();
    let callback = Callback { statuses, ..Callback::default() };
    for _ in 0..2 {
        acme.receive(number, callback.clone()).await.unwrap();
    }
    assert_eq!(engine.actor("acme"), actor, "the actor that was there has lived through it");
    for message in &messages {
        assert_eq!(read(&acme, *message).await.status, MessageStatus::Failed);
    }
    assert_eq!(credits(&engine, "acme").await, 200);
}

/// The number that the provider sends at once when it is busy.
#[tokio::test(start_paused = true)]
async fn fifty_reports_share_a_commit() {
    let (_, engine, acme, number) = begin().await;
    engine.admin().set_credits(&id("acme"), 50).await.unwrap();
    let mut messages = Vec::new();
    for _ in 0..50 {
        messages.push(send(&acme, phone(1)).await);
    }
    for message in &messages {
        await_status(&acme, *message, MessageStatus::Sent).await;
    }
    for (progress, status) in
        [(Progress::Delivered, MessageStatus::Delivered), (Progress::Read, MessageStatus::Read)]
    {
        let report = |message: &MessageId| StatusUpdate {
            origin: Origin::Message(*message),
            provider_id: "wamid".into(),
            status: progress.clone(),
            at: START,
            to: None,
            known_as: None,
            user_id: None,
        };
        let statuses = messages.iter().map(report).collect();
        acme.perform(AppendBytes(1)).await.unwrap();
        let before = engine.shared().writer.stats();
        acme.receive(number, Callback { statuses, ..Callback::default() }).await.unwrap();
        let after = engine.shared().writer.stats();
        // A beat of the workspace may commit a change of its own meanwhile.
        let (groups, batches) = (after.groups - before.groups, after.batches - before.batches);
        assert!((1..=4).contains(&groups) && (1..=4).contains(&batches), "{groups}, {batches}");
        for message in &messages {
            assert_eq!(read(&acme, *message).await.status, status);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn many_inbound_messages_share_commits() {
    let (_, engine, acme, number) = begin().await;
    let mut callback = Callback::default();
    for count in 0..1000 {
        callback.inbound.append(&mut wrote(phone(9), &count.to_string(), START).inbound);
    }
    let groups = || engine.shared().writer.stats().groups;
    let before = groups();
    acme.receive(number, callback).await.unwrap();
    assert_eq!(emitted(&acme).await["message.received"], 1001);
    assert!(groups() - before <= 40, "{} commits", groups() - before);
}

/// Appends this many bytes to the event log.
struct AppendBytes(usize);

impl Command for AppendBytes {
    type Answer = ();
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        let data = serde_json::json!({ "text": "x".repeat(self.0) }).to_string().into();
        let event = PublicEvent::Other { kind: EventKind::WebhookTest, data };
        context.effects.emit(context.core.now(), event);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_that_reports_too_much_is_refused_and_the_actor_lives() {
    let (_, engine, acme, _) = begin().await;
    let actor = busy(&engine, &acme).await;
    acme.perform(AppendBytes(100_000)).await.unwrap();
    let refused = acme.perform(AppendBytes(300_000)).await.unwrap_err();
    assert_eq!(refused.reason, UnavailableReason::Storage);
    acme.perform(AppendBytes(1)).await.unwrap();
    assert_eq!(engine.actor("acme"), actor);
    assert_eq!(emitted(&acme).await["webhook.test"], 2);
}

/// Returns a phone that the provider knows by another number, and that number. Only its reports
/// reveal it.
fn renumbered() -> (Phone, Phone) {
    ("+2290197123456".parse().unwrap(), "+22997123456".parse().unwrap())
}

fn stop(from: Phone) -> Callback {
    let mut callback = wrote(from, "stop", START);
    callback.inbound[0].text = "STOP".into();
    callback
}

/// Returns a report on a message to `to`, whom the provider knows by another number.
fn reported(origin: Origin, to: Option<Phone>, known_as: Phone) -> Callback {
    let (status, known_as) = (Progress::Delivered, Some(known_as));
    let provider_id = "wamid".into();
    let report =
        StatusUpdate { origin, provider_id, status, at: START, to, known_as, user_id: None };
    Callback { statuses: vec![report], ..Callback::default() }
}

/// Checks a person who has opted out with a message from another number of theirs.
async fn opted_out(engine: &Engine, acme: &Workspace, phone: Phone) {
    let page = acme.suppressions(0, 10).await.unwrap();
    assert!(page.suppressions.iter().any(|it| it.party == phone), "{page:?}");
    send(acme, phone).await;
    assert!(engine.actor("acme").is_some());
}

#[tokio::test(start_paused = true)]
async fn who_writes_from_another_number_than_was_written_to_is_found() {
    let (phone, known_as) = renumbered();
    let broadcast = postrider_domain::BroadcastId::from_bytes([7; 16]);
    for origin in ["otp", "message", "broadcast"] {
        let (_, engine, acme, number) = begin().await;
        let (origin, to) = match origin {
            "otp" => {
                let request_id = acme.send_otp(SendOtp::to(phone)).await.unwrap().request_id;
                (Origin::Otp { request_id, number: 1 }, None)
            }
            "message" => {
                let long_ago = wrote(phone, "from it itself", START);
                acme.receive(number, long_ago).await.unwrap();
                (Origin::Message(send(&acme, phone).await), None)
            }
            _ => (Origin::Broadcast { broadcast, index: 3 }, Some(phone)),
        };
        acme.receive(number, reported(origin, to, known_as)).await.unwrap();
        acme.receive(number, stop(known_as)).await.unwrap();
        opted_out(&engine, &acme, phone).await;
        let page = acme.conversations(ConversationFilter::default(), 0, 10).await.unwrap();
        let with: Vec<_> = page.conversations.iter().filter_map(|(_, it)| it.phone).collect();
        assert_eq!(with.iter().filter(|it| **it == phone).count(), 1, "{with:?}");
        assert!(!with.contains(&known_as), "{with:?}");
        let last = log(&acme).await;
        let received = last.iter().rfind(|entry| entry.event.kind() == "message.received");
        assert_eq!(received.unwrap().event.data()["from"], phone.to_string());
        let mut start = stop(known_as);
        start.inbound[0].text = "START".into();
        start.inbound[0].provider_id = "start".into();
        acme.receive(number, start).await.unwrap();
        assert_eq!(acme.suppressions(0, 10).await.unwrap().total, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_written_before_the_other_number_was_known_holds_too() {
    let (_, engine, acme, number) = begin().await;
    let (phone, known_as) = renumbered();
    let request = acme.send_otp(SendOtp::to(phone)).await.unwrap().request_id;
    acme.receive(number, stop(known_as)).await.unwrap();
    acme.receive(number, reported(Origin::Otp { request_id: request, number: 1 }, None, known_as))
        .await
        .unwrap();
    opted_out(&engine, &acme, phone).await;
    let same = reported(Origin::Otp { request_id: request, number: 1 }, None, phone);
    acme.receive(number, same).await.unwrap();
    assert_eq!(acme.suppressions(0, 10).await.unwrap().total, 2);
}

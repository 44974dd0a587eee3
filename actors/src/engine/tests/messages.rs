//! Tests of single messages, and of a provider's callbacks about them.

use postrider_store::View;
use std::collections::BTreeMap;

use crate::{Delivery, MessageStatus, ScriptedOutcome, SendMessageError};
use postrider_channel::callback::{Callback, Progress, StatusUpdate, TemplateNews, TemplateUpdate};
use postrider_channel::{Failure, Origin};
use postrider_domain::template::TemplateName;
use postrider_domain::template::{TemplateCategory, TemplateStatus};
use postrider_domain::{MessageId, NumberId};
use postrider_store::Table;
use postrider_workspace::{NewTemplate, Template};

use super::support::messages::{read, send, text, wrote};
use super::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

async fn number(engine: &Engine) -> NumberId {
    engine.admin().numbers(&id("acme")).await.unwrap()[0].id
}

pub(super) fn reports(of: impl Reported, statuses: impl IntoIterator<Item = Progress>) -> Callback {
    let origin = of.origin();
    let report = |status| StatusUpdate {
        origin,
        provider_id: "wamid".into(),
        status,
        at: START,
        to: None,
        known_as: None,
        user_id: None,
    };
    Callback { statuses: statuses.into_iter().map(report).collect(), ..Callback::default() }
}

/// A subject of a provider's report.
pub(super) trait Reported {
    fn origin(self) -> Origin;
}

impl Reported for MessageId {
    fn origin(self) -> Origin {
        Origin::Message(self)
    }
}

impl Reported for RequestId {
    fn origin(self) -> Origin {
        Origin::Otp { request_id: self, number: 1 }
    }
}

impl Reported for Origin {
    fn origin(self) -> Origin {
        self
    }
}

pub(super) fn failed() -> Progress {
    Progress::Failed(Failure::permanent(Some(131_026)))
}

pub(super) async fn await_status(workspace: &Workspace, id: MessageId, status: MessageStatus) {
    until("the status", async || read(workspace, id).await.status == status).await;
}

/// Starts an engine with a workspace of 10 credits, to which the first phone has written.
pub(super) async fn begin() -> (CrashingStore, Engine, Workspace, NumberId) {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = workspace(&engine, "acme", 10).await;
    let number = number(&engine).await;
    acme.receive(number, wrote(phone(1), "first", START)).await.unwrap();
    (store, engine, acme, number)
}

pub(super) fn script(engine: &Engine, outcome: ScriptedOutcome) {
    engine.sandbox().script(&id("acme"), None, outcome, None);
}

/// Returns how often each type of event was emitted.
pub(super) async fn emitted(workspace: &Workspace) -> BTreeMap<&'static str, usize> {
    let mut emitted = BTreeMap::new();
    for kind in kinds(&log(workspace).await) {
        *emitted.entry(kind).or_default() += 1;
    }
    emitted
}

#[tokio::test(start_paused = true)]
async fn reports_move_a_message_on_once_each_and_never_back() {
    use Progress::{Delivered, Read, Sent};
    let (_, engine, acme, number) = begin().await;
    for (statuses, end, refunded) in [
        (vec![Sent, Delivered, Read, Sent, Delivered, Read], MessageStatus::Read, false),
        (vec![Read, Delivered, failed()], MessageStatus::Read, false),
        (vec![Delivered, failed(), failed()], MessageStatus::Delivered, false),
        (vec![failed(), failed(), Delivered, Sent], MessageStatus::Failed, true),
    ] {
        let before = (credits(&engine, "acme").await, emitted(&acme).await);
        let message = send(&acme, phone(1)).await;
        await_status(&acme, message, MessageStatus::Sent).await;
        for status in &statuses {
            acme.receive(number, reports(message, [status.clone()])).await.unwrap();
        }
        acme.receive(number, reports(message, statuses.clone())).await.unwrap();
        assert_eq!(read(&acme, message).await.status, end, "{statuses:?}");
        let (credits, after) = (credits(&engine, "acme").await, emitted(&acme).await);
        assert_eq!(credits, before.0 - u64::from(!refunded), "{statuses:?}");
        for kind in ["message.delivered", "message.read", "message.failed"] {
            let count =
                |emitted: &BTreeMap<_, usize>| emitted.get(kind).copied().unwrap_or_default();
            assert!(count(&after) - count(&before.1) <= 1, "{kind}: {statuses:?}");
        }
    }
    let nobody = MessageId::from_parts(START, 7);
    let before = log(&acme).await;
    acme.receive(number, reports(nobody, [Sent, failed()])).await.unwrap();
    assert_eq!(log(&acme).await, before);
}

#[tokio::test(start_paused = true)]
async fn a_report_settles_a_lost_answer() {
    let (_, engine, acme, number) = begin().await;
    script(&engine, ScriptedOutcome::Lost);
    let (delivered, refused, never) =
        (send(&acme, phone(1)).await, send(&acme, phone(1)).await, send(&acme, phone(1)).await);
    for message in [delivered, refused, never] {
        await_status(&acme, message, MessageStatus::Unknown).await;
    }
    assert_eq!(credits(&engine, "acme").await, 7);
    acme.receive(number, reports(delivered, [Progress::Delivered])).await.unwrap();
    acme.receive(number, reports(refused, [failed()])).await.unwrap();
    assert_eq!(read(&acme, delivered).await.status, MessageStatus::Delivered);
    assert_eq!(read(&acme, refused).await.status, MessageStatus::Failed);
    assert_eq!(credits(&engine, "acme").await, 8);
    engine.pass(DAY).await;
    acme.receive(number, reports(never, [failed()])).await.unwrap();
    assert_eq!(read(&acme, never).await.status, MessageStatus::Unknown, "for good");
    assert_eq!(credits(&engine, "acme").await, 8);
}

#[tokio::test(start_paused = true)]
async fn a_report_settles_a_message_that_was_not_answered_for_before_a_crash() {
    let (store, engine, acme, number) = begin().await;
    script(&engine, ScriptedOutcome::Unavailable);
    let (reported, other) = (send(&acme, phone(1)).await, send(&acme, phone(1)).await);
    // The channel accepted the first message, and the crash came before the answer.
    acme.receive(number, reports(reported, [Progress::Sent])).await.unwrap();
    assert_eq!(read(&acme, reported).await.status, MessageStatus::Sent);
    // The other one was certainly not accepted, and that is durable.
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        engine.beat().await;
    }
    drop((acme, engine));
    let engine = super::engine(&store, START).await;
    let acme = engine.workspace(&id("acme")).unwrap();
    await_status(&acme, other, MessageStatus::Sent).await;
    engine.beat().await;
    let shown = engine.sandbox().messages(&id("acme"), None, 10);
    let shown: Vec<_> = shown.iter().map(|message| message.message_id).collect();
    assert_eq!(shown, [other], "what was reported is not sent again");
    assert_eq!(credits(&engine, "acme").await, 8);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_hands_over_fails_when_its_life_is_over() {
    let (_, engine, acme, _) = begin().await;
    script(&engine, ScriptedOutcome::Unavailable);
    let message = send(&acme, phone(1)).await;
    // As if the number had lost it for ever.
    engine.shared().numbers.close(number(&engine).await);
    engine.pass(DAY + Duration::from_secs(3601)).await;
    await_status(&acme, message, MessageStatus::Failed).await;
    assert_eq!(credits(&engine, "acme").await, 10);
}

#[tokio::test(start_paused = true)]
async fn a_window_opens_when_the_message_was_written_and_not_later_than_it_came() {
    let (_, engine, acme, number) = begin().await;
    let closed = async |to| {
        let sent = acme.send_message(text(to), None).await;
        let closed = crate::IdempotentError::Refused(SendMessageError::WindowClosed);
        if let Err(error) = &sent {
            assert_eq!(*error, closed);
        }
        sent.is_err()
    };
    assert!(!closed(phone(1)).await && closed(phone(2)).await);
    acme.receive(number, wrote(phone(2), "ahead", START.plus(DAY))).await.unwrap();
    engine.pass(DAY - Duration::from_secs(1)).await;
    assert!(!closed(phone(1)).await && !closed(phone(2)).await);
    let early = wrote(phone(1), "late and early", START.plus(Duration::from_secs(5)));
    acme.receive(number, early).await.unwrap();
    acme.receive(number, wrote(phone(1), "earlier", START.minus(DAY))).await.unwrap();
    engine.pass(Duration::from_secs(5)).await;
    assert!(!closed(phone(1)).await && closed(phone(2)).await);
    engine.pass(Duration::from_secs(1)).await;
    assert!(closed(phone(1)).await);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_inbound_message_changes_nothing() {
    let (store, engine, acme, number) = begin().await;
    let count = async |acme: &Workspace| emitted(acme).await["message.received"];
    let again = wrote(phone(1), "first", START);
    acme.receive(number, again.clone()).await.unwrap();
    assert_eq!(count(&acme).await, 1);
    engine.pass(7 * DAY).await;
    drop((acme, engine));
    // The offset of its clock is retained.
    let engine = super::engine(&store, START).await;
    let behind = Duration::from_millis(1);
    assert_eq!(engine.clock().now(), START.plus(7 * DAY + behind), "behind what is durable");
    let acme = engine.workspace(&id("acme")).unwrap();
    acme.receive(number, again).await.unwrap();
    assert_eq!(count(&acme).await, 1, "a week and a crash later");
    acme.receive(number, wrote(phone(1), "second", START)).await.unwrap();
    assert_eq!(count(&acme).await, 2);
    // A workspace with pending work stays in memory, and handles time's work.
    acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
    // The window of the person who has written lately outlives the deletion of the message that
    // opened it first.
    acme.receive(number, wrote(phone(2), "old", START)).await.unwrap();
    engine.pass(DAY / 2).await;
    acme.receive(number, wrote(phone(2), "new", START.plus(DAY * 15 / 2))).await.unwrap();
    assert_eq!((count_of(&store, Table::Received), count_of(&store, Table::Windows)), (4, 2));
    // A new actor checks at once for records to delete.
    let sweep = async || {
        until("the actor has gone", async || engine.actor("acme").is_none()).await;
        acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
        engine.beat().await;
    };
    engine.pass(DAY / 2).await;
    sweep().await;
    assert_eq!((count_of(&store, Table::Received), count_of(&store, Table::Windows)), (1, 1));
    engine.pass(9 * DAY).await;
    sweep().await;
    assert_eq!((count_of(&store, Table::Received), count_of(&store, Table::Windows)), (0, 0));
}

fn count_of(store: &CrashingStore, table: Table) -> usize {
    let mut count = 0;
    let mut visit = |_: &[u8], _: &[u8]| {
        count += 1;
        std::ops::ControlFlow::Continue(())
    };
    store.scan(table, b"", None, postrider_store::Direction::Forward, &mut visit).unwrap();
    count
}

#[tokio::test(start_paused = true)]
async fn reports_on_one_time_passwords_show_in_their_delivery() {
    use Progress::{Delivered, Read, Sent};
    let (_, engine, acme, number) = begin().await;
    for (outcome, statuses, delivery, refunded) in [
        (ScriptedOutcome::Sent, vec![Delivered, Sent, Delivered], Delivery::Delivered, false),
        (ScriptedOutcome::Sent, vec![Read, Delivered, failed()], Delivery::Read, false),
        (ScriptedOutcome::Lost, vec![Sent, Sent], Delivery::Sent, false),
        (ScriptedOutcome::Sent, vec![failed(), failed()], Delivery::Failed, true),
        (ScriptedOutcome::Lost, vec![failed(), Sent, failed()], Delivery::Failed, true),
        (ScriptedOutcome::Slow, vec![failed(), Delivered], Delivery::Failed, true),
        (ScriptedOutcome::Slow, vec![Delivered], Delivery::Delivered, false),
    ] {
        script(&engine, outcome);
        let before = credits(&engine, "acme").await;
        let request = acme.send_otp(SendOtp::to(phone(1))).await.unwrap().request_id;
        let slow = outcome == ScriptedOutcome::Slow;
        let asked = async || acme.otp(request).await.unwrap().delivery;
        until("an answer", async || slow || asked().await != Delivery::Queued).await;
        acme.receive(number, reports(request, statuses.clone())).await.unwrap();
        acme.receive(number, reports(request, statuses.clone())).await.unwrap();
        assert_eq!(asked().await, delivery, "{outcome:?} {statuses:?}");
        let after = credits(&engine, "acme").await;
        assert_eq!(after, before - u64::from(!refunded), "{outcome:?} {statuses:?}");
        engine.pass(Duration::from_secs(700)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(asked().await, delivery, "the channel's own answer changes nothing");
        assert_eq!(credits(&engine, "acme").await, after);
    }
    let emitted = emitted(&acme).await;
    assert_eq!((emitted["otp.delivered"], emitted["otp.failed"]), (2, 3));
}

#[tokio::test(start_paused = true)]
async fn what_became_of_a_template_is_taken_up() {
    let (_, engine, acme, number) = begin().await;
    let new = NewTemplate {
        name: "sale".into(),
        language: "en".into(),
        category: TemplateCategory::Marketing,
        status: TemplateStatus::Pending,
        components: vec![serde_json::json!({"type": "BODY", "text": "Now!"})],
    };
    acme.create_template(new).await.unwrap();
    let template = TemplateName { name: "sale".into(), language: "en".into() };
    let update = TemplateUpdate {
        template,
        news: TemplateNews::Status { word: "APPROVED".into(), reason: None },
    };
    let callback = Callback { templates: vec![update], ..Callback::default() };
    acme.receive(number, callback.clone()).await.unwrap();
    acme.receive(number, callback).await.unwrap();
    let status = |templates: Vec<Template>| templates[0].status;
    assert_eq!(status(acme.templates().await.unwrap()), TemplateStatus::Approved);
    assert_eq!(emitted(&acme).await["template.status_changed"], 1);
    drop(engine);
}

#[tokio::test(start_paused = true)]
async fn a_callback_may_be_large() {
    let (_, engine, acme, number) = begin().await;
    let message = send(&acme, phone(1)).await;
    await_status(&acme, message, MessageStatus::Sent).await;
    let mut callback = reports(message, vec![Progress::Delivered; 1000]);
    for count in 0..30 {
        let mut one = wrote(phone(3), &format!("many {count}"), START).inbound;
        one[0].text = "\u{1}".repeat(4096).into();
        callback.inbound.append(&mut one);
    }
    acme.receive(number, callback).await.unwrap();
    assert_eq!(emitted(&acme).await["message.received"], 31);
    assert_eq!(read(&acme, message).await.status, MessageStatus::Delivered);
    drop(engine);
}

//! Tests of messages that have no records because their outcome is awaited.

use postrider_domain::{PartyId, SenderNotes};
use postrider_store::crashing::Keep;
use postrider_store::{Table, View};

use crate::{MessageContent, MessageFilter, MessageStatus, ScriptedOutcome, SendMessage};
use postrider_domain::MessageId;
use tokio::task::JoinSet;

use super::messages::{await_status, begin, emitted, script};
use super::support::messages::{read, send, text};
use super::*;

fn count(store: &CrashingStore, table: Table) -> usize {
    let mut count = 0;
    let mut visit = |_: &[u8], _: &[u8]| {
        count += 1;
        std::ops::ControlFlow::Continue(())
    };
    store.scan(table, b"acme\0", None, postrider_store::Direction::Forward, &mut visit).unwrap();
    count
}

fn with_reference(reference: &str) -> SendMessage {
    let notes =
        SenderNotes { reference: Some(reference.to_owned()), metadata: [].into_iter().collect() };
    SendMessage { notes, ..text(phone(1)) }
}

async fn listed(acme: &Workspace, filter: MessageFilter) -> Vec<(MessageId, MessageStatus)> {
    let page = acme.messages(filter, None, 10).await.unwrap();
    page.messages.iter().map(|message| (message.message_id, message.status)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_message_that_waits_is_found_in_every_way() {
    let by_to = || MessageFilter { to: Some(PartyId::Phone(phone(1))), ..MessageFilter::default() };
    let by_reference =
        || MessageFilter { reference: Some("order-7".into()), ..MessageFilter::default() };
    for way in 0..5 {
        let (store, engine, acme, _) = begin().await;
        script(&engine, ScriptedOutcome::Unavailable);
        let sent = acme.send_message(with_reference("order-7"), None).await.unwrap();
        let id = sent.answer.message_id;
        assert_eq!(count(&store, Table::Messages), 0, "its outcome is awaited");
        let expected = vec![(id, MessageStatus::Queued)];
        match way {
            0 => assert_eq!(read(&acme, id).await.status, MessageStatus::Queued),
            1 => assert_eq!(listed(&acme, MessageFilter::default()).await, expected),
            2 => assert_eq!(listed(&acme, by_to()).await, expected),
            3 => assert_eq!(listed(&acme, by_reference()).await, expected),
            _ => {
                let all = acme.conversations(Default::default(), 0, 1).await.unwrap();
                let (conversation, _) = &all.conversations[0];
                let page = acme.conversation_messages(conversation.id, 0, 10).await.unwrap();
                let ours = page.messages.iter().find(|message| message.id == id).unwrap();
                assert_eq!(ours.status, "queued");
                assert_eq!(ours.notes.reference.as_deref(), Some("order-7"));
            }
        }
        assert_eq!(count(&store, Table::Messages), 2, "the message and its content");
        // It is sent all the same, with what it says.
        script(&engine, ScriptedOutcome::Sent);
        engine.pass(Duration::from_secs(60)).await;
        await_status(&acme, id, MessageStatus::Sent).await;
        assert_eq!(count(&store, Table::Messages), 1);
        assert_eq!(listed(&acme, by_reference()).await, [(id, MessageStatus::Sent)]);
        let shown = engine.sandbox().messages(&self::id("acme"), None, 10);
        assert_eq!(shown.len(), 1);
        assert_eq!(shown[0].text, "Your table is ready.");
    }
}

/// A crash comes while a message waits: whether it has records or not, it is sent or reported once.
#[tokio::test(start_paused = true)]
async fn a_crash_before_the_outcome_loses_and_doubles_nothing() {
    let cases = [
        (ScriptedOutcome::Unavailable, MessageStatus::Sent, 1),
        // The channel may have it, so it is not sent again.
        (ScriptedOutcome::Slow, MessageStatus::Unknown, 0),
    ];
    for (outcome, end, sent) in cases {
        for is_written in [false, true] {
            let (store, engine, acme, number) = begin().await;
            script(&engine, outcome);
            let id = acme.send_message(with_reference("r"), None).await.unwrap().answer.message_id;
            let is_tried = async || {
                let figures = engine.shared().numbers.figures(number).await;
                match outcome {
                    ScriptedOutcome::Slow => figures.in_flight == 1,
                    _ => figures.failures > 0 && figures.in_flight == 0,
                }
            };
            until("the channel is asked", is_tried).await;
            // The claim, or its release, is durable.
            engine.beat().await;
            engine.shared().writer.barrier().await.unwrap();
            if is_written {
                // Without time that passes, in which it would be tried again.
                assert_eq!(read(&acme, id).await.status, MessageStatus::Queued);
            }
            assert_eq!(count(&store, Table::Messages), 2 * usize::from(is_written));
            drop((acme, engine));
            let store = store.crash(Keep::Nothing);
            let engine = super::engine(&store, START.plus(Duration::from_secs(3))).await;
            let acme = engine.workspace(&self::id("acme")).unwrap();
            await_status(&acme, id, end).await;
            let filter = MessageFilter { reference: Some("r".into()), ..MessageFilter::default() };
            assert_eq!(listed(&acme, filter).await, [(id, end)], "{outcome:?}");
            assert_eq!(engine.sandbox().messages(&self::id("acme"), None, 10).len(), sent);
            assert_eq!(emitted(&acme).await["message.queued"], 1);
            assert_eq!(credits(&engine, "acme").await, 9);
            let what = "by recipient and reference, and its text";
            assert_eq!(count(&store, Table::MessageIndex), 3, "{what}");
        }
    }
}

/// Some of a batch are acknowledged while the actor carries out the rest of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_message_is_found_as_soon_as_it_is_acknowledged() {
    let (_, engine, acme, _) = begin().await;
    engine.admin().add_credits(&id("acme"), 5000).await.unwrap();
    for round in 0..20 {
        let sends = (0..64).map(|number| {
            let acme = acme.clone();
            async move {
                let reference = format!("{round}-{number}");
                let sent = acme.send_message(with_reference(&reference), None).await.unwrap();
                let id = sent.answer.message_id;
                if number % 2 == 0 {
                    assert!(acme.message(id).await.unwrap().is_some(), "{reference}");
                } else {
                    let reference = Some(reference);
                    let filter = MessageFilter { reference, ..MessageFilter::default() };
                    assert_eq!(listed(&acme, filter).await.len(), 1);
                }
            }
        });
        sends.collect::<JoinSet<_>>().join_all().await;
    }
}

#[tokio::test(start_paused = true)]
async fn messages_without_records_take_bounded_memory() {
    const SENT: usize = 300;
    let (store, engine, acme, _) = begin().await;
    engine.admin().add_credits(&id("acme"), SENT as u64).await.unwrap();
    script(&engine, ScriptedOutcome::Slow);
    let long = "x".repeat(4000);
    let message = |text: &str| SendMessage {
        content: MessageContent::Text(text.parse().unwrap()),
        ..text_to_first()
    };
    let mut all = Vec::new();
    for _ in 0..SENT {
        all.push(acme.send_message(message(&long), None).await.unwrap().answer.message_id);
    }
    // Each has an entry and a text.
    let of_index = || count(&store, Table::MessageIndex);
    let written = of_index() / 2;
    assert!((SENT - 130..SENT - 100).contains(&written), "512 KiB have none: {written}");
    for id in &all {
        assert_eq!(read(&acme, *id).await.status, MessageStatus::Queued);
    }
    assert_eq!(of_index(), 2 * SENT);
    // There is room again, but not for one of more than 8 KiB.
    let (short, large) = (send(&acme, phone(1)).await, "ä".repeat(4096));
    assert_eq!(of_index(), 2 * SENT);
    acme.send_message(message(&large), None).await.unwrap();
    assert_eq!(of_index(), 2 * (SENT + 1));
    engine.pass(Duration::from_secs(2)).await;
    assert_eq!(of_index(), 2 * (SENT + 2));
    assert_eq!(read(&acme, short).await.status, MessageStatus::Queued);
}

fn text_to_first() -> SendMessage {
    text(phone(1))
}

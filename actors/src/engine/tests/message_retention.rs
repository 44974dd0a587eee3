//! Tests that messages and conversations' texts are retained as long as the options say.

use postrider_domain::NumberId;
use postrider_store::{Direction, Table, View};

use super::support::messages::{send, wrote};
use super::*;
use crate::{MessageOptions, MessageStatus, ScriptedOutcome};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Returns the number of a table's records of the workspace with this key prefix, and their bytes.
fn count(store: &CrashingStore, table: Table, kind: &[u8]) -> (usize, usize) {
    let (mut count, mut bytes) = (0, 0);
    let prefix = [b"acme\0", kind].concat();
    store
        .scan(table, &prefix, None, Direction::Forward, &mut |key, value| {
            count += 1;
            bytes += key.len() + value.len();
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    (count, bytes)
}

async fn begin(store: &CrashingStore, messages: MessageOptions) -> (Engine, Workspace, NumberId) {
    let options = EngineOptions { messages, ..options(store.clone(), START) };
    let engine = Engine::start(options).await.unwrap();
    let acme = workspace(&engine, "acme", 10_000).await;
    let number = engine.admin().numbers(&id("acme")).await.unwrap()[0].id;
    (engine, acme, number)
}

/// Passes time, and lets the workspace handle it, whether its actor runs or not.
async fn pass(engine: &Engine, acme: &Workspace, step: Duration) {
    engine.clock().advance(step);
    drop(acme.otp(RequestId::from_parts(START, 0)).await);
    engine.beat().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_goes_when_it_is_too_old_and_nothing_more_can_become_of_it() {
    let store = CrashingStore::new();
    let messages = MessageOptions {
        give_up: 20 * DAY,
        unknown_after: 30 * DAY,
        kept_for: Some(2 * DAY),
        ..MessageOptions::default()
    };
    let (engine, acme, number) = begin(&store, messages).await;
    acme.receive(number, wrote(phone(1), "in", START)).await.unwrap();
    let becomes = async |id, status| {
        let is_it = async || acme.message(id).await.unwrap().unwrap().status == status;
        until("its status", is_it).await;
    };
    // More than one slice has.
    let mut sent = Vec::new();
    for _ in 0..600 {
        sent.push(send(&acme, phone(1)).await);
    }
    for id in &sent {
        becomes(*id, MessageStatus::Sent).await;
    }
    let script = |outcome| engine.sandbox().script(&id("acme"), None, outcome, None);
    script(ScriptedOutcome::Lost);
    let unknown = send(&acme, phone(1)).await;
    becomes(unknown, MessageStatus::Unknown).await;
    script(ScriptedOutcome::Unavailable);
    let queued = send(&acme, phone(1)).await;
    pass(&engine, &acme, Duration::from_secs(2)).await;
    let (before, bytes) = count(&store, Table::Messages, b"");
    assert_eq!(before, 600 + 1 + 2, "the queued one has its content beside it");
    pass(&engine, &acme, 2 * DAY - Duration::from_secs(3600)).await;
    assert_eq!(count(&store, Table::Messages, b"").0, before);
    pass(&engine, &acme, Duration::from_secs(7200)).await;
    let (after, left) = count(&store, Table::Messages, b"");
    assert_eq!(after, 3);
    assert_eq!(count(&store, Table::MessageIndex, b"").0, 4, "an entry and a text of each");
    assert!(left < bytes / 50, "{left} of {bytes} bytes are left");
    assert_eq!(acme.message(sent[0]).await.unwrap(), None);
    assert_eq!(acme.message(unknown).await.unwrap().unwrap().status, MessageStatus::Unknown);
    assert_eq!(acme.message(queued).await.unwrap().unwrap().status, MessageStatus::Queued);
    // Each is deleted when its time is over, though younger ones were deleted before it.
    pass(&engine, &acme, 25 * DAY).await;
    pass(&engine, &acme, DAY).await;
    assert_eq!(acme.message(queued).await.unwrap(), None);
    assert_eq!(acme.message(unknown).await.unwrap().unwrap().status, MessageStatus::Unknown);
    pass(&engine, &acme, 30 * DAY).await;
    assert_eq!(count(&store, Table::Messages, b"").0, 0);
    assert_eq!(count(&store, Table::MessageIndex, b"").0, 0);
}

#[tokio::test(start_paused = true)]
async fn messages_are_kept_for_ever_where_the_options_say_so() {
    let store = CrashingStore::new();
    let messages = MessageOptions { kept_for: None, ..MessageOptions::default() };
    let (engine, acme, number) = begin(&store, messages).await;
    acme.receive(number, wrote(phone(1), "in", START)).await.unwrap();
    let sent = send(&acme, phone(1)).await;
    pass(&engine, &acme, 3000 * DAY).await;
    assert!(acme.message(sent).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn what_was_written_goes_and_its_conversation_stays() {
    let store = CrashingStore::new();
    let messages = MessageOptions { written_kept_for: Some(5 * DAY), ..MessageOptions::default() };
    let (engine, acme, number) = begin(&store, messages).await;
    // One conversation with more than a slice, and others that are younger in part.
    for message in 0..300 {
        let name = format!("first-{message}");
        acme.receive(number, wrote(phone(1), &name, START)).await.unwrap();
    }
    for contact in 2..5 {
        acme.receive(number, wrote(phone(contact), &format!("old-{contact}"), START))
            .await
            .unwrap();
    }
    pass(&engine, &acme, 4 * DAY).await;
    let later = START.plus(4 * DAY);
    for contact in 2..5 {
        acme.receive(number, wrote(phone(contact), &format!("new-{contact}"), later))
            .await
            .unwrap();
    }
    assert_eq!(count(&store, Table::Conversations, b"m").0, 306);
    pass(&engine, &acme, 2 * DAY).await;
    assert_eq!(count(&store, Table::Conversations, b"m").0, 3, "one of each of the younger");
    let page = acme.conversations(Default::default(), 0, 9).await.unwrap();
    assert_eq!(page.total, 4);
    for (conversation, contact) in &page.conversations {
        let written = acme.conversation_messages(conversation.id, 0, 9).await.unwrap();
        assert_eq!(written.total, usize::from(contact.phone != Some(phone(1))));
    }
    pass(&engine, &acme, 5 * DAY).await;
    assert_eq!(count(&store, Table::Conversations, b"m").0, 0);
    assert_eq!(acme.conversations(Default::default(), 0, 9).await.unwrap().total, 4);
    // A conversation continues.
    acme.receive(number, wrote(phone(1), "again", START.plus(11 * DAY))).await.unwrap();
    assert_eq!(count(&store, Table::Conversations, b"m").0, 1);
}

//! What is left of a contact that was deleted: nothing, through crashes too.

use std::ops::ControlFlow;

use crate::SendMessageError;
use crate::channel::callback::{Callback, Progress, StatusUpdate};
use crate::domain::NumberId;
use crate::store::{Direction, Keep, Table};

use super::messages::{send, text, wrote};
use super::*;

const MESSAGES: usize = 700;

/// How many records a table has.
fn count(store: &CrashingStore, table: Table) -> usize {
    let mut count = 0;
    store
        .scan(table, b"acme\0", None, Direction::Forward, &mut |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    count
}

async fn number(engine: &Engine) -> NumberId {
    engine.admin().numbers(&id("acme")).await.unwrap()[0].id
}

/// The first phone has written so often, under another name too.
async fn begin(store: &CrashingStore) -> (Engine, Workspace, NumberId) {
    let engine = engine(store, START).await;
    let acme = workspace(&engine, "acme", 10).await;
    let number = number(&engine).await;
    let mut callback = Callback::default();
    for at in 0..MESSAGES {
        callback.inbound.extend(wrote(phone(1), &format!("in-{at}"), START).inbound);
    }
    acme.receive(number, callback).await.unwrap();
    let message = send(&acme, phone(1)).await;
    let known_as = StatusUpdate {
        origin: message.into(),
        provider_id: "wamid".into(),
        status: Progress::Delivered,
        at: START,
        to: Some(phone(1)),
        known_as: Some(phone(2)),
    };
    let callback = Callback { statuses: vec![known_as], ..Callback::default() };
    acme.receive(number, callback).await.unwrap();
    acme.receive(number, wrote(phone(2), "other name", START)).await.unwrap();
    (engine, acme, number)
}

async fn delete_all(acme: &Workspace) {
    for contact in acme.contacts(Default::default(), 0, 100).await.unwrap().contacts {
        acme.delete_contact(contact.id).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn all_of_it_goes_part_by_part_and_nothing_is_seen_by_who_comes_later() {
    let store = CrashingStore::new();
    let (engine, acme, number) = begin(&store).await;
    assert_eq!(acme.conversations(Default::default(), 0, 9).await.unwrap().total, 1);
    assert!(count(&store, Table::Conversations) > MESSAGES);
    assert_eq!((count(&store, Table::Aliases), count(&store, Table::Windows)), (2, 2));
    let commits = store.commits();
    delete_all(&acme).await;
    assert_eq!((count(&store, Table::Aliases), count(&store, Table::Windows)), (0, 0));
    let refused = acme.send_message(text(phone(1)), None).await.unwrap_err();
    assert_eq!(refused, crate::IdempotentError::Refused(SendMessageError::WindowClosed));
    // Who comes later has a conversation of their own.
    acme.receive(number, wrote(phone(1), "again", START)).await.unwrap();
    let page = acme.conversations(Default::default(), 0, 9).await.unwrap();
    let later = page.conversations[0].0.id;
    let seen = async || acme.conversation_messages(later, 0, 9).await.unwrap().total;
    assert_eq!((page.total, seen().await), (1, 1));
    engine.beat().await;
    assert!(store.commits() - commits > 4, "part by part");
    // What is left is theirs: itself, by its contact, in the list, a message, and two counts.
    assert_eq!(count(&store, Table::Conversations), 6);
    assert_eq!(seen().await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_crash_on_the_way_leaves_nothing_behind() {
    let store = CrashingStore::new();
    let (engine, acme, _) = begin(&store).await;
    delete_all(&acme).await;
    drop((engine, acme));
    let store = store.crash(Keep::Nothing);
    let engine = self::engine(&store, START).await;
    let acme = engine.workspace(&id("acme")).unwrap();
    healed(&acme).await;
    engine.beat().await;
    // That counts are kept.
    until("all is gone", async || count(&store, Table::Conversations) == 1).await;
}

//! Tests that nothing is left of a deleted contact, through crashes too.

use postrider_channel::Origin;
use postrider_store::View;
use std::ops::ControlFlow;

use parking_lot::Mutex;

use crate::{MessageContent, SendMessageError};
use postrider_channel::callback::{Callback, Progress, StatusUpdate};
use postrider_domain::{ActorKind, AuditActor, MessageId, NumberId, SenderNotes};
use postrider_store::hooked::{Hook, Hooked};
use postrider_store::{Direction, Keep, MemoryStore, Table};
use postrider_workspace::email;

use super::support::messages::{send, text, wrote};
use super::*;

const MESSAGES: usize = 700;
/// Longer than the longest timer that wakes a workspace.
const DAYS: Duration = Duration::from_secs(40 * 24 * 3600);

/// Returns the number of records of a table.
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

/// Starts an engine whose first phone has written many messages, under another name too.
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
    acme.receive(number, known_as(message, Progress::Delivered)).await.unwrap();
    acme.receive(number, wrote(phone(2), "other name", START)).await.unwrap();
    // The notes are deleted with it, more of them than one slice takes.
    let id = acme.conversations(Default::default(), 0, 9).await.unwrap().conversations[0].0.id;
    for at in 0..300 {
        let author = AuditActor::of_kind(ActorKind::User);
        acme.add_note(id, format!("note {at}"), author).await.unwrap();
    }
    (engine, acme, number)
}

/// Returns a report of a message to the first phone, which the provider names as the second.
fn known_as(message: MessageId, status: Progress) -> Callback {
    let report = StatusUpdate {
        origin: Origin::Message(message),
        provider_id: "wamid".into(),
        status,
        at: START,
        to: Some(phone(1)),
        known_as: Some(phone(2)),
        user_id: None,
    };
    Callback { statuses: vec![report], ..Callback::default() }
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
    // The time of its deletion, and for each of its phones a mark until their texts are deleted.
    assert_eq!((count(&store, Table::Aliases), count(&store, Table::Windows)), (3, 0));
    let refused = acme.send_message(text(phone(1)), None).await.unwrap_err();
    assert_eq!(refused, crate::IdempotentError::Refused(SendMessageError::WindowClosed));
    // A later person has a conversation of their own.
    acme.receive(number, wrote(phone(1), "again", START)).await.unwrap();
    let page = acme.conversations(Default::default(), 0, 9).await.unwrap();
    let later = page.conversations[0].0.id;
    let seen = async || acme.conversation_messages(later, 0, 9).await.unwrap().total;
    assert_eq!((page.total, seen().await), (1, 1));
    engine.beat().await;
    assert!(store.commits() - commits >= 3, "part by part");
    // Theirs is left: itself, by its contact, in the list, a message, and three counts.
    assert_eq!(count(&store, Table::Conversations), 7);
    assert_eq!(seen().await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_crash_on_the_way_leaves_nothing_behind() {
    let store = CrashingStore::new();
    let (engine, acme, _) = begin(&store).await;
    delete_all(&acme).await;
    drop((engine, acme));
    let store = store.crash(Keep::Nothing);
    // Nobody uses the workspace, and nothing else wakes it.
    let engine = self::engine(&store, START.plus(DAYS)).await;
    until("all is gone", async || count(&store, Table::Conversations) == 0).await;
    until("it rests again", async || engine.actor("acme").is_none()).await;
    drop(engine);
    let engine = self::engine(&store, START.plus(DAYS)).await;
    assert_eq!(engine.actor("acme"), None);
}

/// The scans of a table's records of one kind: the prefix of their keys, and the start of each.
#[derive(Debug, Clone, Default)]
struct Scans(Arc<Mutex<Vec<Scan>>>);

type Scan = (Vec<u8>, Option<Vec<u8>>);

impl Hook for Scans {
    fn before_scan(&self, table: Table, prefix: &[u8], from: Option<&[u8]>) {
        if table == Table::Conversations {
            self.0.lock().push((prefix.to_vec(), from.map(<[u8]>::to_vec)));
        }
    }
}

impl Scans {
    /// Returns the scans of keys with this prefix since the last call.
    fn take(&self, kind: &[u8]) -> Vec<Scan> {
        let all = std::mem::take(&mut *self.0.lock());
        all.into_iter().filter(|(prefix, _)| prefix.starts_with(kind)).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_deleted_is_not_looked_through_again() {
    let store = Hooked { inner: MemoryStore::new(), hook: Scans::default() };
    let scans = store.hook.clone();
    let engine = Engine::start(options(store, START)).await.unwrap();
    let acme = workspace(&engine, "acme", 10).await;
    let number = number(&engine).await;
    let delete = async |of: Phone| {
        let mut callback = Callback::default();
        for at in 0..MESSAGES {
            callback.inbound.extend(wrote(of, &format!("{of}-{at}"), START).inbound);
        }
        acme.receive(number, callback).await.unwrap();
        scans.take(b"");
        delete_all(&acme).await;
        engine.beat().await;
        scans.take(b"acme\0")
    };
    delete(phone(1)).await;
    for other in 2..4 {
        engine.pass(Duration::from_secs(1)).await;
        let scans = delete(phone(other)).await;
        let is_of_messages = |scan: &&Scan| scan.0.starts_with(b"acme\0m");
        let found = scans.iter().position(|scan| is_of_messages(&scan)).unwrap();
        let (of_messages, of_deleted): (Vec<_>, Vec<_>) =
            scans[found..].iter().partition(is_of_messages);
        assert_eq!(of_messages.len(), 4, "three parts, and then none");
        // For notes it scans once, and finds none.
        let (of_notes, of_deleted): (Vec<_>, Vec<_>) =
            of_deleted.into_iter().partition(|scan| scan.0.starts_with(b"acme\0t"));
        assert_eq!(of_notes.len(), 1, "{of_notes:?}");
        assert!(of_deleted.iter().all(|(_, from)| from.is_some()), "{of_deleted:?}");
        assert!(of_messages[1..].iter().all(|(_, from)| from.is_some()), "{of_messages:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_reported_of_earlier_messages_brings_nothing_back() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = workspace(&engine, "acme", 10).await;
    let number = number(&engine).await;
    acme.receive(number, wrote(phone(1), "in", START)).await.unwrap();
    let earlier = send(&acme, phone(1)).await;
    delete_all(&acme).await;
    acme.receive(number, known_as(earlier, Progress::Read)).await.unwrap();
    // The time of its deletion, and the mark until the texts to it are deleted.
    assert_eq!((count(&store, Table::Aliases), count(&store, Table::Windows)), (2, 0));
    // A message that is sent after that does not matter here.
    engine.pass(Duration::from_secs(1)).await;
    acme.receive(number, wrote(phone(1), "in again", engine.clock().now())).await.unwrap();
    let later = send(&acme, phone(1)).await;
    acme.receive(number, known_as(later, Progress::Read)).await.unwrap();
    assert_eq!(count(&store, Table::Aliases), 3);
}

#[tokio::test(start_paused = true)]
async fn what_a_message_says_is_kept_until_it_is_known_what_became_of_it() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = workspace(&engine, "acme", 10).await;
    let number = number(&engine).await;
    acme.receive(number, wrote(phone(1), "in", START)).await.unwrap();
    engine.sandbox().script(&id("acme"), None, crate::ScriptedOutcome::Unavailable, None);
    let sent = acme.send_message(text(phone(1)), None).await.unwrap().answer.message_id;
    assert_eq!(count(&store, Table::Messages), 0, "its outcome is awaited");
    engine.pass(Duration::from_secs(2)).await;
    assert_eq!(count(&store, Table::Messages), 2);
    acme.receive(number, known_as(sent, Progress::Delivered)).await.unwrap();
    assert_eq!(count(&store, Table::Messages), 1);
}

#[tokio::test(start_paused = true)]
async fn a_mail_that_waits_does_not_leave_any_more() {
    let store = CrashingStore::new();
    let options = EngineOptions { mail: Some(mail_server(9)), ..options(store.clone(), START) };
    let engine = Engine::start(options).await.unwrap();
    // The test itself claims the mails.
    engine.shared().mailer.stop().await;
    let acme = workspace(&engine, "acme", 10).await;
    acme.receive_mail(inbound_mail()).await.unwrap();
    let found = acme.conversations(Default::default(), 0, 1).await.unwrap();
    let (conversation, contact) = &found.conversations[0];
    let reply = async || {
        let text = MessageContent::Text("Hello".parse().unwrap());
        acme.reply(conversation.id, text, None, SenderNotes::default(), None)
            .await
            .unwrap()
            .answer
            .message_id
    };
    let (first, second) = (reply().await, reply().await);
    assert_eq!(email::claim(&acme, first).await, Ok(true));
    // Its actor stays: an actor that has to be woken takes commands in any order.
    acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
    // Both at once: the rest is not swept yet.
    let deleted = acme.delete_contact(contact.id);
    let (deleted, claimed) = tokio::join!(deleted, email::claim(&acme, second));
    assert_eq!((deleted, claimed), (Ok(()), Ok(false)));
    until("all is gone", async || {
        (count(&store, Table::Mails), count(&store, Table::MailQueue)) == (0, 0)
    })
    .await;
}

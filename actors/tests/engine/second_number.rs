//! Contacts who write to another number than the workspace's oldest.

use postrider_actors::{
    ConversationStatus, IdempotentError, MessageContent, ReplyError, SendMessageError,
};
use postrider_domain::{NumberId, SenderNotes};

use super::support::messages::{read, send, text, wrote};
use super::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Starts an engine with a workspace of two numbers. The first phone has only written to the
/// second.
async fn begin() -> (Engine, Workspace, [NumberId; 2]) {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = workspace(&engine, "acme", 10).await;
    engine.admin().connect_sandbox_number(&id("acme")).await.unwrap();
    let numbers = engine.admin().numbers(&id("acme")).await.unwrap();
    let [first, second] = [numbers[0].id, numbers[1].id];
    acme.receive(second, wrote(phone(1), "one", START)).await.unwrap();
    (engine, acme, [first, second])
}

async fn reply(workspace: &Workspace) -> Result<NumberId, IdempotentError<ReplyError>> {
    let found = workspace.conversations(Default::default(), 0, 1).await.unwrap();
    let (conversation, _) = &found.conversations[0];
    let content = MessageContent::Text("At eight.".parse().unwrap());
    let sent =
        workspace.reply(conversation.id, content, None, SenderNotes::default(), None).await?.answer;
    Ok(read(workspace, sent.message_id).await.number)
}

fn refused(why: SendMessageError) -> Result<NumberId, IdempotentError<ReplyError>> {
    Err(IdempotentError::Refused(why.into()))
}

#[tokio::test(start_paused = true)]
async fn an_answer_leaves_through_the_number_that_was_last_written_to() {
    let (engine, acme, [first, second]) = begin().await;
    assert_eq!(reply(&acme).await, Ok(second));
    let found = acme.conversations(Default::default(), 0, 1).await.unwrap();
    assert_eq!(found.conversations[0].0.status, ConversationStatus::Pending);
    let sent = send(&acme, phone(1)).await;
    assert_eq!(read(&acme, sent).await.number, second, "free text outside of the inbox too");
    // A later message goes to the first number: both windows are open, and the last one counts.
    engine.pass(Duration::from_secs(3600)).await;
    let now = engine.clock().now();
    acme.receive(first, wrote(phone(1), "two", now)).await.unwrap();
    assert_eq!(reply(&acme).await, Ok(first));
    engine.pass(Duration::from_secs(3600)).await;
    acme.receive(second, wrote(phone(1), "three", engine.clock().now())).await.unwrap();
    assert_eq!(reply(&acme).await, Ok(second));
    // The window of the last message counts.
    engine.pass(DAY - Duration::from_secs(1)).await;
    assert_eq!(reply(&acme).await, Ok(second));
    engine.pass(Duration::from_secs(1)).await;
    let closed = SendMessageError::WindowClosed;
    assert_eq!(reply(&acme).await, refused(closed.clone()));
    assert_eq!(
        acme.send_message(text(phone(1)), None).await.unwrap_err(),
        IdempotentError::Refused(closed)
    );
}

#[tokio::test(start_paused = true)]
async fn when_that_number_is_removed_another_answers_that_was_written_to() {
    let (engine, acme, [first, second]) = begin().await;
    engine.admin().disconnect_number(&id("acme"), second).await.unwrap();
    assert_eq!(reply(&acme).await, refused(SendMessageError::WindowClosed));
    acme.receive(first, wrote(phone(1), "two", START)).await.unwrap();
    assert_eq!(reply(&acme).await, Ok(first));
    engine.admin().disconnect_number(&id("acme"), first).await.unwrap();
    assert_eq!(reply(&acme).await, refused(SendMessageError::NotConnected));
}

#[tokio::test(start_paused = true)]
async fn what_was_written_last_counts_however_late_an_earlier_message_comes() {
    let (engine, acme, [first, second]) = begin().await;
    engine.pass(Duration::from_secs(600)).await;
    let at = |seconds| START.plus(Duration::from_secs(seconds));
    acme.receive(first, wrote(phone(1), "two", at(300))).await.unwrap();
    acme.receive(second, wrote(phone(1), "late", at(60))).await.unwrap();
    assert_eq!(reply(&acme).await, Ok(first));
    // Times are whole seconds: within one second, the last arrival counts as the last message.
    acme.receive(second, wrote(phone(1), "three", at(300))).await.unwrap();
    assert_eq!(reply(&acme).await, Ok(second));
}

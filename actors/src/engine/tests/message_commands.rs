//! Commands about messages, for the engine's model.

use proptest::prelude::*;

use crate::{
    IdempotencyKey, IdempotentError, MessageContent, MessageSent, Replayable, Route, SendMessage,
    SendMessageError, TemplateMessage,
};
use postrider_channel::callback::{Callback, Progress, StatusUpdate};
use postrider_channel::{Failure, Origin};
use postrider_domain::template::TemplateName;
use postrider_domain::template::{TemplateCategory, TemplateStatus};
use postrider_domain::{EventKind, MessageId, NumberId, PublicEvent, SenderNotes};
use postrider_workspace::NewTemplate;

use super::model::Answer;
use super::*;

/// The provider's report on a message.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reported {
    Sent,
    Delivered,
    Read,
    Failed,
}

/// Returns any report.
pub(super) fn reported() -> impl Strategy<Value = Reported> {
    prop_oneof![
        Just(Reported::Sent),
        Just(Reported::Delivered),
        Just(Reported::Read),
        Just(Reported::Failed),
    ]
}

/// Sends a template, which needs no open window.
pub(super) async fn send_message(
    workspace: &Workspace,
    to: Phone,
) -> Result<MessageSent, SendMessageError> {
    match send_message_under(workspace, to, None).await {
        Ok(sent) => Ok(sent.answer),
        Err(IdempotentError::Refused(error)) => Err(error),
        Err(why) => panic!("{why}: there was no key"),
    }
}

/// Waits until a message was sent, without reading it: that would have its records written before.
pub(super) async fn until_sent(workspace: &Workspace, id: MessageId) {
    let is_it = |event: &PublicEvent| match event {
        PublicEvent::Message(step) => step.message_id == id && step.kind == EventKind::MessageSent,
        _ => false,
    };
    until("the message is sent", async || {
        log(workspace).await.iter().any(|entry| is_it(&entry.event))
    })
    .await;
}

/// Sends the same under an idempotency key, if there is one.
pub(super) async fn send_message_under(
    workspace: &Workspace,
    to: Phone,
    key: Option<&str>,
) -> Result<Replayable<MessageSent>, IdempotentError<SendMessageError>> {
    let TemplateName { name, language } = welcome_name();
    let content = TemplateMessage { name, language, components: Vec::new() };
    let content = MessageContent::Template(content);
    let notes = SenderNotes::default();
    let key = key.map(|key| IdempotencyKey::new(Route::SendMessage, key, b""));
    let message = SendMessage { to: to.into(), content, answers: None, notes, from: None };
    workspace.send_message(message, key).await
}

/// Receives a provider's report on a message.
pub(super) async fn report(engine: Engine, message: MessageId, reported: Reported) -> Answer {
    let workspace = engine.workspace(&id("acme")).unwrap();
    let status = match reported {
        Reported::Sent => Progress::Sent,
        Reported::Delivered => Progress::Delivered,
        Reported::Read => Progress::Read,
        Reported::Failed => Progress::Failed(Failure::permanent(Some(131_026))),
    };
    let (origin, at) = (Origin::Message(message), engine.clock().now());
    let statuses = vec![StatusUpdate {
        origin,
        provider_id: "wamid".into(),
        status,
        at,
        to: None,
        known_as: None,
        user_id: None,
    }];
    let callback = Callback { statuses, ..Callback::default() };
    // The report may be refused; the provider would repeat it.
    workspace.receive(NumberId::from_bytes([0; 16]), callback).await.ok();
    Answer::Reported
}

fn welcome_name() -> TemplateName {
    TemplateName { name: "welcome".into(), language: "en".into() }
}

/// Returns a template without parameters.
pub(super) fn welcome() -> NewTemplate {
    let TemplateName { name, language } = welcome_name();
    NewTemplate {
        name,
        language,
        category: TemplateCategory::Utility,
        status: TemplateStatus::Approved,
        components: vec![serde_json::json!({"type": "BODY", "text": "Welcome!"})],
    }
}

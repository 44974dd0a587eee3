//! Single messages: texts from a contact, and sends and reads.

use postrider_actors::{MessageContent, MessageState, SendMessage, Workspace};
use postrider_channel::callback::{Callback, Inbound};
use postrider_domain::{MessageId, Phone, SenderNotes, Timestamp};

pub(crate) fn wrote(from: Phone, provider_id: &str, at: Timestamp) -> Callback {
    said(from, provider_id, "Hello", at)
}

pub(crate) fn said(from: Phone, provider_id: &str, text: &str, at: Timestamp) -> Callback {
    let inbound = Inbound {
        provider_id: provider_id.into(),
        from: Some(from),
        user_id: None,
        username: None,
        name: None,
        kind: "text".into(),
        text: text.into(),
        line: "".into(),
        at,
        referral: None,
        media: None,
        content: None,
        about: None,
        forwarded: false,
    };
    Callback { inbound: vec![inbound], ..Callback::default() }
}

pub(crate) fn text(to: Phone) -> SendMessage {
    let content = MessageContent::Text("Your table is ready.".parse().unwrap());
    let notes = SenderNotes::default();
    SendMessage { to: to.into(), content, answers: None, notes, from: None }
}

pub(crate) async fn send(workspace: &Workspace, to: Phone) -> MessageId {
    workspace.send_message(text(to), None).await.unwrap().answer.message_id
}

pub(crate) async fn read(workspace: &Workspace, id: MessageId) -> MessageState {
    workspace.message(id).await.unwrap().unwrap()
}

//! The records of a single message.

use expect_test::expect;

use super::MessageStatus;
use super::content::content_key;
use super::record::{MessageError, MessageState};
use postrider_domain::golden::{AT, Sheet, UNIQUE};
use postrider_domain::template::TemplateName;
use postrider_domain::{
    MessageId, MessageKind, NumberId, ObjectContent, RenderedContent, SenderNotes, TemplateContent,
    WorkspaceId,
};

fn state() -> MessageState {
    MessageState {
        message_id: MessageId::from_parts(AT, UNIQUE),
        to: "+15550123456".parse().unwrap(),
        kind: MessageKind::Template,
        template: Some(TemplateName { name: "offer".into(), language: "en_US".into() }),
        status: MessageStatus::Failed,
        error: Some(MessageError {
            reason: "channel_refused".into(),
            code: Some(131_026),
            details: "no".into(),
        }),
        number: NumberId::from_parts(AT, UNIQUE + 1),
        price: 2,
        created_at: AT,
        give_up_at: AT,
        unknown_at: Some(AT),
        held_at: Some(AT),
        sent_at: Some(AT),
        delivered_at: None,
        read_at: Some(AT),
        failed_at: Some(AT),
        notes: SenderNotes::default(),
        pinned: false,
        answers: None,
        provider_id: None,
        media: None,
        broadcast: None,
    }
}

#[test]
fn a_message_is_stored_as_ever() {
    let (id, mut sheet) = (state().message_id, Sheet::default());
    let workspace: WorkspaceId = "acme".parse().unwrap();
    sheet.text("key", &MessageState::key(&workspace, id));
    sheet.json("message", &state());
    let metadata = [("é".to_owned(), "1".to_owned())].into();
    let notes = SenderNotes { reference: Some("order-7".to_owned()), metadata };
    sheet.json("notes", &notes);
    let noted = serde_json::to_vec(&MessageState { notes, ..state() }).unwrap();
    assert!(serde_json::from_slice::<MessageState>(&noted).unwrap().notes.reference.is_some());
    use MessageStatus::{Delivered, Failed, Held, Queued, Read, Sent, Unknown};
    sheet.json("statuses", &[Queued, Unknown, Sent, Delivered, Read, Failed, Held]);
    sheet.json("kinds", &[MessageKind::Text, MessageKind::Template]);
    sheet.text("content key", &content_key(&workspace, id));
    sheet.json("text", &RenderedContent::Text("Hé".parse().unwrap()));
    let template = TemplateName { name: "offer".into(), language: "en".into() };
    let components = r#"[{"type":"body"}]"#.into();
    let content = TemplateContent { template, components, text: "Hi".into() };
    sheet.json("template", &RenderedContent::Template(content));
    let (object, text) = (r#"{"link":"l"}"#.into(), "A".into());
    let content =
        ObjectContent { kind: MessageKind::Image, object, text, about: None, media: None };
    sheet.json("object", &RenderedContent::Object(content));
    sheet.is(expect![[r#"
        key: acme\x00\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        message: {"message_id":"msg_01hf7yat3v041061050r3gg28a","to":15550123456,"kind":"template","template":{"name":"offer","language":"en_US"},"status":"failed","error":{"reason":"channel_refused","code":131026,"details":"no"},"number":"num_01hf7yat3v041061050r3gg28b","price":2,"created_at":1700000000123,"give_up_at":1700000000123,"unknown_at":1700000000123,"held_at":1700000000123,"sent_at":1700000000123,"read_at":1700000000123,"failed_at":1700000000123}
        notes: {"reference":"order-7","metadata":{"é":"1"}}
        statuses: ["queued","unknown","sent","delivered","read","failed","held"]
        kinds: ["text","template"]
        content key: acme\x00\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\nc
        text: {"text":"Hé"}
        template: {"template":{"template":{"name":"offer","language":"en"},"components":"[{\"type\":\"body\"}]","text":"Hi"}}
        object: {"object":{"kind":"image","object":"{\"link\":\"l\"}","text":"A"}}
    "#]]);
    let mut earlier = serde_json::to_value(state()).unwrap();
    for field in ["template", "unknown_at", "sent_at", "delivered_at", "read_at", "failed_at"] {
        earlier.as_object_mut().unwrap().remove(field);
    }
    let read: MessageState = serde_json::from_value(earlier.clone()).unwrap();
    assert_eq!((&read.template, read.failed_at, read.price), (&None, None, 2));
    // What earlier versions wrote of a new message.
    for field in ["template", "error", "unknown_at", "sent_at", "delivered_at", "read_at"] {
        earlier[field] = serde_json::Value::Null;
    }
    let with_nulls: MessageState = serde_json::from_value(earlier).unwrap();
    assert!(with_nulls == MessageState { error: None, ..read });
}

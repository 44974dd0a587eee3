//! The records of conversations and of their messages.

use expect_test::expect;

use super::*;
use crate::conversations::WrittenContext;
use postrider_domain::event::message::ReferralData;
use postrider_domain::golden::{AT, Sheet, UNIQUE};

fn conversation() -> Conversation {
    let contact = ContactId::from_parts(AT, UNIQUE + 1);
    Conversation {
        status: ConversationStatus::Pending,
        assigned_to: Some("bo".into()),
        last_message: "Hi".into(),
        added: 0x0102,
        ..Conversation::new(contact, AT, AT, UNIQUE)
    }
}

fn address() -> Email {
    Email::new("ann@example.com").unwrap()
}

fn by_message() -> Conversation {
    let number = Some(NumberId::from_parts(AT, UNIQUE + 2));
    Conversation { number, number_at: Some(AT), ..conversation() }
}

fn by_mail() -> Conversation {
    let references = vec!["<a@example.com>".into(), "<b@example.com>".into()];
    let thread = MailThread { address: address(), subject: "Hé".into(), references };
    Conversation { mail: Some(thread), ..conversation() }
}

#[test]
fn a_conversation_is_stored_as_ever() {
    let mut sheet = Sheet::default();
    sheet.json("by message", &by_message());
    sheet.json("by mail", &by_mail());
    sheet.json("statuses", &ConversationStatus::ALL);
    for status in ConversationStatus::ALL {
        sheet.bytes("status in the order of activity", &[status.as_byte()]);
    }
    sheet.is(expect![[r#"
        by message: {"id":"cnv_01hf7yat3v041061050r3gg28a","contact_id":"con_01hf7yat3v041061050r3gg28b","status":"pending","assigned_to":"bo","last_message":"Hi","last_message_at":1700000000123,"created_at":1700000000123,"active_at":1700000000123,"added":258,"number":"num_01hf7yat3v041061050r3gg28c","number_at":1700000000123}
        by mail: {"id":"cnv_01hf7yat3v041061050r3gg28a","contact_id":"con_01hf7yat3v041061050r3gg28b","status":"pending","assigned_to":"bo","last_message":"Hi","last_message_at":1700000000123,"created_at":1700000000123,"active_at":1700000000123,"added":258,"mail":{"address":"ann@example.com","subject":"Hé","references":["<a@example.com>","<b@example.com>"]}}
        statuses: ["open","pending","resolved"]
        status in the order of activity: 00
        status in the order of activity: 01
        status in the order of activity: 02
    "#]]);
    for conversation in [by_message(), by_mail()] {
        let json = serde_json::to_value(&conversation).unwrap();
        assert!(serde_json::from_value::<Conversation>(json).unwrap() == conversation);
    }
}

#[test]
fn what_was_written_is_stored_as_ever() {
    let written = |direction, mail| Written {
        direction,
        kind: "text".into(),
        text: "Hé".into(),
        at: AT,
        mail,
        provider_id: None,
        media: None,
        content: None,
    };
    let media = WrittenMedia {
        media_id: MediaId::from_parts(AT, UNIQUE),
        mime_type: "image/png".into(),
        filename: None,
    };
    let with_file = Written { media: Some(media), ..written(Direction::In, None) };
    let context =
        WrittenContext { message_id: Some(MessageId::from_parts(AT, UNIQUE)), forwarded: true };
    let object = Some(serde_json::json!({"latitude": 1.5, "name": "é"}));
    let referral = ReferralData {
        source_type: "ad".into(),
        source_id: "42".into(),
        headline: None,
        body: None,
        source_url: None,
        ctwa_clid: Some("é".into()),
    };
    let (context, referral) = (Some(context), Some(referral));
    let content = WrittenContent { object, truncated: true, context, referral };
    let with_content = Written { content: Some(Box::new(content)), ..written(Direction::In, None) };
    let known = MailKnownBy { message_id: "<a@example.com>".into(), address: address() };
    let mut sheet = Sheet::default();
    sheet.json("in", &written(Direction::In, Some(known)));
    sheet.json("out", &written(Direction::Out, None));
    sheet.json("with a file", &with_file);
    sheet.json("with content", &with_content);
    sheet.is(expect![[r#"
        in: {"direction":"in","kind":"text","text":"Hé","at":1700000000123,"mail":{"message_id":"<a@example.com>","address":"ann@example.com"}}
        out: {"direction":"out","kind":"text","text":"Hé","at":1700000000123}
        with a file: {"direction":"in","kind":"text","text":"Hé","at":1700000000123,"media":{"media_id":"med_01hf7yat3v041061050r3gg28a","mime_type":"image/png"}}
        with content: {"direction":"in","kind":"text","text":"Hé","at":1700000000123,"content":{"object":{"latitude":1.5,"name":"é"},"truncated":true,"context":{"message_id":"msg_01hf7yat3v041061050r3gg28a","forwarded":true},"referral":{"source_type":"ad","source_id":"42","ctwa_clid":"é"}}}
    "#]]);
}

#[test]
fn keys_are_as_ever() {
    let (workspace, of) = ("acme".parse().unwrap(), by_message());
    let message = MessageId::from_parts(AT, UNIQUE + 3);
    let mut sheet = Sheet::default();
    sheet.text("conversation", &conversation_key(&workspace, of.id));
    let place = place_of(of.contact_id);
    sheet.text("of a contact", &contact_key(&workspace, kind_of(&of), place));
    sheet.text("of a contact, by mail", &contact_key(&workspace, kind_of(&by_mail()), place));
    sheet.text("activity", &active_key(&workspace, &of));
    sheet.text("messages", &messages_prefix(&workspace, of.id));
    sheet.text("message", &message_key(&workspace, &of, message, AT));
    sheet.text("gone", &prefix(&workspace, b'g'));
    sheet.is(expect![[r#"
        conversation: acme\x00c\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        of a contact: acme\x00o\x00\x00\x00\x01\x02\x03\x04\x05
        of a contact, by mail: acme\x00e\x00\x00\x00\x01\x02\x03\x04\x05
        activity: acme\x00a\x00\x00\x01\x8b\xcf\xe5h{\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        messages: acme\x00m\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        message: acme\x00m\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x01\x8b\xcf\xe5h\x00\x00\x00\x00\x00\x00\x00\x01\x02\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\r
        gone: acme\x00g
    "#]]);
}

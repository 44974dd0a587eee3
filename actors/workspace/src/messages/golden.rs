//! The records of a single message.

use std::time::Duration;

use expect_test::expect;

use super::MessageStatus;
use super::content::content_key;
use super::record::{MessageError, MessageState};
use postrider_domain::fuzz::each_fault;
use postrider_domain::golden::{AT, Sheet, UNIQUE};
use postrider_domain::template::TemplateName;
use postrider_domain::{
    MediaId, MessageId, MessageKind, NumberId, PartyId, SenderNotes, Timestamp, WorkspaceId,
};
use postrider_store::StoreError;

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
        of_several: false,
    }
}

/// Returns a message as it is when it is accepted.
pub(super) fn queued() -> MessageState {
    let new = MessageState { error: None, unknown_at: None, held_at: None, ..state() };
    MessageState {
        status: MessageStatus::Queued,
        give_up_at: AT.plus(Duration::from_secs(24 * 3600)),
        sent_at: None,
        read_at: None,
        failed_at: None,
        ..new
    }
}

/// Returns a message with everything that one can have; some moments are before its own.
fn with_all() -> MessageState {
    let metadata = [("é".to_owned(), "1".to_owned())].into();
    MessageState {
        to: PartyId::User("US.13491208".parse().unwrap()),
        created_at: AT.plus(Duration::from_millis(5)),
        give_up_at: Timestamp::from_millis(7),
        delivered_at: Some(AT),
        notes: SenderNotes { reference: Some("order-7".to_owned()), metadata },
        pinned: true,
        answers: Some("wamid.1".into()),
        provider_id: Some("wamid.2".into()),
        media: Some(MediaId::from_parts(AT, UNIQUE)),
        ..state()
    }
}

#[test]
fn a_message_is_stored_as_ever() {
    let (id, mut sheet) = (state().message_id, Sheet::default());
    let workspace: WorkspaceId = "acme".parse().unwrap();
    sheet.text("key", &MessageState::key(&workspace, id));
    for (name, state) in [("failed", state()), ("queued", queued()), ("with all", with_all())] {
        let bytes = state.encode();
        sheet.bytes(name, &bytes);
        assert!(MessageState::decode(id, &bytes).as_ref() == Ok(&state));
        each_fault(&bytes, |damaged| drop(MessageState::decode(id, damaged)));
        for cut in 0..bytes.len() {
            assert!(MessageState::decode(id, &bytes[..cut]).is_err(), "{cut}");
        }
        assert!(MessageState::decode(id, &[&*bytes, &[0]].concat()).is_err());
        let with_first =
            |first: u8| MessageState::decode(id, &[&[first], &bytes[1..]].concat()).unwrap_err();
        assert!(matches!(with_first(0), StoreError::Damaged(_)));
        for version in [2, 31] {
            let newer = StoreError::Newer(format!("a message has version {version}"));
            assert_eq!(with_first(version), newer);
        }
    }
    use MessageStatus::{Delivered, Failed, Held, Queued, Read, Sent, Unknown};
    sheet.postcard("statuses", &[Queued, Unknown, Sent, Delivered, Read, Failed, Held]);
    sheet.text("content key", &content_key(&workspace, id));
    sheet.is(expect![[r#"
        key: acme\x00\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        failed:
            01018bcfe5687b0102030405060708090b00c09bf0f639000501056f6666657205656e5f5553010f
            6368616e6e656c5f7265667573656401d2ff07026e6f020000010001000100000100010000000000
            0000
        queued:
            01018bcfe5687b0102030405060708090b00c09bf0f639000001056f6666657205656e5f55530002
            0080f0b252000000000000000000000000
        with all:
            01018bcfe5687b0102030405060708090b010b55532e3133343931323038000501056f6666657205
            656e5f5553010f6368616e6e656c5f7265667573656401d2ff07026e6f020af1a1abfef962010901
            09010901090109010901076f726465722d370102c3a9013101010777616d69642e31010777616d69
            642e320110018bcfe5687b0102030405060708090a
        statuses: 00010203040506
        content key: acme\x00\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\nc
    "#]]);
}

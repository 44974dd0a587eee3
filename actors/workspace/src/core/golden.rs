//! The stored forms of a workspace: its settings, its balance, its memory in a snapshot.

use expect_test::expect;

use super::hot_state::HotState;
use super::otp::types::OtpSent;
use super::records::{self, Profile};
use postrider_domain::code::{CodeLength, Expiry};
use postrider_domain::event::{Delivery, Repeat};
use postrider_domain::golden::{AT, Sheet, UNIQUE};
use postrider_domain::template::TemplateName;
use postrider_domain::{
    Destinations, Event, LimitsOverride, MessageId, NumberId, RequestId, Timestamp, WorkspaceId,
};
use postrider_number::record::{NewNumber, NewProvider, NumberRecord};
use postrider_store::view::codec;
use postrider_store::{Change, Group, MemoryStore, Store, Table};

fn workspace() -> WorkspaceId {
    "acme".parse().unwrap()
}

fn profile() -> Profile {
    Profile {
        name: "Acmé".into(),
        created_at: AT,
        limits: LimitsOverride {
            key_requests_per_hour: Some(1),
            key_requests_per_minute: Some(2),
            otp_per_phone_10m: Some(3),
            otp_per_phone_hour: Some(4),
            otp_per_workspace_hour: Some(5),
            contacts_per_minute: Some(6),
            unauthenticated_per_minute: Some(7),
            ..LimitsOverride::default()
        },
        otp_template: Some(TemplateName { name: "code".into(), language: "de".into() }),
        destinations: Destinations {
            allow: vec!["1".parse().unwrap(), "49".parse().unwrap()],
            deny: vec!["1876".parse().unwrap()],
            safe: vec!["43".parse().unwrap()],
            adaptive: Some(postrider_domain::AdaptiveMode::Report),
        },
        otp_channels: Vec::new(),
        otp_texts: Default::default(),
        alone: None,
    }
}

#[test]
fn settings_and_balance_are_stored_as_ever() {
    let number = NumberId::from_parts(AT, UNIQUE);
    let mut sheet = Sheet::default();
    sheet.text("profile key", &records::profile_key(&workspace()));
    sheet.json("profile", &profile());
    sheet.json("new profile", &Profile::new("acme".into(), AT));
    sheet.text("credits key", &records::credits_key(&workspace()));
    sheet.text("number key", &records::number_key(&workspace(), number));
    sheet.text("facts key", &records::facts_key(&workspace(), number));
    sheet.text("check key", &records::check_key(&workspace(), number));
    sheet.text("templates wanted key", &records::templates_wanted_key(&workspace()));
    sheet.is(expect![[r#"
        profile key: acme\x00profile
        profile: {"name":"Acmé","created_at":1700000000123,"limits":{"key_requests_per_hour":1,"key_requests_per_minute":2,"otp_per_phone_10m":3,"otp_per_phone_hour":4,"otp_per_workspace_hour":5,"contacts_per_minute":6,"unauthenticated_per_minute":7},"otp_template":{"name":"code","language":"de"},"destinations":{"allow":["1","49"],"deny":["1876"],"safe":["43"],"adaptive":"report"}}
        new profile: {"name":"acme","created_at":1700000000123,"limits":{},"otp_template":null,"destinations":{"allow":[],"deny":[]}}
        credits key: acme\x00credits
        number key: acme\x00number/\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        facts key: acme\x00number-facts/\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        check key: acme\x00number-check/\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        templates wanted key: acme\x00templates/wanted
    "#]]);
    assert_eq!(codec::encode(&profile()), serde_json::to_vec(&profile()).unwrap());

    let new = NewNumber::of(NewProvider::Sandbox);
    let keys = postrider_domain::keys::MasterKeys::single([7; 32]);
    let record = NumberRecord::new(number, AT, new, &keys);
    let store = MemoryStore::new();
    let put = |key, value: Vec<u8>| Change::put(Table::Workspaces, key, value);
    let changes = [
        put(records::profile_key(&workspace()), codec::encode(&profile())),
        put(records::credits_key(&workspace()), 0x0102_u64.to_be_bytes().to_vec()),
        put(records::number_key(&workspace(), number), codec::encode(&record)),
    ];
    store.commit(Group::new(None, &changes)).unwrap();
    let read = records::load(&store, &workspace()).unwrap().unwrap();
    assert_eq!((read.profile, read.credits, read.numbers), (profile(), 0x0102, vec![record.info]));
    assert_eq!(records::all_ids(&store).unwrap(), [workspace()]);
}

/// A memory with something of everything in it.
fn hot() -> HotState {
    let expiry = Expiry::from_seconds(600).unwrap();
    let length = CodeLength::from_digits(6).unwrap();
    let phone = "+15550123456".parse().unwrap();
    let first = RequestId::from_parts(AT, UNIQUE);
    let at = Timestamp::from_millis(AT.as_millis() + 4000);
    let second = RequestId::from_parts(at, UNIQUE);
    let sent = |id| Event::OtpSent { id, phone, expiry, length, key_version: 1 };
    let message = |number| MessageId::from_parts(at, UNIQUE + number);
    let events = [
        sent(first),
        Event::OtpDelivery { id: first, delivery: Delivery::Sent },
        Event::OtpResent { id: first, at },
        Event::OtpMissed { id: first, attempts: 2 },
        sent(second),
        Event::OtpDelivery { id: second, delivery: Delivery::Unknown },
        Event::OtpRepeat { id: second, repeat: Some(Repeat { count: 1, due: Some(at) }) },
        Event::PumpingSuspected { calling_code: 1, at },
        Event::MessageQueued {
            id: message(0),
            give_up_at: at,
            claimed: false,
            unwritten: Box::default(),
        },
        Event::MessageQueued {
            id: message(1),
            give_up_at: at,
            claimed: false,
            unwritten: (*b"message").into(),
        },
        Event::MessageClaimed { id: message(1) },
    ];
    let mut journal = Vec::new();
    events.iter().for_each(|event| event.encode_into(&mut journal));
    let mut hot = HotState::default();
    hot.replay(&journal).unwrap();
    hot
}

fn encoded(hot: &HotState) -> Vec<u8> {
    let mut bytes = Vec::new();
    hot.encode_into(&mut bytes);
    bytes
}

#[test]
fn a_memory_is_written_to_a_snapshot_and_read_as_ever() {
    let bytes = encoded(&hot());
    let mut sheet = Sheet::default();
    sheet.bytes("memory", &bytes);
    sheet.bytes("empty", &encoded(&HotState::default()));
    let mut rebased = hot();
    rebased.rebase(Timestamp::from_millis(AT.as_millis() - 7_200_000));
    sheet.bytes("rebased", &encoded(&rebased));
    sheet.is(expect![[r#"
        memory:
            010000018bcfe5781b000000000000000210018bcfe5687b0102030405060708090ac09bf0f639d8
            0406010200000110018bcfe5781b0102030405060708090ac09bf0f639d804060100000300000000
            00000000030000018bcfe5687b000000000000018bcfe5781b000000000000018bcfe5781b000000
            010000000000000002018bcfe5781b0102030405060708090a0000018bcfe5781b0000000000018b
            cfe5781b0102030405060708090b0000018bcfe5781b01000000076d6573736167650110018bcfe5
            781b0102030405060708090a01019bf095ffbc310110018bcfe5687b0102030405060708090a0101
            00009ee91c010102010000000000000000
        empty:
            01000000000000000000000000000000000000000000000000000000000000000000000000000000
            000000000000
        rebased:
            010000018bcf778b7b000000000000000210018bcfe5687b0102030405060708090ac09bf0f639d8
            0406010200000110018bcfe5781b0102030405060708090ac09bf0f639d804060100000300000000
            00000000030000018bcf778b7b000000000000018bcf778b7b000000000000018bcf778b7b000000
            010000000000000002018bcfe5781b0102030405060708090a0000018bcfe5781b0000000000018b
            cfe5781b0102030405060708090b0000018bcfe5781b01000000076d6573736167650110018bcfe5
            781b0102030405060708090a0101fb96defbbc310110018bcfe5687b0102030405060708090a0101
            000210018bcfe5687b0102030405060708090afb96defbbc3110018bcfe5781b0102030405060708
            090afb96defbbc319ce91c010102010000000000000000
    "#]]);
    for bytes in [bytes, encoded(&rebased)] {
        assert_eq!(encoded(&HotState::decode(&bytes).unwrap()), bytes);
    }
}

#[test]
fn answers_under_an_idempotency_key_are_stored_as_ever() {
    use crate::broadcasts::BroadcastMade;
    use crate::contacts::create::CreatedContact;
    use crate::messages::{MessageSent, MessageStatus};
    use postrider_broadcast::record::BroadcastStatus;
    use postrider_domain::BroadcastId;
    let mut sheet = Sheet::default();
    let request_id = RequestId::from_parts(AT, UNIQUE);
    let without = OtpSent { request_id, expires_at: AT, number: None };
    let code = OtpSent { number: Some(NumberId::from_parts(AT, UNIQUE)), ..without };
    sheet.postcard("code", &without);
    sheet.postcard("code through a number", &code);
    let message_id = MessageId::from_parts(AT, UNIQUE);
    use MessageStatus::{Delivered, Failed, Held, Queued, Read, Sent, Unknown};
    for status in [Queued, Unknown, Sent, Delivered, Read, Failed, Held] {
        sheet.postcard(status.as_str(), &MessageSent { message_id, status, number: None });
    }
    let number = code.number;
    let sent = MessageSent { message_id, status: Sent, number };
    sheet.postcard("sent through a number", &sent);
    let broadcast_id = BroadcastId::from_parts(AT, UNIQUE);
    use BroadcastStatus as Is;
    for status in [Is::Scheduled, Is::Queued, Is::Sending, Is::Paused, Is::Completed] {
        let made = BroadcastMade { broadcast_id, status, total_recipients: 300 };
        sheet.postcard(&format!("broadcast {}", status.as_str()), &made);
    }
    let contact = || CreatedContact::from(crate::contacts::golden::contact());
    sheet.postcard("contact", &contact());
    sheet.postcard("contacts", &vec![None, Some(contact())]);
    sheet.is(expect![[r#"
        code: 10018bcfe5687b0102030405060708090afbd095ffbc3100
        code through a number:
            10018bcfe5687b0102030405060708090afbd095ffbc310110018bcfe5687b010203040506070809
            0a
        queued: 10018bcfe5687b0102030405060708090a0000
        unknown: 10018bcfe5687b0102030405060708090a0100
        sent: 10018bcfe5687b0102030405060708090a0200
        delivered: 10018bcfe5687b0102030405060708090a0300
        read: 10018bcfe5687b0102030405060708090a0400
        failed: 10018bcfe5687b0102030405060708090a0500
        held: 10018bcfe5687b0102030405060708090a0600
        sent through a number: 10018bcfe5687b0102030405060708090a020110018bcfe5687b0102030405060708090a
        broadcast scheduled: 10018bcfe5687b0102030405060708090a00ac02
        broadcast queued: 10018bcfe5687b0102030405060708090a01ac02
        broadcast sending: 10018bcfe5687b0102030405060708090a02ac02
        broadcast paused: 10018bcfe5687b0102030405060708090a03ac02
        broadcast completed: 10018bcfe5687b0102030405060708090a04ac02
        contact:
            10018bcfe5687b0000000102060708090a08c3816e6e20c5907a01c09bf0f639010f416e6e404578
            616d706c652e636f6d020376697002c3a93c7b22616765223a34312c226c697374223a5b3130302e
            302c2278222c6e756c6c5d2c22706c616e223a22676f6c64222c2273756d223a3130302e307dfbd0
            95ffbc31fbd095ffbc31
        contacts:
            02000110018bcfe5687b0000000102060708090a08c3816e6e20c5907a01c09bf0f639010f416e6e
            404578616d706c652e636f6d020376697002c3a93c7b22616765223a34312c226c697374223a5b31
            30302e302c2278222c6e756c6c5d2c22706c616e223a22676f6c64222c2273756d223a3130302e30
            7dfbd095ffbc31fbd095ffbc31
    "#]]);
}

//! Pure: each event type has a number, a payload and a subject of its own, and keeps them.

use std::collections::BTreeSet;

use expect_test::expect;
use serde_json::{Value, json};

use super::*;
use crate::event::LogEntry;
use crate::event::message::tests::steps;
use crate::event::subjects::about_hash;
use crate::golden::{AT, Sheet};
use samples::{events, noted, other_payloads, payloads, variants};

mod samples;

/// The fields by which webhook queues once found the contact of every event. The hash of these
/// values is on disk.
const NAMED_BY: [&str; 7] =
    ["phone", "to", "recipient", "from", "contact_id", "user_id", "message_id"];

#[test]
fn every_event_type_has_a_row_and_a_name_of_its_own() {
    let names: Vec<_> = PublicEvent::TYPES.iter().map(|it| it.name).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    assert_eq!(events().iter().map(PublicEvent::kind).collect::<Vec<_>>(), names);
    let rows: Vec<_> = PublicEvent::TYPES.iter().map(|it| (it.name, it.what)).collect();
    assert_eq!(rows, PublicEvent::KINDS);
    assert!(rows.iter().all(|(_, what)| !what.is_empty()));
}

#[test]
fn every_event_begins_with_the_number_of_its_row() {
    let mut numbers = BTreeSet::new();
    for event in events() {
        let number = match &event {
            PublicEvent::OtpSent { .. } => vec![0],
            PublicEvent::OtpVerified { .. } => vec![1],
            PublicEvent::OtpExpired { .. } => vec![2],
            PublicEvent::OtpFailed { .. } => vec![3],
            PublicEvent::Noted { .. } => vec![5],
            PublicEvent::Message(_) => vec![6],
            PublicEvent::Other { kind, .. } => vec![4, u8::try_from(u32::from(*kind)).unwrap()],
        };
        let mut bytes = Vec::new();
        let entry = LogEntry { at: AT, event };
        entry.encode_into(&mut bytes);
        let at_bytes = postcard::to_stdvec(&AT).unwrap().len();
        assert_eq!(bytes[at_bytes..at_bytes + number.len()], number, "{}", entry.event.kind());
        assert_eq!(LogEntry::decode_all(&bytes).collect::<Vec<_>>(), [Ok(entry)]);
        assert!(numbers.insert(number));
    }
}

/// Adds the hashes of the texts among the values.
fn hashes_in(data: &Value, found: &mut BTreeSet<u32>) {
    match data {
        Value::String(text) => found.extend(about_hash(text)),
        Value::Array(values) => values.iter().for_each(|value| hashes_in(value, found)),
        Value::Object(fields) => fields.values().for_each(|value| hashes_in(value, found)),
        _ => {}
    }
}

#[test]
fn every_event_is_about_the_names_in_its_data() {
    let messages = steps().map(|(_, step)| PublicEvent::Message(step));
    let mut all = BTreeSet::new();
    for event in events().into_iter().chain(noted()).chain(messages) {
        let (mut expected, mut found) = (BTreeSet::new(), BTreeSet::new());
        hashes_in(&event.data(), &mut expected);
        event.about(&mut |hash| {
            found.insert(hash);
        });
        assert_eq!(found, expected, "{event:?}");
        all.extend(found);
    }
    assert!(all.len() > 5, "{all:?}");
}

#[test]
fn an_unknown_or_shortened_event_is_an_error() {
    for bytes in [
        &[0, 7, 0, 0][..],
        &[0, 5, 5, 4, 15, 0, 0, 0],
        &[0, 4, 99, 2, b'{', b'}'],
        &[0, 4, 26, 2, b'{'],
        &[0, 4, 26],
    ] {
        assert!(LogEntry::decode_all(bytes).next().unwrap().is_err(), "{bytes:?}");
    }
    assert_eq!(EventKind::try_from(99), Err(UnknownEventNumber(99)));
}

fn stored(payloads: Vec<EventData>) -> Sheet {
    let mut sheet = Sheet::default();
    for payload in payloads {
        let PublicEvent::Other { kind, data } = PublicEvent::from(payload) else { panic!() };
        sheet.plain(kind.as_str(), &data);
    }
    sheet
}

#[test]
fn payloads_are_stored_as_ever() {
    stored(payloads()).is(expect![[r#"
        otp.delivered: {"phone":"+15550123456","request_id":"otp_01hf7yat3v041061050r3gg28a"}
        broadcast.created: {"broadcast_id":"brd_01hf7yat3v041061050r3gg28a","name":"Spring \"é\"","reason":"the template is paused","status":"paused","total_recipients":7}
        broadcast.started: {"broadcast_id":"brd_01hf7yat3v041061050r3gg28a","name":"Spring \"é\"","reason":"the template is paused","status":"paused","total_recipients":7}
        broadcast.paused: {"broadcast_id":"brd_01hf7yat3v041061050r3gg28a","name":"Spring \"é\"","reason":"the template is paused","status":"paused","total_recipients":7}
        broadcast.resumed: {"broadcast_id":"brd_01hf7yat3v041061050r3gg28a","name":"Spring \"é\"","reason":"the template is paused","status":"paused","total_recipients":7}
        broadcast.completed: {"broadcast_id":"brd_01hf7yat3v041061050r3gg28a","counts":{"failed":1,"held":3,"sent":4,"suppressed":2,"unknown":0},"name":"Spring \"é\"","reason":"the template is paused","status":"completed","total_recipients":7}
        broadcast.cancelled: {"broadcast_id":"brd_01hf7yat3v041061050r3gg28a","name":"Spring \"é\"","reason":"the template is paused","status":"paused","total_recipients":7}
        broadcast.failed: {"broadcast_id":"brd_01hf7yat3v041061050r3gg28a","name":"Spring \"é\"","reason":"the template is paused","status":"paused","total_recipients":7}
        otp.pumping_suspected: {"calling_code":"971","hour":"2023-11-14T22:13:20.123Z","refused":true,"unverified":30}
        contact.created: {"contact_id":"con_01hf7yat3v041061050r3gg28a","created_at":"2023-11-14T22:13:20.123Z","custom_fields":{"age":41,"plan":"gold","sum":100.0},"email":"ann@example.com","name":"Ánn","phone":"+15550123456","tags":["vip","é"],"updated_at":"2023-11-14T22:13:20.123Z","user_id":null,"username":null}
        contact.updated: {"contact_id":"con_01hf7yat3v041061050r3gg28a","created_at":"2023-11-14T22:13:20.123Z","custom_fields":{"age":41,"plan":"gold","sum":100.0},"email":"ann@example.com","name":"Ánn","phone":"+15550123456","previous_phone":"+15550123456","previous_user_id":"US.1","tags":["vip","é"],"updated_at":"2023-11-14T22:13:20.123Z","user_id":"US.2","username":"ann"}
        contact.deleted: {"contact_id":"con_01hf7yat3v041061050r3gg28a","created_at":"2023-11-14T22:13:20.123Z","custom_fields":{"age":41,"plan":"gold","sum":100.0},"email":"ann@example.com","name":"Ánn","phone":"+15550123456","tags":["vip","é"],"updated_at":"2023-11-14T22:13:20.123Z","user_id":null,"username":null}
        conversation.opened: {"assigned_to":"ann","channel":"messaging","contact_id":"con_01hf7yat3v041061050r3gg28a","conversation_id":"cnv_01hf7yat3v041061050r3gg28a","created_at":"2023-11-14T22:13:20.123Z","last_message":"Hi","last_message_at":"2023-11-14T22:13:20.123Z","phone":"+15550123456","status":"open"}
        conversation.updated: {"assigned_to":"ann","channel":"messaging","contact_id":"con_01hf7yat3v041061050r3gg28a","conversation_id":"cnv_01hf7yat3v041061050r3gg28a","created_at":"2023-11-14T22:13:20.123Z","last_message":"Hi","last_message_at":"2023-11-14T22:13:20.123Z","phone":"+15550123456","status":"open"}
        webhook.disabled: {"reason":"gone","webhook_id":"whk_01hf7yat3v041061050r3gg28a"}
        webhook.test: {"webhook_id":"whk_01hf7yat3v041061050r3gg28a"}
        message.queued: {"error":{"code":131026,"details":"no such phone","reason":"channel_refused"},"message_id":"msg_01hf7yat3v041061050r3gg28a","number_id":"num_01hf7yat3v041061050r3gg28a","status":"queued","template":{"language":"en","name":"offer"},"to":"+15550123456","type":"template"}
        message.sent: {"error":{"code":131026,"details":"no such phone","reason":"channel_refused"},"message_id":"msg_01hf7yat3v041061050r3gg28a","number_id":"num_01hf7yat3v041061050r3gg28a","status":"sent","template":{"language":"en","name":"offer"},"to":"+15550123456","type":"template"}
        message.delivered: {"error":{"code":131026,"details":"no such phone","reason":"channel_refused"},"message_id":"msg_01hf7yat3v041061050r3gg28a","number_id":"num_01hf7yat3v041061050r3gg28a","status":"delivered","template":{"language":"en","name":"offer"},"to":"+15550123456","type":"template"}
        message.read: {"error":{"code":131026,"details":"no such phone","reason":"channel_refused"},"message_id":"msg_01hf7yat3v041061050r3gg28a","number_id":"num_01hf7yat3v041061050r3gg28a","status":"read","template":{"language":"en","name":"offer"},"to":"+15550123456","type":"template"}
        message.failed: {"error":{"code":131026,"details":"no such phone","reason":"channel_refused"},"message_id":"msg_01hf7yat3v041061050r3gg28a","number_id":"num_01hf7yat3v041061050r3gg28a","status":"failed","template":{"language":"en","name":"offer"},"to":"+15550123456","type":"template"}
        message.received: {"at":"2023-11-14T22:13:20.123Z","contact_id":"con_01hf7yat3v041061050r3gg28a","conversation_id":"cnv_01hf7yat3v041061050r3gg28a","from":"+15550123456","message_id":"msg_01hf7yat3v041061050r3gg28a","name":"Ann","number_id":"num_01hf7yat3v041061050r3gg28a","referral":{"headline":"Spring","source_id":"42","source_type":"ad"},"text":"Hi","type":"text"}
        template.status_changed: {"account_id":"107","category":"utility","language":"en_US","name":"offer","previous_status":"approved","status":"in_appeal"}
        number.stopped: {"error_code":131031,"number_id":"num_01hf7yat3v041061050r3gg28a","reason":"locked"}
        number.recovered: {"number_id":"num_01hf7yat3v041061050r3gg28a"}
        contact.opted_out: {"contact_id":"con_01hf7yat3v041061050r3gg28a","phone":"+15550123456","reason":"asked to","source":"api"}
        contact.opted_in: {"contact_id":"con_01hf7yat3v041061050r3gg28a","phone":"+15550123456"}
        channel.error: {"details":"locked","error_code":131031,"number_id":"num_01hf7yat3v041061050r3gg28a","title":"Account locked"}
        contact.merged: {"contact_id":"con_01hf7yat3v041061050r3gg28a","merged_contact_id":"con_01hf7yat3v041061050r3gg28b"}
        channel.ignored: {"count":3,"field":"messages","number_id":"num_01hf7yat3v041061050r3gg28a","reason":"no_sender"}
        otp.cancelled: {"phone":"+15550123456","request_id":"otp_01hf7yat3v041061050r3gg28a"}
        otp.try_started: {"channel":"sms","phone":"+15550123456","request_id":"otp_01hf7yat3v041061050r3gg28a","step":2}
        otp.try_ended: {"channel":"sms","error_code":30007,"next":"email","phone":"+15550123456","request_id":"otp_01hf7yat3v041061050r3gg28a","status":"failed","step":2}
        template.category_changed: {"account_id":"107","category":"marketing","language":"en_US","name":"offer","previous":"utility"}
        template.quality_changed: {"account_id":"107","language":"en_US","name":"offer","previous":"unknown","quality":"red"}
        media.ready: {"filename":"é.png","media_id":"med_01hf7yat3v041061050r3gg28a","message_id":"msg_01hf7yat3v041061050r3gg28a","mime_type":"image/png","sha256":"ba78","size":3}
        media.failed: {"error":"refused","filename":"é.png","media_id":"med_01hf7yat3v041061050r3gg28a","message_id":"msg_01hf7yat3v041061050r3gg28a","mime_type":"image/png"}
        message.held: {"error":{"code":131026,"details":"no such phone","reason":"channel_refused"},"message_id":"msg_01hf7yat3v041061050r3gg28a","number_id":"num_01hf7yat3v041061050r3gg28a","status":"held","template":{"language":"en","name":"offer"},"to":"+15550123456","type":"template"}
        number.changed: {"field":"pace","number_id":"num_01hf7yat3v041061050r3gg28a","previous":"80","value":"1000"}
        number.limit_reached: {"daily_recipients":250,"frees_at":"2023-11-14T22:13:20.123Z","portfolio_id":"107"}
        number.limit_freed: {"daily_recipients":null,"portfolio_id":"107"}
        otp.decided: {"decision":"probe","phone":"+15550123456","prefix":"1555","request_id":"otp_01hf7yat3v041061050r3gg28a","rule":"prefix","sent":50,"verified":4}
    "#]]);
}

#[test]
fn payloads_of_other_ways_are_stored_as_ever() {
    stored(other_payloads()).is(expect![[r#"
        message.queued: {"message_id":"msg_01hf7yat3v041061050r3gg28a","number_id":"num_01hf7yat3v041061050r3gg28a","status":"queued","to":"+15550123456","type":"text"}
        message.queued: {"message_id":"msg_01hf7yat3v041061050r3gg28a","metadata":{"é":"1"},"number_id":"num_01hf7yat3v041061050r3gg28a","reference":"order-7","status":"queued","to":"+15550123456","type":"text"}
        message.queued: {"message_id":"msg_01hf7yat3v041061050r3gg28a","number_id":"num_01hf7yat3v041061050r3gg28a","recipient":"US.13491208","status":"queued","type":"text"}
        message.read: {"broadcast_id":"brd_01hf7yat3v041061050r3gg28a","message_id":"msg_01hf7yat3v041061050r3gg28a","status":"read","to":"+15550123456"}
        message.read: {"broadcast_id":"brd_01hf7yat3v041061050r3gg28a","message_id":"msg_01hf7yat3v041061050r3gg28a","status":"read"}
        message.failed: {"error":{"code":131026,"details":"no such phone","reason":"channel_refused"},"message_id":"msg_01hf7yat3v041061050r3gg28a","status":"failed","to":"ann@example.com","type":"email"}
        message.received: {"at":"2023-11-14T22:13:20.123Z","channel":"email","contact_id":"con_01hf7yat3v041061050r3gg28a","conversation_id":"cnv_01hf7yat3v041061050r3gg28a","from":"ann@example.com","message_id":"msg_01hf7yat3v041061050r3gg28a","name":"Ann","subject":"Order","text":"Hi","type":"email"}
        broadcast.started: {"broadcast_id":"brd_01hf7yat3v041061050r3gg28a","name":"Spring \"é\"","status":"paused","total_recipients":7}
        broadcast.started: {"broadcast_id":"brd_01hf7yat3v041061050r3gg28a","metadata":{"é":"1"},"name":"Spring \"é\"","reason":"the template is paused","reference":"order-7","status":"paused","total_recipients":7}
        broadcast.completed: {"broadcast_id":"brd_01hf7yat3v041061050r3gg28a","counts":{"failed":1,"held":3,"sent":4,"suppressed":2,"unknown":0},"metadata":{"é":"1"},"name":"Spring \"é\"","reason":"the template is paused","reference":"order-7","status":"completed","total_recipients":7}
        contact.created: {"contact_id":"con_01hf7yat3v041061050r3gg28a","created_at":"2023-11-14T22:13:20.123Z","custom_fields":{"age":41,"plan":"gold","sum":100.0},"email":null,"name":"Ánn","phone":null,"tags":["vip","é"],"updated_at":"2023-11-14T22:13:20.123Z","user_id":null,"username":null}
        conversation.opened: {"assigned_to":null,"channel":"messaging","contact_id":"con_01hf7yat3v041061050r3gg28a","conversation_id":"cnv_01hf7yat3v041061050r3gg28a","created_at":"2023-11-14T22:13:20.123Z","last_message":"Hi","last_message_at":"2023-11-14T22:13:20.123Z","phone":null,"status":"open"}
        number.stopped: {"error_code":null,"number_id":"num_01hf7yat3v041061050r3gg28a","reason":""}
        message.received: {"at":"2023-11-14T22:13:20.123Z","contact_id":"con_01hf7yat3v041061050r3gg28a","conversation_id":"cnv_01hf7yat3v041061050r3gg28a","from":null,"message_id":"msg_01hf7yat3v041061050r3gg28a","name":"Ann","number_id":"num_01hf7yat3v041061050r3gg28a","referral":{"headline":"Spring","source_id":"42","source_type":"ad"},"text":"Hi","type":"text","user_id":"US.13491208","username":"ann"}
        contact.opted_in: {"contact_id":null,"phone":null,"user_id":"US.13491208"}
        contact.opted_out: {"contact_id":null,"phone":null,"reason":null,"source":"channel","user_id":"US.13491208"}
        message.received: {"at":"2023-11-14T22:13:20.123Z","contact_id":"con_01hf7yat3v041061050r3gg28a","conversation_id":"cnv_01hf7yat3v041061050r3gg28a","from":"+15550123456","media":{"filename":"é.png","media_id":"med_01hf7yat3v041061050r3gg28a","mime_type":"image/png","state":"pending"},"message_id":"msg_01hf7yat3v041061050r3gg28a","name":"Ann","number_id":"num_01hf7yat3v041061050r3gg28a","referral":{"headline":"Spring","source_id":"42","source_type":"ad"},"text":"Hi","type":"image"}
        message.received: {"at":"2023-11-14T22:13:20.123Z","contact_id":"con_01hf7yat3v041061050r3gg28a","content":{"latitude":1.5,"longitude":-2,"name":"é"},"content_truncated":true,"context":{"forwarded":true,"message_id":"msg_01hf7yat3v041061050r3gg28a"},"conversation_id":"cnv_01hf7yat3v041061050r3gg28a","from":"+15550123456","message_id":"msg_01hf7yat3v041061050r3gg28a","name":"Ann","number_id":"num_01hf7yat3v041061050r3gg28a","referral":{"body":"é","ctwa_clid":"c1","source_id":"42","source_type":"ad","source_url":"https://ad.example.com"},"text":"Hi","type":"location"}
    "#]]);
}

#[test]
fn data_is_the_payload_as_json() {
    for payload in payloads().into_iter().chain(other_payloads()) {
        let data = serde_json::to_value(&payload).unwrap();
        assert_eq!(PublicEvent::from(payload).data(), data);
    }
    let mut sheet = Sheet::default();
    for event in variants().into_iter().chain(noted()) {
        sheet.plain(event.kind(), &event.data().to_string());
    }
    sheet.is(expect![[r#"
        otp.sent: {"expires_at":"2023-11-14T22:13:20.123Z","phone":"+15550123456","request_id":"otp_01hf7yat3v041061050r3gg28a","resend":true}
        otp.verified: {"phone":"+15550123456","request_id":"otp_01hf7yat3v041061050r3gg28a"}
        otp.expired: {"phone":"+15550123456","request_id":"otp_01hf7yat3v041061050r3gg28a"}
        otp.failed: {"error_code":131026,"phone":"+15550123456","reason":"channel_refused","request_id":"otp_01hf7yat3v041061050r3gg28a"}
        otp.sent: {"expires_at":"2023-11-14T22:13:20.123Z","metadata":{"flow":"sign-in"},"number_id":"num_01hf7yat3v041061050r3gg28a","phone":"+15550123456","reference":"order 7","request_id":"otp_01hf7yat3v041061050r3gg28a","resend":true,"test":true}
        otp.verified: {"metadata":{"flow":"sign-in"},"number_id":"num_01hf7yat3v041061050r3gg28a","phone":"+15550123456","reference":"order 7","request_id":"otp_01hf7yat3v041061050r3gg28a","test":true}
        otp.expired: {"metadata":{"flow":"sign-in"},"number_id":"num_01hf7yat3v041061050r3gg28a","phone":"+15550123456","reference":"order 7","request_id":"otp_01hf7yat3v041061050r3gg28a","test":true}
        otp.failed: {"error_code":131026,"metadata":{"flow":"sign-in"},"number_id":"num_01hf7yat3v041061050r3gg28a","phone":"+15550123456","reason":"channel_refused","reference":"order 7","request_id":"otp_01hf7yat3v041061050r3gg28a","test":true}
        otp.delivered: {"channel":"sms","metadata":{"flow":"sign-in"},"number_id":"num_01hf7yat3v041061050r3gg28a","phone":"+15550123456","reference":"order 7","request_id":"otp_01hf7yat3v041061050r3gg28a","test":true}
        otp.try_started: {"channel":"sms","metadata":{"flow":"sign-in"},"number_id":"num_01hf7yat3v041061050r3gg28a","phone":"+15550123456","reference":"order 7","request_id":"otp_01hf7yat3v041061050r3gg28a","step":2,"test":true}
        otp.try_ended: {"channel":"sms","error_code":30007,"metadata":{"flow":"sign-in"},"next":"email","number_id":"num_01hf7yat3v041061050r3gg28a","phone":"+15550123456","reference":"order 7","request_id":"otp_01hf7yat3v041061050r3gg28a","status":"failed","step":2,"test":true}
        otp.verified: {"contact_id":"con_01hf7yat3v041061050r3gg28a","phone":"+15550123456","request_id":"otp_01hf7yat3v041061050r3gg28a"}
    "#]]);
}

#[test]
fn an_event_is_about_whom_it_always_was() {
    let other = other_payloads().into_iter().map(PublicEvent::from);
    let steps = steps().map(|(_, step)| PublicEvent::Message(step));
    for event in events().into_iter().chain(other).chain(noted()).chain(steps) {
        let data = event.data();
        let subject = NAMED_BY.iter().find_map(|field| data[field].as_str());
        assert_eq!(event.subject().as_deref(), subject, "{data}");
    }
    let kind = EventKind::MessageRead;
    for (data, subject) in [
        (json!({"message_id": "m", "to": null}), Some("m")),
        (json!({"message_id": 7}), None),
        (json!([]), None),
    ] {
        let event = PublicEvent::Other { kind, data: data.to_string().into() };
        assert_eq!(event.subject().as_deref(), subject);
    }
}

/// A payload has the fields that the document declares, and lacks only optional ones.
#[cfg(feature = "schema")]
#[test]
fn payloads_have_the_fields_of_their_schemas() {
    let fields = |data: &serde_json::Value| -> BTreeSet<String> {
        data.as_object().unwrap().keys().cloned().collect()
    };
    let other = other_payloads().into_iter().map(PublicEvent::from);
    let mut seen = std::collections::BTreeMap::<_, BTreeSet<String>>::new();
    for event in events().into_iter().chain(other).chain(noted()) {
        let (name, schema) = (event.event_type().schemas)().swap_remove(0);
        let schema = serde_json::to_value(schema).unwrap();
        let (declared, data) = (fields(&schema["properties"]), fields(&event.data()));
        let required = schema["required"].as_array().unwrap();
        assert!(data.is_subset(&declared), "{name}: {data:?}");
        assert!(required.iter().all(|it| data.contains(it.as_str().unwrap())), "{name}: {data:?}");
        seen.entry((name, declared)).or_default().extend(data);
    }
    for ((name, declared), seen) in seen {
        assert_eq!(seen, declared, "{name}");
    }
}

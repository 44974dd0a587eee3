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
        otp.delivered: {"request_id":"otp_01hf7yat3v041061050r3gg28a","phone":"+15550123456"}
        broadcast.created: {"broadcast_id":"brd_01hf7yat3v041061050r3gg28a","name":"Spring \"é\"","status":"paused","total_recipients":7,"reason":"the template is paused"}
        broadcast.started: {"broadcast_id":"brd_01hf7yat3v041061050r3gg28a","name":"Spring \"é\"","status":"paused","total_recipients":7,"reason":"the template is paused"}
        broadcast.paused: {"broadcast_id":"brd_01hf7yat3v041061050r3gg28a","name":"Spring \"é\"","status":"paused","total_recipients":7,"reason":"the template is paused"}
        broadcast.resumed: {"broadcast_id":"brd_01hf7yat3v041061050r3gg28a","name":"Spring \"é\"","status":"paused","total_recipients":7,"reason":"the template is paused"}
        broadcast.completed: {"broadcast_id":"brd_01hf7yat3v041061050r3gg28a","name":"Spring \"é\"","status":"completed","total_recipients":7,"reason":"the template is paused","counts":{"held":3,"sent":4,"failed":1,"unknown":0,"suppressed":2}}
        broadcast.cancelled: {"broadcast_id":"brd_01hf7yat3v041061050r3gg28a","name":"Spring \"é\"","status":"paused","total_recipients":7,"reason":"the template is paused"}
        broadcast.failed: {"broadcast_id":"brd_01hf7yat3v041061050r3gg28a","name":"Spring \"é\"","status":"paused","total_recipients":7,"reason":"the template is paused"}
        otp.pumping_suspected: {"calling_code":"971","unverified":30,"hour":"2023-11-14T22:13:20.123Z","refused":true}
        contact.created: {"contact_id":"con_01hf7yat3v041061050r3gg28a","name":"Ánn","phone":"+15550123456","user_id":null,"username":null,"email":"ann@example.com","tags":["vip","é"],"custom_fields":{"age":41,"plan":"gold","sum":100.0},"created_at":"2023-11-14T22:13:20.123Z","updated_at":"2023-11-14T22:13:20.123Z"}
        contact.updated: {"contact_id":"con_01hf7yat3v041061050r3gg28a","name":"Ánn","phone":"+15550123456","user_id":"US.2","username":"ann","previous_phone":"+15550123456","previous_user_id":"US.1","email":"ann@example.com","tags":["vip","é"],"custom_fields":{"age":41,"plan":"gold","sum":100.0},"created_at":"2023-11-14T22:13:20.123Z","updated_at":"2023-11-14T22:13:20.123Z"}
        contact.deleted: {"contact_id":"con_01hf7yat3v041061050r3gg28a","name":"Ánn","phone":"+15550123456","user_id":null,"username":null,"email":"ann@example.com","tags":["vip","é"],"custom_fields":{"age":41,"plan":"gold","sum":100.0},"created_at":"2023-11-14T22:13:20.123Z","updated_at":"2023-11-14T22:13:20.123Z"}
        conversation.opened: {"conversation_id":"cnv_01hf7yat3v041061050r3gg28a","contact_id":"con_01hf7yat3v041061050r3gg28a","phone":"+15550123456","status":"open","channel":"messaging","assigned_to":"ann","last_message":"Hi","last_message_at":"2023-11-14T22:13:20.123Z","created_at":"2023-11-14T22:13:20.123Z"}
        conversation.updated: {"conversation_id":"cnv_01hf7yat3v041061050r3gg28a","contact_id":"con_01hf7yat3v041061050r3gg28a","phone":"+15550123456","status":"open","channel":"messaging","assigned_to":"ann","last_message":"Hi","last_message_at":"2023-11-14T22:13:20.123Z","created_at":"2023-11-14T22:13:20.123Z"}
        webhook.disabled: {"webhook_id":"whk_01hf7yat3v041061050r3gg28a","reason":"gone"}
        webhook.test: {"webhook_id":"whk_01hf7yat3v041061050r3gg28a"}
        message.queued: {"message_id":"msg_01hf7yat3v041061050r3gg28a","to":"+15550123456","type":"template","status":"queued","template":{"name":"offer","language":"en"},"error":{"reason":"channel_refused","code":131026,"details":"no such phone"},"number_id":"num_01hf7yat3v041061050r3gg28a"}
        message.sent: {"message_id":"msg_01hf7yat3v041061050r3gg28a","to":"+15550123456","type":"template","status":"sent","template":{"name":"offer","language":"en"},"error":{"reason":"channel_refused","code":131026,"details":"no such phone"},"number_id":"num_01hf7yat3v041061050r3gg28a"}
        message.delivered: {"message_id":"msg_01hf7yat3v041061050r3gg28a","to":"+15550123456","type":"template","status":"delivered","template":{"name":"offer","language":"en"},"error":{"reason":"channel_refused","code":131026,"details":"no such phone"},"number_id":"num_01hf7yat3v041061050r3gg28a"}
        message.read: {"message_id":"msg_01hf7yat3v041061050r3gg28a","to":"+15550123456","type":"template","status":"read","template":{"name":"offer","language":"en"},"error":{"reason":"channel_refused","code":131026,"details":"no such phone"},"number_id":"num_01hf7yat3v041061050r3gg28a"}
        message.failed: {"message_id":"msg_01hf7yat3v041061050r3gg28a","to":"+15550123456","type":"template","status":"failed","template":{"name":"offer","language":"en"},"error":{"reason":"channel_refused","code":131026,"details":"no such phone"},"number_id":"num_01hf7yat3v041061050r3gg28a"}
        message.received: {"message_id":"msg_01hf7yat3v041061050r3gg28a","conversation_id":"cnv_01hf7yat3v041061050r3gg28a","contact_id":"con_01hf7yat3v041061050r3gg28a","number_id":"num_01hf7yat3v041061050r3gg28a","from":"+15550123456","name":"Ann","type":"text","text":"Hi","at":"2023-11-14T22:13:20.123Z","referral":{"source_type":"ad","source_id":"42","headline":"Spring"}}
        template.status_changed: {"name":"offer","language":"en_US","category":"utility","status":"in_appeal","previous_status":"approved","account_id":"107"}
        number.stopped: {"number_id":"num_01hf7yat3v041061050r3gg28a","error_code":131031,"reason":"locked"}
        number.recovered: {"number_id":"num_01hf7yat3v041061050r3gg28a"}
        contact.opted_out: {"phone":"+15550123456","contact_id":"con_01hf7yat3v041061050r3gg28a","reason":"asked to","source":"api"}
        contact.opted_in: {"phone":"+15550123456","contact_id":"con_01hf7yat3v041061050r3gg28a"}
        channel.error: {"number_id":"num_01hf7yat3v041061050r3gg28a","error_code":131031,"title":"Account locked","details":"locked"}
        contact.merged: {"contact_id":"con_01hf7yat3v041061050r3gg28a","merged_contact_id":"con_01hf7yat3v041061050r3gg28b"}
        channel.ignored: {"number_id":"num_01hf7yat3v041061050r3gg28a","field":"messages","reason":"no_sender","count":3}
        otp.cancelled: {"request_id":"otp_01hf7yat3v041061050r3gg28a","phone":"+15550123456"}
        otp.try_started: {"request_id":"otp_01hf7yat3v041061050r3gg28a","phone":"+15550123456","step":2,"channel":"sms"}
        otp.try_ended: {"request_id":"otp_01hf7yat3v041061050r3gg28a","phone":"+15550123456","step":2,"channel":"sms","status":"failed","error_code":30007,"next":"email"}
        template.category_changed: {"name":"offer","language":"en_US","previous":"utility","category":"marketing","account_id":"107"}
        template.quality_changed: {"name":"offer","language":"en_US","previous":"unknown","quality":"red","account_id":"107"}
        media.ready: {"media_id":"med_01hf7yat3v041061050r3gg28a","message_id":"msg_01hf7yat3v041061050r3gg28a","mime_type":"image/png","filename":"é.png","size":3,"sha256":"ba78"}
        media.failed: {"media_id":"med_01hf7yat3v041061050r3gg28a","message_id":"msg_01hf7yat3v041061050r3gg28a","mime_type":"image/png","filename":"é.png","error":"refused"}
        message.held: {"message_id":"msg_01hf7yat3v041061050r3gg28a","to":"+15550123456","type":"template","status":"held","template":{"name":"offer","language":"en"},"error":{"reason":"channel_refused","code":131026,"details":"no such phone"},"number_id":"num_01hf7yat3v041061050r3gg28a"}
        number.changed: {"number_id":"num_01hf7yat3v041061050r3gg28a","field":"pace","previous":"80","value":"1000"}
        number.limit_reached: {"portfolio_id":"107","daily_recipients":250,"frees_at":"2023-11-14T22:13:20.123Z"}
        number.limit_freed: {"portfolio_id":"107","daily_recipients":null}
        otp.decided: {"request_id":"otp_01hf7yat3v041061050r3gg28a","phone":"+15550123456","prefix":"1555","rule":"prefix","sent":50,"verified":4,"decision":"probe"}
    "#]]);
}

#[test]
fn payloads_of_other_ways_are_stored_as_ever() {
    stored(other_payloads()).is(expect![[r#"
        message.queued: {"message_id":"msg_01hf7yat3v041061050r3gg28a","to":"+15550123456","type":"text","status":"queued","number_id":"num_01hf7yat3v041061050r3gg28a"}
        message.queued: {"message_id":"msg_01hf7yat3v041061050r3gg28a","to":"+15550123456","type":"text","status":"queued","number_id":"num_01hf7yat3v041061050r3gg28a","reference":"order-7","metadata":{"é":"1"}}
        message.queued: {"message_id":"msg_01hf7yat3v041061050r3gg28a","recipient":"US.13491208","type":"text","status":"queued","number_id":"num_01hf7yat3v041061050r3gg28a"}
        message.read: {"message_id":"msg_01hf7yat3v041061050r3gg28a","broadcast_id":"brd_01hf7yat3v041061050r3gg28a","to":"+15550123456","status":"read"}
        message.read: {"message_id":"msg_01hf7yat3v041061050r3gg28a","broadcast_id":"brd_01hf7yat3v041061050r3gg28a","status":"read"}
        message.failed: {"message_id":"msg_01hf7yat3v041061050r3gg28a","to":"ann@example.com","type":"email","status":"failed","error":{"reason":"channel_refused","code":131026,"details":"no such phone"}}
        message.received: {"message_id":"msg_01hf7yat3v041061050r3gg28a","conversation_id":"cnv_01hf7yat3v041061050r3gg28a","contact_id":"con_01hf7yat3v041061050r3gg28a","channel":"email","from":"ann@example.com","subject":"Order","name":"Ann","type":"email","text":"Hi","at":"2023-11-14T22:13:20.123Z"}
        broadcast.started: {"broadcast_id":"brd_01hf7yat3v041061050r3gg28a","name":"Spring \"é\"","status":"paused","total_recipients":7}
        broadcast.started: {"broadcast_id":"brd_01hf7yat3v041061050r3gg28a","name":"Spring \"é\"","status":"paused","total_recipients":7,"reason":"the template is paused","reference":"order-7","metadata":{"é":"1"}}
        broadcast.completed: {"broadcast_id":"brd_01hf7yat3v041061050r3gg28a","name":"Spring \"é\"","status":"completed","total_recipients":7,"reason":"the template is paused","counts":{"held":3,"sent":4,"failed":1,"unknown":0,"suppressed":2},"reference":"order-7","metadata":{"é":"1"}}
        contact.created: {"contact_id":"con_01hf7yat3v041061050r3gg28a","name":"Ánn","phone":null,"user_id":null,"username":null,"email":null,"tags":["vip","é"],"custom_fields":{"age":41,"plan":"gold","sum":100.0},"created_at":"2023-11-14T22:13:20.123Z","updated_at":"2023-11-14T22:13:20.123Z"}
        conversation.opened: {"conversation_id":"cnv_01hf7yat3v041061050r3gg28a","contact_id":"con_01hf7yat3v041061050r3gg28a","phone":null,"status":"open","channel":"messaging","assigned_to":null,"last_message":"Hi","last_message_at":"2023-11-14T22:13:20.123Z","created_at":"2023-11-14T22:13:20.123Z"}
        number.stopped: {"number_id":"num_01hf7yat3v041061050r3gg28a","error_code":null,"reason":""}
        message.received: {"message_id":"msg_01hf7yat3v041061050r3gg28a","conversation_id":"cnv_01hf7yat3v041061050r3gg28a","contact_id":"con_01hf7yat3v041061050r3gg28a","number_id":"num_01hf7yat3v041061050r3gg28a","from":null,"user_id":"US.13491208","username":"ann","name":"Ann","type":"text","text":"Hi","at":"2023-11-14T22:13:20.123Z","referral":{"source_type":"ad","source_id":"42","headline":"Spring"}}
        contact.opted_in: {"phone":null,"user_id":"US.13491208","contact_id":null}
        contact.opted_out: {"phone":null,"user_id":"US.13491208","contact_id":null,"reason":null,"source":"channel"}
        message.received: {"message_id":"msg_01hf7yat3v041061050r3gg28a","conversation_id":"cnv_01hf7yat3v041061050r3gg28a","contact_id":"con_01hf7yat3v041061050r3gg28a","number_id":"num_01hf7yat3v041061050r3gg28a","from":"+15550123456","name":"Ann","type":"image","text":"Hi","at":"2023-11-14T22:13:20.123Z","referral":{"source_type":"ad","source_id":"42","headline":"Spring"},"media":{"media_id":"med_01hf7yat3v041061050r3gg28a","mime_type":"image/png","filename":"é.png","state":"pending"}}
        message.received: {"message_id":"msg_01hf7yat3v041061050r3gg28a","conversation_id":"cnv_01hf7yat3v041061050r3gg28a","contact_id":"con_01hf7yat3v041061050r3gg28a","number_id":"num_01hf7yat3v041061050r3gg28a","from":"+15550123456","name":"Ann","type":"location","text":"Hi","at":"2023-11-14T22:13:20.123Z","referral":{"source_type":"ad","source_id":"42","body":"é","source_url":"https://ad.example.com","ctwa_clid":"c1"},"content":{"latitude":1.5,"longitude":-2,"name":"é"},"content_truncated":true,"context":{"message_id":"msg_01hf7yat3v041061050r3gg28a","forwarded":true}}
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

#[test]
fn a_payload_is_its_data_and_names_no_field_twice() {
    let steps = steps().map(|(_, step)| PublicEvent::Message(step));
    for event in events().into_iter().chain(noted()).chain(steps) {
        let (text, data) = (serde_json::to_string(&event.payload()).unwrap(), event.data());
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), data);
        assert_eq!(text.len(), data.to_string().len(), "{text}");
    }
}

#[test]
fn notes_that_are_no_object_are_left_out() {
    let event = |notes: &str| PublicEvent::Noted {
        event: Box::new(noted().swap_remove(0).plain().clone()),
        notes: notes.into(),
    };
    let plain = event("{}").data();
    assert!(plain.as_object().is_some_and(|fields| fields.len() > 1), "{plain}");
    for notes in ["", "{", "}", "[]", "null", "{\"a\"", "{\"a\":1}}", "{1}"] {
        assert_eq!(event(notes).data(), plain, "{notes}");
    }
    assert_eq!(event("{\"a\":1}").data()["a"], 1);
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
